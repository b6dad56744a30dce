// Folders of checkpoints: step-<n>, each whole, and step-<n>.partial while one is written or
// removed. What has the name of a checkpoint is one: it gets that name by one rename, when all of
// it is on the disk.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/checkpoint/index.h"
#include "engine/checkpoint/safetensors.h"
#include "trace/base/status.h"

namespace shardscope::checkpoint {

inline constexpr std::string_view kIndexName = "index.json";

// Absolute, and without a slash at the end: of "x/" or "x/." a folder that is to lie beside `path`
// would lie within it.
std::string CleanedFolder(const std::string& path);

std::string StepFolder(const std::string& root, int64_t step);
// `number`: of the attempt, so that what an earlier one left is not taken for this one's.
std::string PartialFolder(const std::string& root, int64_t step, int64_t number = 0);
bool IsPartial(const std::string& folder);

// The checkpoint that a user means by `path`: itself, or the newest whole one of a run or of a
// folder of checkpoints; of those that were passed over because they are not whole, `passed` gets
// the reasons. The path is absolute.
Result<std::string> FindCheckpoint(const std::string& path, std::vector<std::string>* passed);

// The highest step above `step` of which `root` has a checkpoint that FindCheckpoint() would not
// pass over; none: it has none.
std::optional<int64_t> LastStepBehind(const std::string& root, int64_t step);

// Whether there is such a one at `folder`.
bool IsWhole(const std::string& folder);

// Gives what lies at `folder` a name beside it that no checkpoint has, which is returned.
Result<std::string> MoveAside(const std::string& folder);

// Beside the checkpoint `folder` the newest other one that is whole, as far as that is known
// without reading its data; empty: there is none.
std::string WholeBeside(const std::string& folder);

// Takes bytes that follow those of the last call.
using ByteSink = std::function<Status(std::span<const std::byte> bytes)>;

// Bytes of a tensor to write; borrowed.
struct TensorBytes {
  TensorShape shape;
  std::span<const std::byte> bytes;
  // Instead of `bytes`, where they are made while they are written: hands them over in pieces.
  std::function<Status(const ByteSink& sink)> make = nullptr;
};

// Writes a safetensors file, to the disk. `offsets` gets where in it each tensor begins.
Result<FileEntry> WriteTensors(const std::string& path, std::span<const TensorBytes> tensors,
                               std::vector<int64_t>* offsets);
// The same of a text.
Result<FileEntry> WriteText(const std::string& path, std::string_view text);

// Makes the folder `partial`, in which a program writes before Publish(). `what`: "an export", for
// the error where one is there: what a killed one left, or another one writes.
Status CreatePartial(const std::string& partial, std::string_view what);

// Gives the folder `partial`, in which all is written, its final name. A checkpoint that has this
// name is replaced in one step.
Status Publish(const std::string& partial, const std::string& folder);

// A killed process leaves a whole checkpoint or a partial folder.
void RemoveCheckpoint(const std::string& folder);
// All partial folders in `root`, while nothing writes there. Returns how many there were.
int RemovePartials(const std::string& root);

}  // namespace shardscope::checkpoint
