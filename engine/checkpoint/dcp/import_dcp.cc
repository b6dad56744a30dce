#include "engine/checkpoint/dcp/import_dcp.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include "engine/checkpoint/dcp/saved_tensor.h"
#include "engine/checkpoint/folder.h"
#include "engine/checkpoint/safetensors.h"
#include "trace/base/mapped_file.h"
#include "trace/base/output_folder.h"
#include "trace/base/text.h"

namespace shardscope::checkpoint {
namespace {

namespace fs = std::filesystem;

// Puts a box of a tensor to its place in the whole of it; both in row-major order.
void PlaceBox(std::span<const std::byte> box, const DcpChunk& chunk,
              const std::vector<int64_t>& shape, int64_t element_bytes,
              std::vector<std::byte>* whole) {
  const size_t dimensions = shape.size();
  const int64_t row = dimensions == 0 ? 1 : chunk.sizes.back();
  const int64_t rows = row == 0 ? 0 : std::ssize(box) / (row * element_bytes);
  std::vector<int64_t> at(dimensions);
  for (int64_t number = 0; number < rows; ++number) {
    int64_t left = number;
    for (size_t dimension = dimensions; dimension-- > 0;) {
      const bool is_last = dimension + 1 == dimensions;
      at[dimension] = is_last ? 0 : left % chunk.sizes[dimension];
      if (!is_last) left /= chunk.sizes[dimension];
    }
    int64_t first = 0;
    for (size_t dimension = 0; dimension < dimensions; ++dimension) {
      first = first * shape[dimension] + chunk.offsets[dimension] + at[dimension];
    }
    std::memcpy(whole->data() + first * element_bytes, box.data() + number * row * element_bytes,
                static_cast<size_t>(row * element_bytes));
  }
}

// Whether two boxes of a tensor have an element in common.
bool Overlap(const DcpChunk& left, const DcpChunk& right) {
  for (size_t dimension = 0; dimension < left.sizes.size(); ++dimension) {
    if (left.offsets[dimension] >= right.offsets[dimension] + right.sizes[dimension]) return false;
    if (right.offsets[dimension] >= left.offsets[dimension] + left.sizes[dimension]) return false;
  }
  return true;
}

// Boxes that lie in a tensor of so many elements have each of them once where they are as many and
// no two overlap.
bool AreWhole(const std::vector<DcpChunk>& chunks, int64_t elements) {
  std::vector<const DcpChunk*> boxes;
  for (const DcpChunk& chunk : chunks) {
    const int64_t in_box = plan::NumElements(chunk.sizes);
    if (in_box > elements) return false;
    elements -= in_box;
    if (in_box > 0) boxes.push_back(&chunk);
  }
  if (elements != 0) return false;
  const auto begins_before = [](const DcpChunk* left, const DcpChunk* right) {
    return left->offsets < right->offsets;
  };
  std::sort(boxes.begin(), boxes.end(), begins_before);
  // Each with those that begin before it ends, along the first dimension.
  for (size_t first = 0; first < boxes.size(); ++first) {
    const DcpChunk& box = *boxes[first];
    for (size_t second = first + 1; second < boxes.size(); ++second) {
      const DcpChunk& other = *boxes[second];
      if (other.offsets.front() >= box.offsets.front() + box.sizes.front()) break;
      if (Overlap(box, other)) return false;
    }
  }
  return true;
}

std::string ShapeText(const std::vector<int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

// `count` rows, of which number i was number `from`(i).
template <typename From>
std::vector<std::byte> RowsFrom(const std::vector<std::byte>& rows, size_t row_bytes, int64_t count,
                                const From& from) {
  std::vector<std::byte> taken(static_cast<size_t>(count) * row_bytes);
  for (int64_t row = 0; row < count; ++row) {
    std::memcpy(taken.data() + static_cast<size_t>(row) * row_bytes,
                rows.data() + static_cast<size_t>(from(row)) * row_bytes, row_bytes);
  }
  return taken;
}

// Rows of each head from pairs (0, 1), (2, 3), ... to halves: row j * half + k was row 2 * k + j
// (transformers, convert_llama_weights_to_hf.py, permute()).
std::vector<std::byte> InHalves(const std::vector<std::byte>& pairs, int64_t rows,
                                int64_t head_rows) {
  const int64_t half = head_rows / 2;
  return RowsFrom(pairs, pairs.size() / static_cast<size_t>(rows), rows, [&](int64_t row) {
    const int64_t in_head = row % head_rows;
    return row - in_head + 2 * (in_head % half) + in_head / half;
  });
}

// One part of a tensor that has all three (FusedPart), whose rows fit.
std::vector<std::byte> PartOf(const std::vector<std::byte>& fused, FusedPart part,
                              const AttentionRows& rows, int64_t head_rows) {
  const int64_t queries = rows.queries / rows.keys;  // heads of them for one of keys
  const bool is_queries = part == FusedPart::kQueries;
  const int64_t heads = is_queries ? queries : 1;
  const int64_t first = is_queries ? 0 : part == FusedPart::kKeys ? queries : queries + 1;
  return RowsFrom(fused, fused.size() / static_cast<size_t>(rows.all()),
                  is_queries ? rows.queries : rows.keys, [&](int64_t row) {
                    const int64_t head = row / head_rows;
                    const int64_t from = head / heads * (queries + 2) + first + head % heads;
                    return from * head_rows + row % head_rows;
                  });
}

// As "step": of no element of the parameter.
bool IsScalar(const DcpTensor& tensor) {
  return std::ranges::all_of(tensor.shape, [](int64_t size) { return size == 1; });
}

}  // namespace

Result<DcpImport> DcpImport::Open(const std::string& folder) {
  DcpImport import;
  import.folder_ = folder;
  SHARDSCOPE_ASSIGN_OR_RETURN(import.metadata_, ReadDcpMetadata(folder));
  SHARDSCOPE_RETURN_IF_ERROR(import.Sort());
  return import;
}

Status DcpImport::Sort() {
  left_out_ = metadata_.objects;
  std::string unknown;
  for (const auto& [name, tensor] : metadata_.tensors) {
    std::vector<TranslatedName> translated = Translate(name);
    if (translated.empty()) {
      left_out_.push_back(name);
      if (unknown.empty() && IsUnknownOfBlock(name)) unknown = name;
    }
    for (TranslatedName& to : translated) {
      Source& source = parameters_[to.parameter][to.tensor];
      if (source.tensor != nullptr) {
        return Status::Error(fmt::format("{}: {} and {} are both {} of {}", folder_, source.name,
                                         name, to.tensor, to.parameter));
      }
      source = {name, std::move(to), &tensor};
    }
  }
  LeaveOutWithoutParameter();
  LeaveOutOtherShapes();
  if (!parameters_.contains("embedding.weight")) {
    std::vector<std::string> some(
        left_out_.begin(), left_out_.begin() + std::min<std::ptrdiff_t>(3, std::ssize(left_out_)));
    return Status::Error(fmt::format(
        "{} has no model that this program takes: Llama as Hugging Face or torchtitan name it, or "
        "its own; it has {}",
        folder_, some.empty() ? "nothing" : Join(some, ", ")));
  }
  if (!unknown.empty()) {
    return Status::Error(fmt::format(
        "{} has {}, which no model of this program has: only Llama (of Hugging Face's names "
        "Mistral and Qwen2, too), with queries, keys and values apart, and its own can be imported",
        folder_, unknown));
  }
  return Status::Ok();
}

void DcpImport::LeaveOutWithoutParameter() {
  std::set<std::string> without;
  for (auto entry = parameters_.begin(); entry != parameters_.end();) {
    if (entry->second.contains(std::string(kParameter))) {
      ++entry;
      continue;
    }
    for (const auto& [tensor, source] : entry->second) without.insert(source.name);
    entry = parameters_.erase(entry);
  }
  left_out_.insert(left_out_.end(), without.begin(), without.end());
}

void DcpImport::LeaveOutOtherShapes() {
  std::set<std::string> others;  // one that several parameters share is there once
  for (auto& [parameter, tensors] : parameters_) {
    const std::vector<int64_t> shape = tensors.at(std::string(kParameter)).tensor->shape;
    std::erase_if(tensors, [&](const auto& one) {
      const Source& source = one.second;
      const bool fits = source.tensor->shape == ShapeOf(source, shape) || IsScalar(*source.tensor);
      if (!fits) others.insert(source.name);
      return !fits;
    });
  }
  left_out_.insert(left_out_.end(), others.begin(), others.end());
}

std::map<std::string, std::string> DcpImport::ModelKeys(int64_t heads) const {
  const auto shape = [&](const std::string& parameter) {
    const auto found = parameters_.find(parameter);
    return found == parameters_.end() ? std::vector<int64_t>()
                                      : found->second.at(std::string(kParameter)).tensor->shape;
  };
  int64_t layers = 0;
  while (parameters_.contains(fmt::format("block{}.mlp.up.weight", layers))) ++layers;
  std::map<std::string, std::string> keys = {{"model.layers", std::to_string(layers)}};
  const std::vector<int64_t> embedding = shape("embedding.weight");
  if (embedding.size() != 2) return keys;
  keys["model.dim"] = std::to_string(embedding[1]);
  const std::vector<int64_t> queries = shape("block0.attention.q.weight");
  if (queries.size() != 2) return keys;
  keys["model.kind"] = "llama";
  keys["model.vocab"] = std::to_string(embedding.front());
  if (const std::vector<int64_t> up = shape("block0.mlp.up.weight"); up.size() == 2) {
    keys["model.ffn"] = std::to_string(up[0]);
  }
  const std::vector<int64_t> key_rows = shape("block0.attention.k.weight");
  const int64_t head_rows = heads > 0 ? queries[0] / heads : 0;
  if (head_rows > 0 && key_rows.size() == 2) {
    keys["model.kv_heads"] = std::to_string(key_rows[0] / head_rows);
  }
  return keys;
}

Status DcpImport::TieHead() {
  const auto head = parameters_.find("head.weight");
  if (head == parameters_.end()) return Status::Ok();
  const std::string parameter(kParameter);
  const Source& of_head = head->second.at(parameter);
  const Source& of_embedding = parameters_.at("embedding.weight").at(parameter);
  bool is_same = of_head.tensor->shape == of_embedding.tensor->shape &&
                 of_head.tensor->dtype == of_embedding.tensor->dtype;
  if (is_same) {
    SHARDSCOPE_ASSIGN_OR_RETURN(const std::vector<std::byte> left, Read(of_head, 0));
    SHARDSCOPE_ASSIGN_OR_RETURN(const std::vector<std::byte> right, Read(of_embedding, 0));
    is_same = left == right;
  }
  if (!is_same) {
    return Status::Error(fmt::format(
        "{}: {} and {} differ, and the model has one matrix for both (tie_word_embeddings): set "
        "model.path to the folder whose config.json it was trained with",
        folder_, of_head.name, of_embedding.name));
  }
  parameters_.erase(head);
  return Status::Ok();
}

Status DcpImport::CheckParameters(const std::vector<plan::Parameter>& model) const {
  std::set<std::string> known;
  for (const plan::Parameter& wanted : model) {
    known.insert(wanted.name);
    const auto found = parameters_.find(wanted.name);
    if (found == parameters_.end()) {
      return Status::Error(fmt::format("{} has no {}, which the model has", folder_, wanted.name));
    }
    const Source& source = found->second.at(std::string(kParameter));
    if (source.tensor->shape == wanted.shape) continue;
    return Status::Error(fmt::format("{}: {} is {}, and {} of the model is {}", folder_,
                                     source.name, ShapeText(source.tensor->shape), wanted.name,
                                     ShapeText(wanted.shape)));
  }
  for (const auto& [parameter, tensors] : parameters_) {
    if (known.contains(parameter)) continue;
    return Status::Error(fmt::format("{} has {}, which the model does not have", folder_,
                                     tensors.at(std::string(kParameter)).name));
  }
  return Status::Ok();
}

// Of the block's that `parameter` is one of.
AttentionRows DcpImport::RowsOfAttention(std::string parameter) const {
  const std::string_view attention = ".attention.";
  const size_t letter = parameter.find(attention) + attention.size();
  const auto rows = [&](char of) -> int64_t {
    parameter[letter] = of;
    const auto found = parameters_.find(parameter);
    if (found == parameters_.end()) return 0;
    const std::vector<int64_t>& shape = found->second.at(std::string(kParameter)).tensor->shape;
    return shape.empty() ? 0 : shape.front();
  };
  return {.queries = rows('q'), .keys = rows('k'), .values = rows('v')};
}

// The shape of a tensor that has an element for each of a parameter of that shape, as "step" has
// not.
std::vector<int64_t> DcpImport::ShapeOf(const Source& source, std::vector<int64_t> shape) const {
  if (source.to.part != FusedPart::kNone && !shape.empty()) {
    shape.front() = RowsOfAttention(source.to.parameter).all();
  }
  return shape;
}

// Of any parameter: all have the same.
Result<int64_t> DcpImport::ReadStep() const {
  for (const auto& [parameter, tensors] : parameters_) {
    const auto found = tensors.find("step");
    if (found == tensors.end()) continue;
    SHARDSCOPE_ASSIGN_OR_RETURN(const std::vector<std::byte> bytes, Read(found->second, 0));
    if (found->second.tensor->dtype == "F32" && bytes.size() == sizeof(float)) {
      float step = 0;
      std::memcpy(&step, bytes.data(), sizeof(step));
      return step >= 0 && step < 1e15 ? static_cast<int64_t>(step) : 0;
    }
  }
  return 0;
}

Result<std::vector<std::byte>> DcpImport::Read(const Source& source, int64_t head_rows) const {
  const DcpTensor& tensor = *source.tensor;
  const int64_t element_bytes = BytesOfDType(tensor.dtype);
  const auto cannot = [&](const std::string& why) {
    return Status::Error(fmt::format("{}: {}: {}", folder_, source.name, why));
  };
  if (element_bytes == 0) return cannot("its type " + tensor.dtype + " cannot be read");
  int64_t elements = 1;
  for (const int64_t size : tensor.shape) {
    if (size > 0 && elements > (int64_t{1} << 40) / size) return cannot("it is too large");
    elements *= size;
  }
  if (!AreWhole(tensor.chunks, elements)) {
    return cannot("some of its elements are missing, or there twice");
  }
  std::vector<std::byte> whole(static_cast<size_t>(elements * element_bytes));
  for (const DcpChunk& chunk : tensor.chunks) {
    if (plan::NumElements(chunk.sizes) == 0) continue;
    SHARDSCOPE_ASSIGN_OR_RETURN(const MappedFile file,
                                MappedFile::Open(folder_ + "/" + chunk.file));
    const int64_t size = std::ssize(file.bytes());
    if (chunk.offset > size || chunk.length > size - chunk.offset) {
      return cannot(chunk.file + " ends before it");
    }
    const Result<std::span<const std::byte>> bytes = SavedTensorBytes(
        file.bytes().subspan(static_cast<size_t>(chunk.offset), static_cast<size_t>(chunk.length)),
        tensor.dtype, chunk.sizes);
    if (!bytes.ok()) return cannot(bytes.message());
    PlaceBox(*bytes, chunk, tensor.shape, element_bytes, &whole);
  }
  if (tensor.shape.empty() || tensor.shape.front() == 0) return whole;
  const bool is_paired = source.to.order == RotaryOrder::kPairs;
  int64_t rows = tensor.shape.front();
  const auto do_not_fit = [&] {
    return cannot(fmt::format(
        "its rows are in torchtitan's order, and {} rows a head do not fit: give the right "
        "model.heads",
        head_rows));
  };
  if (source.to.part != FusedPart::kNone) {
    const AttentionRows all = RowsOfAttention(source.to.parameter);
    if (!all.AreHeads(head_rows) || all.all() != rows) return do_not_fit();
    whole = PartOf(whole, source.to.part, all, head_rows);
    rows = source.to.part == FusedPart::kQueries ? all.queries : all.keys;
  }
  if (!is_paired) return whole;
  if (head_rows < 2 || head_rows % 2 != 0 || rows % head_rows != 0) return do_not_fit();
  return InHalves(whole, rows, head_rows);
}

// Of a head of queries, keys or values; 0: not known.
int64_t DcpImport::HeadRows(const Settings& settings) const {
  int64_t heads = 0;
  if (const auto found = settings.config.find("model.heads"); found != settings.config.end()) {
    std::from_chars(found->second.data(), found->second.data() + found->second.size(), heads);
  }
  const auto queries = parameters_.find("block0.attention.q.weight");
  if (queries == parameters_.end() || heads <= 0) return 0;
  const std::vector<int64_t>& shape = queries->second.at(std::string(kParameter)).tensor->shape;
  return shape.empty() ? 0 : shape.front() / heads;
}

// A file of its own for `parameter` and what Adam keeps of it, in `folder`. Adds both to the index.
Status DcpImport::WriteParameter(const std::string& parameter, int64_t head_rows,
                                 const std::string& folder, Index* index) const {
  const std::map<std::string, Source>& tensors = parameters_.at(parameter);
  const std::vector<int64_t>& shape = tensors.at(std::string(kParameter)).tensor->shape;
  ParameterEntry entry{.name = parameter, .shape = shape};
  std::vector<std::vector<std::byte>> data;
  for (const auto& [tensor, source] : tensors) {
    if (source.tensor->shape != ShapeOf(source, shape)) continue;  // a scalar
    SHARDSCOPE_ASSIGN_OR_RETURN(std::vector<std::byte> bytes, Read(source, head_rows));
    entry.tensors.push_back({.name = tensor, .dtype = source.tensor->dtype});
    data.push_back(std::move(bytes));
  }
  std::vector<TensorBytes> written;
  for (size_t at = 0; at < data.size(); ++at) {
    const TensorEntry& tensor = entry.tensors[at];
    written.push_back({{tensor.name + "." + parameter, tensor.dtype, shape}, data[at]});
  }
  std::vector<int64_t> offsets;
  SHARDSCOPE_ASSIGN_OR_RETURN(
      FileEntry file, WriteTensors(folder + "/" + parameter + ".safetensors", written, &offsets));
  for (size_t at = 0; at < offsets.size(); ++at) {
    entry.tensors[at].parts = {{.file = static_cast<int32_t>(index->files.size()),
                                .offset = offsets[at],
                                .runs = {{.count = plan::NumElements(shape)}}}};
  }
  index->files.push_back(std::move(file));
  index->parameters.push_back(std::move(entry));
  return Status::Ok();
}

Status DcpImport::Write(const std::string& folder, const Settings& settings) const {
  const std::string out = CleanedFolder(folder);
  std::error_code error;
  if (fs::exists(out, error)) {
    return Status::Error(out + " is there already: name a folder that is not");
  }
  const std::string partial = out + ".partial";
  fs::create_directories(fs::path(partial).parent_path(), error);
  SHARDSCOPE_RETURN_IF_ERROR(CreatePartial(partial, "an import"));
  const OutputFolder removed(partial, out);  // also where there is no memory for a tensor
  Index index{.num_ranks = 1, .config = settings.config, .model = settings.model};
  SHARDSCOPE_ASSIGN_OR_RETURN(index.step, ReadStep());
  const int64_t head_rows = HeadRows(settings);
  for (const auto& [parameter, tensors] : parameters_) {
    SHARDSCOPE_RETURN_IF_ERROR(WriteParameter(parameter, head_rows, partial, &index));
  }
  SHARDSCOPE_ASSIGN_OR_RETURN(FileEntry toml, WriteText(partial + "/run.toml", settings.toml));
  index.files.push_back(std::move(toml));
  const std::string text = PrintIndex(index);
  SHARDSCOPE_RETURN_IF_ERROR(WriteText(partial + "/" + std::string(kIndexName), text).status());
  return Publish(partial, out);
}

}  // namespace shardscope::checkpoint
