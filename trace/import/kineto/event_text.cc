#include "trace/import/kineto/event_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "trace/base/file_heads.h"

namespace shardscope::imports {
namespace {

constexpr std::string_view kSpace(" \t\r\n\0", 5);
constexpr std::string_view kSpaceAndCommas(" \t\r\n,\0", 6);
constexpr size_t kReadBytes = 1 << 20;
constexpr size_t kLargestEvent = 4 << 20;
constexpr size_t kLargestValue = 32 << 20;  // beside the events
constexpr size_t kMostValues = 1 << 12;
constexpr int kDeepest = 256;
// Beyond this much without any event what follows is none.
constexpr int64_t kMostWithoutEvent = 64 << 20;

}  // namespace

// Reads more behind what is there; false: there is nothing more.
bool EventTexts::Fill() {
  if (ended_) return false;
  const size_t keep = begin_;
  if (keep > 0) {
    std::memmove(buffer_.data(), buffer_.data() + keep, size_ - keep);
    offset_ += static_cast<int64_t>(keep);
    size_ -= keep;
    begin_ -= keep;
    last_begin_ = last_begin_ >= keep ? last_begin_ - keep : 0;
  }
  if (buffer_.size() < size_ + kReadBytes + kPadding) {
    buffer_.resize(std::max(2 * size_, size_ + kReadBytes) + kPadding);
  }
  const Result<size_t> count =
      source_.Read(buffer_.data() + size_, buffer_.size() - kPadding - size_);
  if (!count.ok()) cut_ = count.message();
  ended_ = !count.ok() || *count == 0;
  if (!ended_) size_ += *count;
  std::memset(buffer_.data() + size_, 0, kPadding);
  return !ended_;
}

char EventTexts::Peek(std::string_view passed) {
  while (true) {
    while (begin_ < size_ && passed.find(buffer_[begin_]) != std::string_view::npos) ++begin_;
    if (begin_ < size_) return buffer_[begin_];
    if (!Fill()) return '\0';
  }
}

// The value that begins at begin_: *end is behind it, relative to begin_. Names may have quotes in
// them that are not escaped; then a string seems to go over the end of a line, which none does.
EventTexts::Scan EventTexts::ScanValue(size_t limit, size_t* end) {
  int depth = 0;
  bool in_string = false;
  for (size_t at = 0;; ++at) {
    if (begin_ + at >= size_ && !Fill()) return Scan::kEnded;
    if (at >= limit) return Scan::kTooLong;
    const char c = buffer_[begin_ + at];
    if (in_string) {
      if (c == '\\') {
        ++at;
      } else if (c == '"') {
        in_string = false;
      } else if (c == '\n') {
        return Scan::kBroken;
      }
      continue;
    }
    switch (c) {
      case '"':
        in_string = true;
        break;
      case '{':
      case '[':
        if (++depth > kDeepest) return Scan::kBroken;
        break;
      case '}':
      case ']':
        if (--depth < 0) {  // the end of what a plain value is in
          *end = at;
          return Scan::kWhole;
        }
        if (depth == 0) {
          *end = at + 1;
          return Scan::kWhole;
        }
        break;
      case ',':
        if (depth == 0) {
          *end = at;
          return Scan::kWhole;
        }
        break;
      default:
        break;
    }
  }
}

void EventTexts::EndCut(const std::string& why) {
  if (cut_.empty()) {
    cut_ = fmt::format("{} after {} bytes", why, offset_ + static_cast<int64_t>(begin_));
  }
  place_ = Place::kEnd;
}

Status EventTexts::TakeStart() {
  switch (Peek(kBeforeJson)) {
    case '{':
      place_ = Place::kObject;
      break;
    case '[':
      place_ = Place::kEvents;
      is_list_ = true;
      break;
    default:
      return Status::Error("no JSON: it begins with neither { nor [");
  }
  ++begin_;
  return Status::Ok();
}

// A key and its value; the list of events is only begun.
Status EventTexts::TakeMember() {
  const char first = Peek(kSpaceAndCommas);
  if (first == '}' || first == '\0') {
    first == '}' ? void(place_ = Place::kEnd) : EndCut("it ends");
    return Status::Ok();
  }
  size_t end = 0;
  if (first != '"') {
    EndCut("it is no JSON any more");
    return Status::Ok();
  }
  // A key has no quotes in it.
  ++begin_;
  size_t length = 0;
  while (true) {
    if (begin_ + length >= size_ && !Fill()) break;
    if (length > 1024 || buffer_[begin_ + length] == '"') break;
    ++length;
  }
  const std::string key(buffer_.data() + begin_, std::min(length, size_ - begin_));
  begin_ = std::min(begin_ + length + 1, size_);
  if (Peek(kSpace) != ':') {
    EndCut("it is no JSON any more");
    return Status::Ok();
  }
  ++begin_;
  const char value = Peek(kSpace);
  if (key == "traceEvents" && value == '[') {
    ++begin_;
    place_ = Place::kEvents;
    return Status::Ok();
  }
  const Scan scan = ScanValue(kLargestValue, &end);
  if (scan != Scan::kWhole) {
    EndCut(fmt::format("the value of \"{}\" does not end", key));
    return Status::Ok();
  }
  if (values_.size() < kMostValues) {
    values_.emplace(key, std::string(buffer_.data() + begin_, end));
  }
  begin_ += end;
  return Status::Ok();
}

// Every event has its phase, and Kineto writes it first.
void EventTexts::SkipToNextEvent() {
  ++num_broken_;
  while (true) {
    const auto from = buffer_.begin() + static_cast<ptrdiff_t>(begin_);
    const auto to = buffer_.begin() + static_cast<ptrdiff_t>(size_);
    const auto brace = std::find(from, to, '{');
    bytes_without_event_ += brace - from;
    begin_ += static_cast<size_t>(brace - from);
    if (bytes_without_event_ > kMostWithoutEvent) return EndCut("there are no events any more");
    if (begin_ >= size_) {
      if (Fill()) continue;
      return EndCut("it ends");
    }
    size_t next = begin_ + 1;
    while (true) {
      if (next >= size_) {
        const size_t ahead = next - begin_;
        if (!Fill()) return EndCut("it ends");
        next = begin_ + ahead;
        continue;
      }
      if (kSpace.find(buffer_[next]) == std::string_view::npos) break;
      ++next;
    }
    const size_t ahead = next - begin_;
    while (begin_ + ahead + 5 > size_ && Fill()) {
    }
    if (std::string_view(buffer_.data() + begin_ + ahead, 5) == "\"ph\":") return;
    ++begin_;
    ++bytes_without_event_;
  }
}

Result<std::string_view> EventTexts::Next() {
  if (std::exchange(rejected_, false)) {
    begin_ = last_begin_ + 1;
    SkipToNextEvent();
  }
  while (true) {
    switch (place_) {
      case Place::kStart:
        SHARDSCOPE_RETURN_IF_ERROR(TakeStart());
        break;
      case Place::kObject:
        SHARDSCOPE_RETURN_IF_ERROR(TakeMember());
        break;
      case Place::kEnd:
        return std::string_view();
      case Place::kEvents: {
        const char first = Peek(kSpaceAndCommas);
        if (first == ']') {
          ++begin_;
          place_ = is_list_ ? Place::kEnd : Place::kObject;
          break;
        }
        if (first == '\0') {
          // A list without its object need not have an end, by the format.
          is_list_&& cut_.empty() ? void(place_ = Place::kEnd) : EndCut("it ends");
          break;
        }
        size_t end = 0;
        const Scan scan = first == '{' ? ScanValue(kLargestEvent, &end) : Scan::kBroken;
        if (scan == Scan::kEnded) {
          EndCut("it ends");
        } else if (scan != Scan::kWhole) {
          ++begin_;
          SkipToNextEvent();
        } else {
          bytes_without_event_ = 0;
          last_begin_ = begin_;
          begin_ += end;
          return std::string_view(buffer_.data() + last_begin_, end);
        }
        break;
      }
    }
  }
}

}  // namespace shardscope::imports
