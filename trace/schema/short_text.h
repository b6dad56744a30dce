// ShortText: up to 31 bytes of text inline, so that rows recorded while training never allocate.
// Longer text is cut to 28 bytes (at a UTF-8 character) plus "..."; see docs/trace.md.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <ostream>
#include <string>
#include <string_view>

namespace shardscope::schema {

class ShortText {
 public:
  static constexpr size_t kCapacity = 31;

  ShortText() = default;
  // Implicit: rows are filled with string literals, string_views and strings alike.
  ShortText(std::string_view text) { Assign(text); }    // NOLINT
  ShortText(const char* text) { Assign(text); }         // NOLINT
  ShortText(const std::string& text) { Assign(text); }  // NOLINT

  std::string_view view() const { return {bytes_.data(), size_}; }
  operator std::string_view() const { return view(); }  // NOLINT
  std::string str() const { return std::string(view()); }
  bool empty() const { return size_ == 0; }

  friend bool operator==(const ShortText& a, const ShortText& b) { return a.view() == b.view(); }
  friend bool operator==(const ShortText& a, std::string_view b) { return a.view() == b; }
  friend bool operator==(const ShortText& a, const std::string& b) { return a.view() == b; }
  friend bool operator==(const ShortText& a, const char* b) { return a.view() == b; }
  friend std::ostream& operator<<(std::ostream& out, const ShortText& text) {
    return out << text.view();
  }

 private:
  void Assign(std::string_view text) {
    if (text.size() <= kCapacity) {
      Copy(text, 0);
      return;
    }
    size_t keep = kCapacity - 3;
    while (keep > 0 && (static_cast<uint8_t>(text[keep]) & 0xC0) == 0x80) --keep;
    Copy(text.substr(0, keep), 0);
    Copy("...", keep);
  }
  void Copy(std::string_view text, size_t at) {
    if (!text.empty()) std::memcpy(bytes_.data() + at, text.data(), text.size());
    size_ = static_cast<uint8_t>(at + text.size());
  }

  std::array<char, kCapacity> bytes_;  // not cleared: only the first size_ bytes mean anything
  uint8_t size_ = 0;
};

}  // namespace shardscope::schema
