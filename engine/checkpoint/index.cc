#include "engine/checkpoint/index.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "engine/checkpoint/blocks.h"
#include "engine/checkpoint/safetensors.h"

namespace shardscope::checkpoint {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kFormat = "shardscope checkpoint";
// The first key, so that the rest can be checked without knowing what is in it.
constexpr std::string_view kHead = "{\n \"xxh3\": \"";
constexpr size_t kHashDigits = 16;

std::string Hex(uint64_t value) { return fmt::format("{:016x}", value); }

uint64_t FromHex(const std::string& text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (error != std::errc() || end != text.data() + text.size() || text.size() != kHashDigits) {
    throw std::runtime_error("'" + text + "' is no checksum");
  }
  return value;
}

uint64_t HashOfText(std::string_view text) {
  return HashOf(std::as_bytes(std::span(text.data(), text.size())));
}

Json ToJson(const ElementRun& run) {
  if (run.times == 1) return {run.first, run.count};
  return {run.first, run.count, run.stride, run.times};
}

Json ToJson(const Part& part) {
  Json runs = Json::array();
  for (const ElementRun& run : part.runs) runs.push_back(ToJson(run));
  return {{"file", part.file}, {"offset", part.offset}, {"runs", std::move(runs)}};
}

Json ToJson(const ParameterEntry& parameter) {
  Json json = {{"name", parameter.name}, {"shape", parameter.shape}};
  json["tensors"] = Json::array();
  for (const TensorEntry& tensor : parameter.tensors) {
    Json parts = Json::array();
    for (const Part& part : tensor.parts) parts.push_back(ToJson(part));
    json["tensors"].push_back(
        {{"name", tensor.name}, {"dtype", tensor.dtype}, {"parts", std::move(parts)}});
  }
  return json;
}

Json ToJson(const FileEntry& file) {
  Json blocks = Json::array();
  for (const uint64_t block : file.blocks) blocks.push_back(Hex(block));
  return {{"name", file.name}, {"bytes", file.bytes}, {"xxh3", std::move(blocks)}};
}

Json ToJson(const DataPosition& data) {
  Json json = {{"seed", data.seed},
               {"num_samples", data.num_samples},
               {"num_takers", data.num_takers},
               {"samples_per_step", data.samples_per_step},
               {"first_step", data.first_step},
               {"first_epoch", data.first_epoch},
               {"first_used", data.first_used},
               {"epoch", data.epoch},
               {"used", data.used}};
  if (!data.tokenizer.empty()) json["tokenizer"] = data.tokenizer;
  if (!data.content.empty()) json["content"] = data.content;
  return json;
}

// What follows throws on anything that is not as it should be.

ElementRun RunOf(const Json& json) {
  ElementRun run;
  run.first = json.at(0).get<int64_t>();
  run.count = json.at(1).get<int64_t>();
  if (json.size() > 2) {
    run.stride = json.at(2).get<int64_t>();
    run.times = json.at(3).get<int64_t>();
  }
  return run;
}

Part PartOf(const Json& json) {
  Part part;
  part.file = json.at("file").get<int32_t>();
  part.offset = json.at("offset").get<int64_t>();
  for (const Json& run : json.at("runs")) part.runs.push_back(RunOf(run));
  return part;
}

ParameterEntry ParameterOf(const Json& json) {
  ParameterEntry parameter;
  parameter.name = json.at("name").get<std::string>();
  parameter.shape = json.at("shape").get<std::vector<int64_t>>();
  for (const Json& one : json.at("tensors")) {
    TensorEntry& tensor = parameter.tensors.emplace_back();
    tensor.name = one.at("name").get<std::string>();
    tensor.dtype = one.at("dtype").get<std::string>();
    for (const Json& part : one.at("parts")) tensor.parts.push_back(PartOf(part));
  }
  return parameter;
}

FileEntry FileOf(const Json& json) {
  FileEntry file;
  file.name = json.at("name").get<std::string>();
  file.bytes = json.at("bytes").get<int64_t>();
  for (const Json& block : json.at("xxh3"))
    file.blocks.push_back(FromHex(block.get<std::string>()));
  const bool is_plain = !file.name.empty() && file.name.find('/') == std::string::npos &&
                        file.name != "." && file.name != "..";
  if (!is_plain) throw std::runtime_error("'" + file.name + "' is no name of a file");
  const int64_t blocks =
      file.bytes / static_cast<int64_t>(kBlockBytes) + (file.bytes % kBlockBytes == 0 ? 0 : 1);
  if (file.bytes < 0 || blocks != std::ssize(file.blocks)) {
    throw std::runtime_error(file.name + " has " + std::to_string(file.blocks.size()) +
                             " checksums for " + std::to_string(file.bytes) + " bytes");
  }
  return file;
}

DataPosition DataOf(const Json& json) {
  DataPosition data;
  data.seed = json.at("seed").get<uint64_t>();
  const std::pair<const char*, int64_t*> fields[] = {{"num_samples", &data.num_samples},
                                                     {"num_takers", &data.num_takers},
                                                     {"samples_per_step", &data.samples_per_step},
                                                     {"first_step", &data.first_step},
                                                     {"first_epoch", &data.first_epoch},
                                                     {"first_used", &data.first_used},
                                                     {"epoch", &data.epoch},
                                                     {"used", &data.used}};
  for (const auto& [name, field] : fields) {
    *field = json.at(name).get<int64_t>();
    if (*field < 0) throw std::runtime_error(std::string(name) + " is negative");
  }
  // Checkpoints of older versions have neither.
  if (json.contains("tokenizer")) json.at("tokenizer").get_to(data.tokenizer);
  if (json.contains("content")) json.at("content").get_to(data.content);
  return data;
}

Index IndexOf(const Json& json) {
  Index index;
  index.step = json.at("step").get<int64_t>();
  index.num_ranks = json.at("num_ranks").get<int>();
  index.tool_version = json.at("tool_version").get<std::string>();
  index.run = json.at("run").get<std::string>();
  index.mesh = json.at("mesh").get<std::map<std::string, int64_t>>();
  index.config = json.at("config").get<std::map<std::string, std::string>>();
  // Checkpoints of older versions have none.
  if (json.contains("model")) json.at("model").get_to(index.model);
  index.scalars = json.at("scalars").get<std::map<std::string, double>>();
  index.data = DataOf(json.at("data"));
  for (const Json& file : json.at("files")) index.files.push_back(FileOf(file));
  for (const Json& one : json.at("parameters")) index.parameters.push_back(ParameterOf(one));
  if (index.step < 0 || index.num_ranks < 1) throw std::runtime_error("step or ranks are negative");
  return index;
}

// Elements of `shape`; throws where they are none or more than memory has addresses.
int64_t CheckedElements(const ParameterEntry& parameter) {
  int64_t elements = 1;
  for (const int64_t size : parameter.shape) {
    if (size < 1 || elements > (int64_t{1} << 48) / size) {
      throw std::runtime_error(parameter.name + " has a size of " + std::to_string(size));
    }
    elements *= size;
  }
  return elements;
}

// The part's pieces as [first, end), appended.
void AddPieces(const Part& part, int64_t elements, std::vector<std::pair<int64_t, int64_t>>* all) {
  for (const ElementRun& run : part.runs) {
    const bool is_one = run.times == 1;
    const bool fits =
        run.first >= 0 && run.count >= 1 && run.count <= elements &&
        run.first <= elements - run.count &&
        (is_one || (run.times > 1 && run.stride >= run.count && run.stride <= elements &&
                    run.times <= elements / run.stride + 1));
    if (!fits || run.first + (run.times - 1) * run.stride > elements - run.count) {
      throw std::runtime_error("elements that the parameter does not have");
    }
    for (int64_t at = 0; at < run.times; ++at) {
      const int64_t first = run.first + at * run.stride;
      all->emplace_back(first, first + run.count);
    }
  }
}

void CheckTensor(const Index& index, const ParameterEntry& parameter, const TensorEntry& tensor,
                 bool is_whole) {
  const int64_t elements = CheckedElements(parameter);
  const int64_t element_bytes = BytesOfDType(tensor.dtype);
  if (element_bytes == 0) throw std::runtime_error("dtype " + tensor.dtype + " is not known");
  std::vector<std::pair<int64_t, int64_t>> pieces;
  for (const Part& part : tensor.parts) {
    AddPieces(part, elements, &pieces);
    const bool has_file = part.file >= 0 && part.file < std::ssize(index.files);
    const int64_t bytes = ElementsOf(part.runs) * element_bytes;
    if (!has_file || part.offset < 0 ||
        part.offset > index.files[static_cast<size_t>(part.file)].bytes - bytes) {
      throw std::runtime_error(
          fmt::format("{} of {} lies in no file", tensor.name, parameter.name));
    }
  }
  std::ranges::sort(pieces);
  int64_t end = is_whole || pieces.empty() ? 0 : pieces.front().first;
  for (const auto& [first, piece_end] : pieces) {
    if (first < end || (is_whole && first > end)) {
      throw std::runtime_error(fmt::format("{} of {} has element {} {}", tensor.name,
                                           parameter.name, std::min(first, end),
                                           first < end ? "twice" : "nowhere"));
    }
    end = piece_end;
  }
  if (is_whole && end != elements) {
    throw std::runtime_error(
        fmt::format("{} of {} has element {} nowhere", tensor.name, parameter.name, end));
  }
}

Status Damaged(const std::string& path, const std::string& what) {
  return Status::Error(path + " is damaged (" + what + "): take another checkpoint");
}

Result<Index> Parse(const std::string& text, const std::string& path, bool is_whole) {
  try {
    const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (json.is_discarded()) return Damaged(path, "it is no JSON, or only a part of it");
    if (!json.is_object() || json.value("format", "") != kFormat) {
      return Status::Error(path +
                           " is no index of a checkpoint of Shardscope: take another checkpoint");
    }
    const auto written = json.find("version");
    if (written == json.end() || !written->is_number_integer()) {
      return Damaged(path, "it does not say its version");
    }
    const auto version = written->get<int64_t>();
    if (version > kVersion) {
      return Status::Error(
          fmt::format("{} is of version {}, and this program reads up to {}: use the newer program",
                      path, version, kVersion));
    }
    const size_t end = kHead.size() + kHashDigits;
    if (!text.starts_with(kHead) || text.size() < end ||
        FromHex(text.substr(kHead.size(), kHashDigits)) !=
            HashOfText(std::string_view(text).substr(end))) {
      return Damaged(path, "its checksum is another one");
    }
    Index index = IndexOf(json);
    for (const ParameterEntry& parameter : index.parameters) {
      for (const TensorEntry& tensor : parameter.tensors) {
        CheckTensor(index, parameter, tensor, is_whole);
      }
    }
    return index;
  } catch (const std::exception& error) {
    return Damaged(path, error.what());
  }
}

}  // namespace

void AppendRun(int64_t first, int64_t count, std::vector<ElementRun>* runs) {
  if (count == 0) return;
  if (!runs->empty()) {
    ElementRun& last = runs->back();
    if (last.times == 1 && last.first + last.count == first) {
      last.count += count;
      return;
    }
    const int64_t stride = first - last.first - (last.times - 1) * last.stride;
    if (last.count == count && stride >= count && (last.times == 1 || stride == last.stride)) {
      last.stride = stride;
      ++last.times;
      return;
    }
  }
  runs->push_back({.first = first, .count = count});
}

int64_t ElementsOf(const std::vector<ElementRun>& runs) {
  int64_t elements = 0;
  for (const ElementRun& run : runs) elements += run.elements();
  return elements;
}

const TensorEntry* ParameterEntry::Find(std::string_view tensor) const {
  const auto found = std::ranges::find(tensors, tensor, &TensorEntry::name);
  return found == tensors.end() ? nullptr : &*found;
}

const ParameterEntry* Index::Find(std::string_view parameter) const {
  const auto found = std::ranges::find(parameters, parameter, &ParameterEntry::name);
  return found == parameters.end() ? nullptr : &*found;
}

std::string PrintIndex(const Index& index) {
  Json json = {
      {"format", kFormat},     {"version", kVersion},          {"tool_version", index.tool_version},
      {"step", index.step},    {"num_ranks", index.num_ranks}, {"run", index.run},
      {"mesh", index.mesh},    {"data", ToJson(index.data)},   {"scalars", index.scalars},
      {"config", index.config}};
  if (!index.model.empty()) json["model"] = index.model;
  json["files"] = Json::array();
  for (const FileEntry& file : index.files) json["files"].push_back(ToJson(file));
  json["parameters"] = Json::array();
  for (const ParameterEntry& one : index.parameters) json["parameters"].push_back(ToJson(one));
  // One line each: a file of a thousand parameters can be looked at.
  std::string rest = "\"";
  for (const auto& [key, value] : json.items()) {
    rest += ",\n \"" + key + "\": ";
    if (!value.is_array() || value.empty()) {
      rest += value.dump();
      continue;
    }
    std::string_view separator = "[\n  ";
    for (const Json& one : value) {
      rest += separator;
      rest += one.dump();
      separator = ",\n  ";
    }
    rest += "\n ]";
  }
  rest += "\n}\n";
  return std::string(kHead) + Hex(HashOfText(rest)) + rest;
}

Result<Index> ParseIndex(const std::string& text, const std::string& path) {
  return Parse(text, path, /*is_whole=*/true);
}

Result<Index> ParseRankIndex(const std::string& text, const std::string& path) {
  return Parse(text, path, /*is_whole=*/false);
}

void Merge(Index of_rank, Index* index) {
  const auto first_file = static_cast<int32_t>(index->files.size());
  std::ranges::move(of_rank.files, std::back_inserter(index->files));
  std::map<std::string_view, size_t> known;
  for (size_t at = 0; at < index->parameters.size(); ++at) known[index->parameters[at].name] = at;
  std::vector<ParameterEntry> added;
  for (ParameterEntry& parameter : of_rank.parameters) {
    for (TensorEntry& tensor : parameter.tensors) {
      for (Part& part : tensor.parts) part.file += first_file;
    }
    const auto found = known.find(parameter.name);
    if (found == known.end()) {
      added.push_back(std::move(parameter));
      continue;
    }
    ParameterEntry& other = index->parameters[found->second];
    for (TensorEntry& tensor : parameter.tensors) {
      const auto same = std::ranges::find(other.tensors, tensor.name, &TensorEntry::name);
      if (same == other.tensors.end()) {
        other.tensors.push_back(std::move(tensor));
      } else {
        std::ranges::move(tensor.parts, std::back_inserter(same->parts));
      }
    }
  }
  std::ranges::move(added, std::back_inserter(index->parameters));
}

}  // namespace shardscope::checkpoint
