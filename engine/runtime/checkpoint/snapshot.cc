#include "engine/runtime/checkpoint/snapshot.h"

#include <ATen/ops/from_blob.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "engine/checkpoint/folder.h"
#include "engine/model/safetensors.h"

namespace shardscope::runtime {
namespace {

// Among the ranks that hold the same of a parameter.
struct Replica {
  int64_t index = 0;
  int64_t count = 1;
};

Replica ReplicaOf(const StateLayout& layout, int rank, const plan::Parameter& parameter) {
  Replica replica;
  if (layout.is_rooted) return replica;
  const auto add = [&](plan::MeshDimension dimension) {
    replica.index =
        replica.index * layout.mesh.size(dimension) + layout.mesh.Coordinate(rank, dimension);
    replica.count *= layout.mesh.size(dimension);
  };
  add(plan::MeshDimension::kReplicate);
  if (parameter.split == plan::TensorSplit::kWhole) add(plan::MeshDimension::kTensor);
  return replica;
}

}  // namespace

std::vector<std::pair<std::string, at::Tensor>> StateTensorsOf(const ShardedUnit& unit,
                                                               size_t index) {
  std::vector<std::pair<std::string, at::Tensor>> tensors{
      {std::string(checkpoint::kParameter), unit.SliceOf(index).parameters}};
  for (size_t tensor = 0; tensor < unit.NumStateTensors(index); ++tensor) {
    tensors.emplace_back(unit.state_tensors()[tensor].name, unit.StateValues(tensor, index));
  }
  return tensors;
}

void Snapshot::Plan(const StateLayout& layout, int rank, std::span<const ShardedUnit> units) {
  parts_.clear();
  int64_t offset = 0;
  for (const ShardedUnit& unit : units) {
    if (!unit.is_here()) continue;
    for (size_t index = 0; index < unit.layout().parameters().size(); ++index) {
      const plan::Parameter& parameter = unit.layout().parameters()[index].parameter;
      const Replica replica = ReplicaOf(layout, rank, parameter);
      const int64_t owned = unit.OwnedElements(index);
      const int64_t first = owned * replica.index / replica.count;
      const int64_t count = owned * (replica.index + 1) / replica.count - first;
      if (count == 0) continue;
      Part part{.parameter = parameter.name,
                .whole_shape = plan::WholeOf(parameter, unit.place().tensor_ranks).shape};
      for (const plan::TensorRun& run : unit.OwnRuns(index)) {
        const int64_t begin = std::max(run.first, first);
        const int64_t end = std::min(run.first + run.count, first + count);
        if (end > begin) {
          checkpoint::AppendRun(run.first_in_whole + begin - run.first, end - begin, &part.runs);
        }
      }
      for (auto& [name, values] : StateTensorsOf(unit, index)) {
        part.tensor = name;
        part.dtype = model::SafetensorsDType(values.scalar_type());
        part.offset = offset;
        part.bytes = count * values.element_size();
        part.source = values.narrow(0, first, count);
        parts_.push_back(part);
        offset += (part.bytes + 63) / 64 * 64;
      }
    }
  }
  if (offset <= capacity_) return;
  bytes_.reset();
  capacity_ = 0;
  try {
    bytes_.reset(new std::byte[static_cast<size_t>(offset)]);  // not touched yet
  } catch (const std::bad_alloc&) {
    parts_.clear();  // they hold what ranks keep
    throw;
  }
  capacity_ = offset;
}

void Snapshot::Take(const StateLayout& layout, int rank, std::span<const ShardedUnit> units) {
  const c10::InferenceMode no_autograd;
  Plan(layout, rank, units);
  for (Part& part : parts_) {
    std::byte* const to = bytes_.get() + part.offset;
    if (part.source.is_cpu()) {
      std::memcpy(to, part.source.const_data_ptr(), part.source.nbytes());
    } else {
      at::from_blob(to, part.source.sizes(), at::TensorOptions(part.source.scalar_type()))
          .copy_(part.source);
    }
    part.source = at::Tensor();
  }
}

std::vector<int64_t> Snapshot::ShapeOf(const Part& part) {
  const int64_t elements = checkpoint::ElementsOf(part.runs);
  std::vector<int64_t> shape = part.whole_shape;
  if (shape.empty()) return {elements};
  const int64_t row = plan::NumElements(shape) / shape.front();
  const bool has_rows = part.runs.size() == 1 && part.runs.front().times == 1 &&
                        part.runs.front().first % row == 0 && elements % row == 0;
  if (!has_rows) return {elements};
  shape.front() = elements / row;
  return shape;
}

Result<checkpoint::Index> Snapshot::Write(const std::string& folder,
                                          const std::string& name) const {
  std::vector<checkpoint::TensorBytes> tensors;
  for (const Part& part : parts_) {
    tensors.push_back({{part.tensor + "." + part.parameter, part.dtype, ShapeOf(part)},
                       {bytes_.get() + part.offset, static_cast<size_t>(part.bytes)}});
  }
  checkpoint::Index index{.num_ranks = 1};
  std::vector<int64_t> offsets;
  SHARDSCOPE_ASSIGN_OR_RETURN(checkpoint::FileEntry file,
                              checkpoint::WriteTensors(folder + "/" + name, tensors, &offsets));
  index.files.push_back(std::move(file));
  for (size_t at = 0; at < parts_.size(); ++at) {
    const Part& part = parts_[at];
    if (index.parameters.empty() || index.parameters.back().name != part.parameter) {
      index.parameters.push_back({part.parameter, part.whole_shape, {}});
    }
    index.parameters.back().tensors.push_back(
        {part.tensor, part.dtype, {{.file = 0, .offset = offsets[at], .runs = part.runs}}});
  }
  return index;
}

}  // namespace shardscope::runtime
