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
  const Job& job = ranks->job();
  RankWork& work = ranks->work(rank);
  for (size_t index = 0; index < job.description.units.size(); ++index) {
    ShardedUnit& unit = work.unit(index);
    for (const ParameterLayout& layout : unit.layout().parameters()) {
      const int64_t rows =
          plan::OwnedRows(layout.parameter, job.shard_ranks, job.ShardIndexOf(rank));
      const auto slice = [&](const at::Tensor& shard) {
        return shard.narrow(0, layout.shard_offset, rows * layout.row_elements)
            .view({rows, layout.row_elements})
            .cpu();
      };
      const std::string& name = layout.parameter.name;
      writer.Add("parameter." + name, slice(unit.parameters()));
      writer.Add("first_moment." + name, slice(unit.first_moment()));
      writer.Add("second_moment." + name, slice(unit.second_moment()));
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
