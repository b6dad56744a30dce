// The index of a checkpoint: what the run was, what the checkpoint holds of each parameter, and
// which file has which elements. In index.json, for people and for other programs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "trace/base/status.h"

namespace shardscope::checkpoint {

inline constexpr int64_t kVersion = 1;
inline constexpr std::string_view kParameter = "parameter";  // the tensor of master weights

// Elements of a whole parameter, by their numbers in row-major order: `times` pieces of `count`,
// whose beginnings are `stride` apart.
struct ElementRun {
  int64_t first = 0;
  int64_t count = 0;
  int64_t stride = 0;
  int64_t times = 1;

  int64_t elements() const { return count * times; }
  bool operator==(const ElementRun&) const = default;
};

// Pieces of one length that follow one another evenly become one run.
void AppendRun(int64_t first, int64_t count, std::vector<ElementRun>* runs);
int64_t ElementsOf(const std::vector<ElementRun>& runs);

// Of one tensor, what lies together in a file: the elements of `runs`, one run after the other.
struct Part {
  int32_t file = 0;
  int64_t offset = 0;  // of the first byte, in the file
  std::vector<ElementRun> runs;
};

// Of a parameter: its weights (kParameter), or what the optimizer keeps of them ("exp_avg"), an
// element for each.
struct TensorEntry {
  std::string name;
  std::string dtype;  // as in safetensors: "F32"
  std::vector<Part> parts;
};

struct ParameterEntry {
  std::string name;
  std::vector<int64_t> shape;  // of the whole parameter
  std::vector<TensorEntry> tensors;

  const TensorEntry* Find(std::string_view tensor) const;
};

struct FileEntry {
  std::string name;  // in the checkpoint's folder
  int64_t bytes = 0;
  std::vector<uint64_t> blocks;  // checksums, see blocks.h
};

// Where a run is in its data: what the sampler begins from, and how it goes on.
struct DataPosition {
  uint64_t seed = 0;
  int64_t num_samples = 0;
  int64_t num_takers = 0;        // ranks with samples of their own
  int64_t samples_per_step = 0;  // of each of them
  // The sampler began with step `first_step` at sample `used` of epoch `epoch`.
  int64_t first_step = 0;
  int64_t first_epoch = 0;
  int64_t first_used = 0;
  // Of the next step.
  int64_t epoch = 0;
  int64_t used = 0;
  // What the data are: as model::Corpus has it. Empty: not known, as of checkpoints of older
  // versions and of imported ones.
  std::string tokenizer;
  std::string content;
};

struct Index {
  int64_t step = 0;  // the next one: as many are done
  int num_ranks = 0;
  std::string tool_version;
  std::string run;                            // its id; empty: it was no run of ours
  std::map<std::string, int64_t> mesh;        // ranks along each dimension
  std::map<std::string, std::string> config;  // all keys in force
  // What else decides about the model's arithmetic: fields of config.json. Empty: it is not known.
  std::map<std::string, std::string> model;
  std::map<std::string, double> scalars;  // one number each, as the scale of a loss scaler
  DataPosition data;
  std::vector<FileEntry> files;
  std::vector<ParameterEntry> parameters;

  const ParameterEntry* Find(std::string_view parameter) const;
};

std::string PrintIndex(const Index& index);

// Errors name `path`: no index, damaged, of a newer version. What is in it fits together: each
// tensor has each of its elements once, in files that are listed and long enough.
Result<Index> ParseIndex(const std::string& text, const std::string& path);

// What one rank wrote: an Index of its files and of its parts of each parameter alone.
Result<Index> ParseRankIndex(const std::string& text, const std::string& path);
// Adds it to what other ranks wrote; the numbers of its files change.
void Merge(Index of_rank, Index* index);

}  // namespace shardscope::checkpoint
