#include "trace/export/chrome_writer.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

namespace shardscope::exports {
namespace {

constexpr size_t kBufferBytes = 1 << 20;

// Nanoseconds as microseconds with three digits behind the point.
std::string Microseconds(int64_t time_ns) {
  const uint64_t length =
      time_ns < 0 ? 0 - static_cast<uint64_t>(time_ns) : static_cast<uint64_t>(time_ns);
  return fmt::format("{}{}.{:03}", time_ns < 0 ? "-" : "", length / 1000, length % 1000);
}

}  // namespace

std::string JsonText(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

JsonMembers& JsonMembers::Add(std::string_view key, int64_t number) {
  return AddJson(key, std::to_string(number));
}

JsonMembers& JsonMembers::AddJson(std::string_view key, std::string_view json) {
  if (!text_.empty()) text_ += ", ";
  text_ += JsonText(key);
  text_ += ": ";
  text_ += json;
  return *this;
}

JsonMembers& JsonMembers::AddReal(std::string_view key, double number) {
  return std::isfinite(number) ? AddJson(key, fmt::format("{}", number)) : *this;
}

ChromeWriter::ChromeWriter(OutputFile* file, const JsonMembers& head) : file_(*file) {
  std::string text = head.Object();
  text.pop_back();
  Put(text + (head.empty() ? "" : ",\n") + "\"traceEvents\": [\n");
}

void ChromeWriter::Put(std::string_view text) {
  buffer_ += text;
  if (buffer_.size() < kBufferBytes) return;
  if (status_.ok()) status_ = file_.Write(buffer_);
  buffer_.clear();
}

void ChromeWriter::Event(char phase, ChromePlace place, std::string_view category,
                         std::string_view name, int64_t time_ns, std::string_view rest,
                         const JsonMembers& arguments) {
  std::string text = is_first_ ? "" : ",\n";
  is_first_ = false;
  text += fmt::format(R"({{"ph": "{}", "pid": {}, "tid": {}, "ts": {})", phase, place.process,
                      place.thread, Microseconds(time_ns));
  if (!category.empty()) text += ", \"cat\": " + JsonText(category);
  text += ", \"name\": " + JsonText(name);
  text += rest;
  if (!arguments.empty()) text += ", \"args\": " + arguments.Object();
  Put(text + "}");
}

void ChromeWriter::NameProcess(int64_t process, std::string_view name, int64_t position) {
  Event('M', {process, 0}, "", "process_name", 0, "", JsonMembers().Add("name", name));
  Event('M', {process, 0}, "", "process_sort_index", 0, "",
        JsonMembers().Add("sort_index", position));
}

void ChromeWriter::NameThread(ChromePlace place, std::string_view name, int64_t position) {
  Event('M', place, "", "thread_name", 0, "", JsonMembers().Add("name", name));
  Event('M', place, "", "thread_sort_index", 0, "", JsonMembers().Add("sort_index", position));
}

void ChromeWriter::Complete(ChromePlace place, std::string_view category, std::string_view name,
                            int64_t start_ns, int64_t end_ns, const JsonMembers& arguments) {
  Event('X', place, category, name, start_ns, ", \"dur\": " + Microseconds(end_ns - start_ns),
        arguments);
}

void ChromeWriter::Instant(ChromePlace place, std::string_view category, std::string_view name,
                           int64_t time_ns, const JsonMembers& arguments) {
  Event('i', place, category, name, time_ns, R"(, "s": "t")", arguments);
}

void ChromeWriter::Counter(int64_t process, std::string_view name, int64_t time_ns,
                           const JsonMembers& values) {
  Event('C', {process, 0}, "", name, time_ns, "", values);
}

void ChromeWriter::Arrow(std::string_view category, std::string_view name, ChromePlace from,
                         int64_t from_ns, ChromePlace to, int64_t to_ns) {
  const std::string id = fmt::format(", \"id\": {}", ++next_arrow_);
  Event('s', from, category, name, from_ns, id, {});
  Event('f', to, category, name, to_ns, id + R"(, "bp": "e")", {});
}

Status ChromeWriter::End() {
  Put("\n]}\n");
  if (status_.ok()) status_ = file_.Write(buffer_);
  buffer_.clear();
  return status_;
}

}  // namespace shardscope::exports
