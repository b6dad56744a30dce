#include "trace/store/remote/tail_protocol.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "trace/base/json_line.h"
#include "trace/base/words.h"
#include "trace/schema/ddl.h"

namespace shardscope::store {
namespace {

using Json = nlohmann::json;

constexpr size_t kRowsPerLine = 1000;
constexpr int kProtocol = 1;

std::string_view NameOf(SourceState state) {
  switch (state) {
    case SourceState::kLive:
      return Name(words::TraceState::kLive);
    case SourceState::kFinished:
      return Name(words::TraceState::kFinished);
    case SourceState::kCut:
      break;
  }
  return Name(words::TraceState::kCut);
}

std::optional<SourceState> ParseState(std::string_view text) {
  for (const SourceState state : {SourceState::kLive, SourceState::kFinished, SourceState::kCut}) {
    if (text == NameOf(state)) return state;
  }
  return std::nullopt;
}

class JsonSink final : public schema::FieldSink {
 public:
  void Integer(int64_t value) override { values_.push_back(value); }
  void Real(double value) override { values_.push_back(value); }
  void Text(std::string_view value) override { values_.push_back(std::string(value)); }
  Json Take() { return std::move(values_); }

 private:
  Json values_ = Json::array();
};

// Once a value is not what it should be, nothing but zeros comes.
class JsonSource final : public schema::FieldSource {
 public:
  explicit JsonSource(const Json& values) : values_(values), good_(values.is_array()) {}

  int64_t Integer() override {
    const Json* value = Next();
    if (!Check(value != nullptr && value->is_number_integer())) return 0;
    constexpr auto kMost = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
    if (!Check(!value->is_number_unsigned() || value->get<uint64_t>() <= kMost)) return 0;
    return value->get<int64_t>();
  }
  double Real() override {
    const Json* value = Next();
    if (value != nullptr && value->is_null()) return std::numeric_limits<double>::quiet_NaN();
    return Check(value != nullptr && value->is_number()) ? value->get<double>() : 0;
  }
  std::string_view Text() override {
    const Json* value = Next();
    if (!Check(value != nullptr && value->is_string())) return {};
    return value->get_ref<const std::string&>();
  }
  // All values were good, and none is left.
  bool Done() const { return good_ && index_ == values_.size(); }

 private:
  const Json* Next() { return good_ && index_ < values_.size() ? &values_[index_++] : nullptr; }
  bool Check(bool good) { return good_ = good_ && good; }

  const Json& values_;
  bool good_;
  size_t index_ = 0;
};

Status Malformed(std::string_view what) {
  return Status::Error(fmt::format("the remote end does not speak as `shardscope tail`: {}", what));
}

Status DecodeRows(const Json& line, RowBatch* group) {
  const auto rows = line.find("rows");
  if (!line["table"].is_string() || rows == line.end() || !rows->is_array()) {
    return Malformed("a line of rows without table or rows");
  }
  const std::string& table = line["table"].get_ref<const std::string&>();
  size_t index = 0;
  while (index < schema::kNumTables && table != group->At(index).table().name) ++index;
  if (index == schema::kNumTables) return Malformed(fmt::format("unknown table '{}'", table));
  for (const Json& values : *rows) {
    JsonSource source(values);
    group->At(index).Read(&source);
    if (source.Done()) continue;
    group->At(index).RemoveLast();
    return Malformed(fmt::format("a row of {} with wrong values", table));
  }
  return Status::Ok();
}

Status CheckHello(const Json& line) {
  if (!line.contains("shardscope_tail") || !line["shardscope_tail"].is_number_integer() ||
      !line.contains("schema") || !line["schema"].is_number_integer()) {
    return Malformed("its first line is no greeting");
  }
  if (line["shardscope_tail"].get<int64_t>() != kProtocol ||
      line["schema"].get<int64_t>() != schema::kVersion) {
    return Status::Error(fmt::format(
        "the remote end speaks protocol {} with trace schema {}, this program {} with {}: use the "
        "same version on both",
        line["shardscope_tail"].get<int64_t>(), line["schema"].get<int64_t>(), kProtocol,
        schema::kVersion));
  }
  return Status::Ok();
}

}  // namespace

std::string TailHello(std::string_view run_name) {
  return JsonLine(
      {{"shardscope_tail", kProtocol}, {"schema", schema::kVersion}, {"run", run_name}});
}

std::string TailGroup(const RowBatch& batch, SourceState state) {
  std::string text;
  for (size_t table = 0; table < schema::kNumTables; ++table) {
    const AnyRows& rows = batch.At(table);
    for (size_t begin = 0; begin < rows.size(); begin += kRowsPerLine) {
      Json line = {{"table", rows.table().name}, {"rows", Json::array()}};
      const size_t end = std::min(rows.size(), begin + kRowsPerLine);
      for (size_t i = begin; i < end; ++i) {
        JsonSink sink;
        rows.Write(i, &sink);
        line["rows"].push_back(sink.Take());
      }
      text += JsonLine(line);
    }
  }
  return text + JsonLine({{"state", NameOf(state)}});
}

std::string TailError(std::string_view message) { return JsonLine({{"error", message}}); }

Status TailDecoder::Take(std::string_view text) {
  const Json line = Json::parse(text, nullptr, false);
  if (!line.is_object()) return Malformed("a line that is no JSON object");
  if (line.contains("error") && line["error"].is_string()) {
    return Status::Error("remote: " + line["error"].get<std::string>());
  }
  if (!greeted_) {
    SHARDSCOPE_RETURN_IF_ERROR(CheckHello(line));
    greeted_ = true;
    if (line.contains("run") && line["run"].is_string()) run_name_ = line["run"];
    return Status::Ok();
  }
  if (line.contains("table")) return DecodeRows(line, &group_);
  if (!line.contains("state") || !line["state"].is_string()) {
    return Malformed("a line that is neither rows nor state");
  }
  const std::string& name = line["state"].get_ref<const std::string&>();
  const std::optional<SourceState> state = ParseState(name);
  if (!state) return Malformed(fmt::format("unknown state '{}'", name));
  state_ = *state;
  AppendRows(&group_, &finished_);
  complete_ = true;
  return Status::Ok();
}

bool TailDecoder::TakeRows(RowBatch* batch) {
  AppendRows(&finished_, batch);
  return std::exchange(complete_, false);
}

}  // namespace shardscope::store
