#include "engine/tokenizer/text_steps.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "trace/base/text.h"

namespace shardscope::tokenizer {
namespace {

// Unicode's White_Space.
bool IsSpace(char32_t point) {
  return (point >= 0x09 && point <= 0x0d) || point == 0x20 || point == 0x85 || point == 0xa0 ||
         point == 0x1680 || (point >= 0x2000 && point <= 0x200a) || point == 0x2028 ||
         point == 0x2029 || point == 0x202f || point == 0x205f || point == 0x3000;
}

// What \w matches: letters, marks, decimal digits, connectors, joiners.
bool IsWord(char32_t point) {
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(point))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
      return true;
    default:
      return point == 0x200c || point == 0x200d;
  }
}

size_t SpacesInFront(std::string_view text) {
  const size_t whole = text.size();
  while (!text.empty()) {
    std::string_view rest = text;
    const std::optional<char32_t> point = TakeCodePoint(&rest);
    if (!point || !IsSpace(*point)) break;
    text = rest;
  }
  return whole - text.size();
}

// The last code point of `text`, which is not empty, and where it starts.
std::pair<char32_t, size_t> LastPoint(std::string_view text) {
  size_t start = text.size() - 1;
  while (start > 0 && (static_cast<unsigned char>(text[start]) & 0xc0) == 0x80) --start;
  std::string_view last = text.substr(start);
  return {TakeCodePoint(&last).value_or(0), start};
}

size_t SpacesAtEnd(std::string_view text) {
  size_t end = text.size();
  while (end > 0) {
    const auto [point, start] = LastPoint(text.substr(0, end));
    if (!IsSpace(point)) break;
    end = start;
  }
  return text.size() - end;
}

bool StandsAlone(std::string_view text, size_t start, size_t end) {
  if (start > 0 && IsWord(LastPoint(text.substr(0, start)).first)) return false;
  std::string_view behind = text.substr(end);
  const std::optional<char32_t> point = TakeCodePoint(&behind);
  return !point || !IsWord(*point);
}

// Whether a text of nothing but such code points is in NFC for certain: none of them is decomposed,
// reordered, or composed with the one before it. Most of what is written is found by this; the rest
// is asked of utf8proc.
bool IsPlainNfc(char32_t point) {
  return point < 0x300 || (point >= 0x400 && point <= 0x482) ||
         (point >= 0x2010 && point <= 0x205f) || (point >= 0x3001 && point <= 0x3029) ||
         (point >= 0x3041 && point <= 0x3096) || (point >= 0x309b && point <= 0x30ff) ||
         (point >= 0x4e00 && point <= 0x9fff) || (point >= 0xff00 && point <= 0xffef) ||
         (point >= 0x1f300 && point <= 0x1faff);
}

bool IsSurelyNfc(std::string_view text) {
  while (!text.empty()) {
    if (static_cast<unsigned char>(text.front()) < 0x80) {
      text.remove_prefix(1);
      continue;
    }
    const std::optional<char32_t> point = TakeCodePoint(&text);
    if (!point || !IsPlainNfc(*point)) return false;
  }
  return true;
}

// A part of a text that becomes the same whatever stands beside it.
struct Stretch {
  Extent source;
  Extent normal;
  bool is_same = false;  // byte for byte
};

// All of `text`: cut in front of plain characters, neighbours that stay as they are taken together.
std::vector<Stretch> StretchesOf(Normalizer normalizer, std::string_view text) {
  std::vector<Stretch> stretches;
  std::string storage;
  size_t normal = 0;
  for (size_t start = 0; start < text.size();) {
    size_t end = start;
    for (std::string_view rest = text.substr(start); !rest.empty();) {
      const std::optional<char32_t> point = TakeCodePoint(&rest);
      if (end > start && (!point || IsPlainNfc(*point))) break;
      end = text.size() - rest.size();
      if (!point) break;
    }
    if (end == start) end = start + 1;  // no UTF-8: `text` has none of it
    const std::string_view source = text.substr(start, end - start);
    const std::string_view changed = Normalize(normalizer, source, &storage);
    const bool is_same = changed == source;
    if (is_same && !stretches.empty() && stretches.back().is_same) {
      stretches.back().source.end = end;
      stretches.back().normal.end += changed.size();
    } else {
      stretches.push_back({{start, end}, {normal, normal + changed.size()}, is_same});
    }
    normal += changed.size();
    start = end;
  }
  return stretches;
}

}  // namespace

uint32_t AddedTokens::NextOf(uint32_t node, char byte) const {
  for (const auto& [next_byte, next] : nodes_[node].next) {
    if (next_byte == byte) return next;
  }
  return 0;  // the root is the next of none
}

void AddedTokens::Insert(std::string_view text, const AddedToken& token) {
  uint32_t node = 0;
  for (const char byte : text) {
    uint32_t next = NextOf(node, byte);
    if (next == 0) {
      next = static_cast<uint32_t>(nodes_.size());
      nodes_[node].next.emplace_back(byte, next);
      nodes_.emplace_back();
    }
    node = next;
  }
  starts_[static_cast<unsigned char>(text.front())] = true;
  nodes_[node].token = static_cast<int32_t>(tokens_.size());
  tokens_.push_back(token);
}

std::optional<AddedTokens::Found> AddedTokens::Find(std::string_view text, size_t from) const {
  if (empty()) return std::nullopt;
  for (size_t start = from; start < text.size(); ++start) {
    if (!starts_[static_cast<unsigned char>(text[start])]) continue;
    int32_t longest = -1;
    size_t end = start;
    uint32_t node = 0;
    for (size_t i = start; i < text.size(); ++i) {
      node = NextOf(node, text[i]);
      if (node == 0) break;
      if (nodes_[node].token >= 0) {
        longest = nodes_[node].token;
        end = i + 1;
      }
    }
    if (longest < 0) continue;
    const AddedToken& token = tokens_[static_cast<size_t>(longest)];
    if (token.single_word && !StandsAlone(text, start, end)) {
      start = end - 1;  // as if it had been found: what overlaps with it is not
      continue;
    }
    Found found{start, end, token.id};
    if (token.lstrip) found.start -= SpacesAtEnd(text.substr(from, start - from));
    if (token.rstrip) found.end += SpacesInFront(text.substr(end));
    return found;
  }
  return std::nullopt;
}

std::string_view Normalize(Normalizer normalizer, std::string_view text, std::string* storage) {
  if (normalizer == Normalizer::kNone || IsSurelyNfc(text)) return text;
  utf8proc_uint8_t* composed = nullptr;
  const utf8proc_ssize_t size =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                   static_cast<utf8proc_ssize_t>(text.size()), &composed,
                   static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> freed(composed, &std::free);
  if (size < 0) return text;  // out of memory; valid UTF-8 has no other error
  storage->assign(reinterpret_cast<const char*>(composed), static_cast<size_t>(size));
  return *storage;
}

void MoveToSource(Normalizer normalizer, std::string_view text, std::span<Extent> extents) {
  const std::vector<Stretch> stretches = StretchesOf(normalizer, text);
  // That a byte of the normal form is of: the last that does not begin behind it.
  const auto stretch_of = [&](size_t byte) -> const Stretch& {
    const auto behind = std::upper_bound(
        stretches.begin(), stretches.end(), byte,
        [](size_t at, const Stretch& stretch) { return at < stretch.normal.start; });
    return *(behind - 1);
  };
  for (Extent& extent : extents) {
    const Stretch& first = stretch_of(extent.start);
    const Stretch& last = stretch_of(std::max(extent.end, extent.start + 1) - 1);
    const size_t in_first = first.is_same ? extent.start - first.normal.start : 0;
    const size_t in_last = last.is_same ? extent.end - last.normal.start : 0;
    extent = {first.source.start + in_first,
              last.is_same ? last.source.start + in_last : last.source.end};
  }
}

}  // namespace shardscope::tokenizer
