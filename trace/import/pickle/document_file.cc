#include "trace/import/pickle/document_file.h"

#include <fmt/format.h>

#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "trace/base/pickle/unpickle.h"

namespace shardscope::imports {
namespace {

constexpr size_t kMostFileBytes = size_t{4} << 30;
constexpr size_t kBytesAtOnce = size_t{1} << 20;

// nlohmann's parser without its own tree, which takes several times the memory.
class JsonReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit JsonReader(Document* document) : document_(*document) {}

  const std::string& error() const { return error_; }

  bool null() override { return Take(Value()); }
  bool boolean(bool value) override { return Take(Value::Bool(value)); }
  bool number_integer(number_integer_t value) override { return Take(Value::Int(value)); }
  bool number_unsigned(number_unsigned_t value) override {
    return Take(value <= INT64_MAX ? Value::Int(static_cast<int64_t>(value))
                                   : Value::Real(static_cast<double>(value)));
  }
  bool number_float(number_float_t value, const string_t&) override {
    return Take(Value::Real(value));
  }
  bool string(string_t& value) override { return Take(document_.AddText(std::move(value))); }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return Begin(ValueKind::kDict); }
  bool key(string_t& value) override {
    // A file has few keys, many times.
    auto [known, is_new] = keys_.try_emplace(value);
    if (is_new) known->second = document_.AddText(std::move(value));
    return Take(known->second);
  }
  bool end_object() override { return End(); }
  bool start_array(std::size_t) override { return Begin(ValueKind::kList); }
  bool end_array() override { return End(); }
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    error_ = fmt::format("no JSON, or it ends in the middle (byte {})", position);
    return false;
  }

 private:
  struct Open {
    ValueKind kind;
    size_t first;  // of its items among values_
  };

  bool Take(Value value) {
    values_.push_back(value);
    return true;
  }
  bool Begin(ValueKind kind) {
    if (open_.size() >= kMostJsonDepth) {
      error_ = fmt::format("nested more than {} deep", kMostJsonDepth);
      return false;
    }
    open_.push_back({kind, values_.size()});
    return true;
  }
  bool End() {
    const Open ended = open_.back();
    open_.pop_back();
    const Result<Value> made = document_.AddContainer(ended.kind);
    Status status = made.ok() ? document_.Append(*made, std::span(values_).subspan(ended.first))
                              : made.status();
    if (!status.ok()) {
      error_ = status.message();
      return false;
    }
    values_.resize(ended.first);
    if (open_.empty()) document_.SetRoot(*made);
    return Take(*made);
  }

  Document& document_;
  std::string error_;
  std::vector<Value> values_;  // of containers that are open
  std::vector<Open> open_;
  std::map<std::string, Value, std::less<>> keys_;
};

Result<std::string> ReadAll(const Input& input, const ReadProgress& progress) {
  SHARDSCOPE_ASSIGN_OR_RETURN(const std::unique_ptr<ByteSource> source, ByteSource::Open(input));
  std::string bytes;
  while (true) {
    const size_t filled = bytes.size();
    bytes.resize(filled + kBytesAtOnce);
    const Result<size_t> count = source->Read(bytes.data() + filled, kBytesAtOnce);
    if (!count.ok()) return count.status();
    bytes.resize(filled + *count);
    if (*count == 0) return bytes;
    if (bytes.size() > kMostFileBytes) {
      return Status::Error(fmt::format("{} is larger than {} GiB: record fewer entries",
                                       input.Title(), kMostFileBytes >> 30));
    }
    if (!progress(source->Position())) return Status::Error(kCancelled);
  }
}

}  // namespace

Result<Document> ParseJson(std::string text) {
  Document document{std::string()};
  JsonReader reader(&document);
  if (!nlohmann::json::sax_parse(text, &reader)) {
    return Status::Error(reader.error().empty() ? "no JSON" : reader.error());
  }
  return document;
}

Result<Document> ReadDocument(const Input& input, const ReadProgress& progress) {
  SHARDSCOPE_ASSIGN_OR_RETURN(std::string bytes, ReadAll(input, progress));
  Result<Document> document =
      pickle::IsPickle(bytes) ? pickle::Unpickle(std::move(bytes)) : ParseJson(std::move(bytes));
  if (!document.ok()) {
    return Status::Error(fmt::format("cannot read {}: {}", input.Title(), document.message()));
  }
  if (document->root().kind() != ValueKind::kDict) {
    return Status::Error(fmt::format("cannot read {}: it holds {}, and no dictionary",
                                     input.Title(), Describe(document->root())));
  }
  return document;
}

}  // namespace shardscope::imports
