#include "engine/runtime/checkpoint.h"

#include <ATen/ops/tensor.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "engine/model/safetensors.h"
#include "engine/transport/between_steps.h"
#include "trace/base/text.h"

namespace shardscope::runtime {
namespace {

Status WriteShards(Ranks* ranks, int rank, int64_t step, const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  model::SafetensorsWriter writer;
  writer.Add("step", at::tensor(std::vector<int64_t>{step}, at::kLong));
  for (const ShardedUnit& unit : ranks->work(rank).units()) {
    if (!unit.is_here()) continue;
    for (size_t at = 0; at < unit.layout().parameters().size(); ++at) {
      const ParameterLayout& layout = unit.layout().parameters()[at];
      const int64_t rows =
          plan::OwnedRows(layout.parameter, unit.place().shard_ranks, unit.place().shard_index);
      const auto slice = [&](const at::Tensor& shard) {
        return shard.narrow(0, 0, rows * layout.row_elements)
            .view({rows, layout.row_elements})
            .cpu();
      };
      const std::string& name = layout.parameter.name;
      const ShardedUnit::Slice kept = unit.SliceOf(at);
      writer.Add("parameter." + name, slice(kept.parameters));
      writer.Add("first_moment." + name, slice(kept.first_moment));
      writer.Add("second_moment." + name, slice(kept.second_moment));
    }
  }
  return writer.Write(fmt::format("{}/rank-{}-of-{}.safetensors", folder, rank, ranks->size()));
}

}  // namespace

CheckpointOutcome WriteCheckpoint(Ranks* ranks, int rank, int64_t step,
                                  const std::string& checkpoints) {
  CheckpointOutcome outcome;
  const std::string folder = fmt::format("{}/step-{}", checkpoints, step);
  const std::string partial = folder + ".partial";
  const Status mine = WriteShards(ranks, rank, step, partial);
  // The training is worth more than its checkpoint.
  if (!mine.ok()) outcome.messages.push_back("checkpoint: " + mine.message());
  const std::vector<int64_t> written =
      transport::GatherValues<int64_t>(&ranks->transport(), ranks->size(), rank, mine.ok() ? 1 : 0);
  if (rank != 0) return outcome;
  const auto num_written = std::count(written.begin(), written.end(), 1);
  std::error_code error;
  if (num_written == ranks->size()) {
    std::filesystem::remove_all(folder, error);  // of the same step: the run was paused there
    std::filesystem::rename(partial, folder, error);
    if (!error) {
      outcome.folder = folder;
      outcome.messages.push_back(fmt::format("checkpoint before step {} in {}", step, folder));
      return outcome;
    }
    outcome.messages.push_back(
        fmt::format("checkpoint: cannot rename {}: {}", partial, error.message()));
  }
  std::filesystem::remove_all(partial, error);
  outcome.messages.push_back(fmt::format("no checkpoint before step {}: {} of {} could be written",
                                         step, num_written, Counted(ranks->size(), "rank")));
  return outcome;
}

}  // namespace shardscope::runtime
