#include "engine/runtime/checkpoint/snapshot.h"

#include <ATen/ops/from_blob.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <new>

#include "engine/model/safetensors.h"
#include "trace/base/round_up.h"

namespace shardscope::runtime {
namespace {

// State in blocks, of one tensor.
struct Blocks {
  const uint8_t* codes = nullptr;
  const float* scales = nullptr;
  int64_t elements = 0;
  BlockRange range = BlockRange::kSigned;
};

// In pieces that need no memory of their own.
template <typename T>
Status Decode(const Blocks& blocks, const checkpoint::ByteSink& sink) {
  constexpr int64_t kPiece = 32 * plan::kStateBlockElements;
  std::array<T, kPiece> values;
  for (int64_t at = 0; at < blocks.elements; at += kPiece) {
    const int64_t count = std::min(kPiece, blocks.elements - at);
    DecodeBlocks(blocks.codes + at, blocks.scales + at / plan::kStateBlockElements, count,
                 blocks.range, values.data());
    SHARDSCOPE_RETURN_IF_ERROR(
        sink(std::as_bytes(std::span(values.data(), static_cast<size_t>(count)))));
  }
  return Status::Ok();
}

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

// What one of them writes: elements of the slice, from the beginning of a block.
struct Share {
  int64_t first = 0;
  int64_t count = 0;
};

Share ShareOf(const Replica& replica, int64_t owned, const ShardedUnit::Slice& slice) {
  const bool has_blocks = std::ranges::any_of(
      slice.state, [](const ShardedUnit::StateSlice& one) { return one.scales.defined(); });
  const int64_t together = has_blocks ? plan::kStateBlockElements : 1;
  const auto begin = [&](int64_t index) {
    return index == replica.count ? owned : owned * index / replica.count / together * together;
  };
  return {begin(replica.index), begin(replica.index + 1) - begin(replica.index)};
}

// Where these elements are in the whole parameter; `own`: where the slice is.
std::vector<checkpoint::ElementRun> RunsOf(const std::vector<plan::TensorRun>& own,
                                           const Share& share) {
  std::vector<checkpoint::ElementRun> runs;
  for (const plan::TensorRun& run : own) {
    const int64_t begin = std::max(run.first, share.first);
    const int64_t end = std::min(run.first + run.count, share.first + share.count);
    if (end > begin) {
      checkpoint::AppendRun(run.first_in_whole + begin - run.first, end - begin, &runs);
    }
  }
  return runs;
}

}  // namespace

void Snapshot::Plan(const StateLayout& layout, int rank, std::span<const ShardedUnit> units) {
  parts_.clear();
  for (const ShardedUnit& unit : units) {
    if (!unit.is_here()) continue;
    for (size_t index = 0; index < unit.layout().parameters().size(); ++index) {
      const plan::Parameter& parameter = unit.layout().parameters()[index].parameter;
      const ShardedUnit::Slice slice = unit.SliceOf(index);
      const Share share =
          ShareOf(ReplicaOf(layout, rank, parameter), unit.OwnedElements(index), slice);
      if (share.count == 0) continue;
      Part part{.parameter = parameter.name,
                .whole_shape = plan::WholeOf(parameter, unit.place().tensor_ranks).shape,
                .tensor = std::string(checkpoint::kParameter),
                .dtype = model::SafetensorsDType(slice.parameters.scalar_type()),
                .runs = RunsOf(unit.OwnRuns(index), share),
                .source = slice.parameters.narrow(0, share.first, share.count)};
      parts_.push_back(part);
      for (size_t tensor = 0; tensor < slice.state.size(); ++tensor) {
        const auto& [values, scales] = slice.state[tensor];
        part.tensor = unit.state_tensors()[tensor].name;
        part.source = values.narrow(0, share.first, share.count);
        if (scales.defined()) {
          part.blocks = {.range = RangeOf(tensor),
                         .source = scales.narrow(0, share.first / plan::kStateBlockElements,
                                                 plan::NumStateBlocks(share.count))};
        }
        parts_.push_back(part);
      }
    }
  }
}

void Snapshot::MakeRoom() {
  int64_t end = 0;
  const auto place = [&](const at::Tensor& source) {
    const int64_t begin = end;
    end += RoundUp<int64_t>(static_cast<int64_t>(source.nbytes()), footprint::kAlignment);
    return begin;
  };
  for (Part& part : parts_) {
    part.offset = place(part.source);
    if (part.blocks) part.blocks->offset = place(part.blocks->source);
  }
  if (end <= capacity_) return;
  bytes_.reset();
  capacity_ = 0;
  try {
    bytes_.reset(new std::byte[static_cast<size_t>(end)]);  // not touched yet
  } catch (const std::bad_alloc&) {
    parts_.clear();  // they hold what ranks keep
    throw;
  }
  capacity_ = end;
}

void Snapshot::Take(const StateLayout& layout, int rank, std::span<const ShardedUnit> units) {
  const c10::InferenceMode no_autograd;
  Plan(layout, rank, units);
  MakeRoom();
  const auto copy = [this](at::Tensor* source, int64_t offset) {
    std::byte* const to = bytes_.get() + offset;
    if (source->is_cpu()) {
      std::memcpy(to, source->const_data_ptr(), source->nbytes());
    } else {
      at::from_blob(to, source->sizes(), at::TensorOptions(source->scalar_type())).copy_(*source);
    }
    *source = at::Tensor();
  };
  for (Part& part : parts_) {
    copy(&part.source, part.offset);
    if (part.blocks) copy(&part.blocks->source, part.blocks->offset);
  }
}

checkpoint::TensorBytes Snapshot::BytesOf(const Part& part) const {
  const std::vector<int64_t> shape = ShapeOf(part);
  checkpoint::TensorBytes tensor{{part.tensor + "." + part.parameter, part.dtype, shape}, {}};
  const std::byte* const bytes = bytes_.get() + part.offset;
  if (!part.blocks) {
    tensor.bytes = {bytes, static_cast<size_t>(tensor.shape.bytes())};
    return tensor;
  }
  const Blocks blocks{.codes = reinterpret_cast<const uint8_t*>(bytes),
                      .scales = reinterpret_cast<const float*>(bytes_.get() + part.blocks->offset),
                      .elements = plan::NumElements(shape),
                      .range = part.blocks->range};
  tensor.make = [blocks, is_double = part.dtype == "F64"](const checkpoint::ByteSink& sink) {
    return is_double ? Decode<double>(blocks, sink) : Decode<float>(blocks, sink);
  };
  return tensor;
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
  for (const Part& part : parts_) tensors.push_back(BytesOf(part));
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
