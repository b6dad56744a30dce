#include "engine/runtime/units/unit_views.h"

#include <ATen/ops/from_blob.h>
#include <c10/core/ScalarType.h>

namespace shardscope::runtime {
namespace {

// Told where it lies, LibTorch does not ask the driver, which it would do for every view.
at::Tensor View(void* data, at::IntArrayRef sizes, const UnitMemory& memory) {
  return at::for_blob(data, sizes)
      .options(at::TensorOptions(memory.type).device(memory.device))
      .target_device(memory.device)
      .make_tensor();
}

// All ranks' rows of parameter `index`, [num_ranks, shard_elements].
at::Tensor RowsOfAll(const UnitLayout& layout, size_t index, const UnitMemory& unsharded) {
  const int64_t elements = layout.parameters()[index].shard_elements();
  return FlatView(unsharded, layout.UnshardedOffset(index, unsharded.element_bytes()),
                  layout.num_ranks() * elements)
      .view({layout.num_ranks(), elements});
}

at::Tensor Shards(const UnitLayout& layout, const UnitMemory& rank_major) {
  return FlatView(rank_major, 0, layout.num_ranks() * layout.shard_elements())
      .view({layout.num_ranks(), layout.shard_elements()});
}

}  // namespace

int64_t UnitMemory::element_bytes() const { return static_cast<int64_t>(c10::elementSize(type)); }

at::Tensor FlatView(const UnitMemory& memory, int64_t first_byte, int64_t elements) {
  return View(memory.data + first_byte, {elements}, memory);
}

at::Tensor ParameterView(const UnitLayout& layout, size_t index, const UnitMemory& memory,
                         bool is_packed) {
  const ParameterLayout& parameter = layout.parameters()[index];
  const int64_t offset = is_packed ? parameter.shard_offset * memory.element_bytes()
                                   : layout.UnshardedOffset(index, memory.element_bytes());
  return View(memory.data + offset, parameter.parameter.shape, memory);
}

void ZeroPadding(const UnitLayout& layout, const UnitMemory& unsharded) {
  for (size_t index = 0; index < layout.parameters().size(); ++index) {
    const ParameterLayout& parameter = layout.parameters()[index];
    const int64_t used = parameter.rows * parameter.row_elements;
    const int64_t padding = layout.num_ranks() * parameter.shard_elements() - used;
    if (padding == 0) continue;
    const int64_t offset = layout.UnshardedOffset(index, unsharded.element_bytes());
    FlatView(unsharded, offset + used * unsharded.element_bytes(), padding).zero_();
  }
}

void PackRankMajor(const UnitLayout& layout, const UnitMemory& unsharded,
                   const UnitMemory& rank_major) {
  const at::Tensor shards = Shards(layout, rank_major);
  for (size_t index = 0; index < layout.parameters().size(); ++index) {
    const ParameterLayout& parameter = layout.parameters()[index];
    shards.narrow(1, parameter.shard_offset, parameter.shard_elements())
        .copy_(RowsOfAll(layout, index, unsharded));
  }
}

void UnpackRankMajor(const UnitLayout& layout, const UnitMemory& rank_major,
                     const UnitMemory& unsharded) {
  const at::Tensor shards = Shards(layout, rank_major);
  for (size_t index = 0; index < layout.parameters().size(); ++index) {
    const ParameterLayout& parameter = layout.parameters()[index];
    RowsOfAll(layout, index, unsharded)
        .copy_(shards.narrow(1, parameter.shard_offset, parameter.shard_elements()));
  }
}

std::vector<transport::GatherPiece> GatherPieces(const UnitLayout& layout, const std::byte* shard,
                                                 const UnitMemory& unsharded) {
  const int64_t bytes = unsharded.element_bytes();
  std::vector<transport::GatherPiece> pieces;
  for (size_t index = 0; index < layout.parameters().size(); ++index) {
    const ParameterLayout& parameter = layout.parameters()[index];
    pieces.push_back({shard + parameter.shard_offset * bytes,
                      unsharded.data + layout.UnshardedOffset(index, bytes),
                      static_cast<size_t>(parameter.shard_elements() * bytes)});
  }
  return pieces;
}

std::vector<transport::ReducePiece> ReducePieces(const UnitLayout& layout,
                                                 const UnitMemory& unsharded, std::byte* shard) {
  const int64_t bytes = unsharded.element_bytes();
  std::vector<transport::ReducePiece> pieces;
  for (size_t index = 0; index < layout.parameters().size(); ++index) {
    const ParameterLayout& parameter = layout.parameters()[index];
    pieces.push_back({unsharded.data + layout.UnshardedOffset(index, bytes),
                      shard + parameter.shard_offset * bytes,
                      static_cast<size_t>(parameter.shard_elements())});
  }
  return pieces;
}

std::vector<transport::AllReducePiece> AllReducePieces(const UnitLayout& layout,
                                                       const UnitMemory& unsharded) {
  std::vector<transport::AllReducePiece> pieces;
  for (size_t index = 0; index < layout.parameters().size(); ++index) {
    pieces.push_back({unsharded.data + layout.UnshardedOffset(index, unsharded.element_bytes()),
                      static_cast<size_t>(layout.parameters()[index].shard_elements())});
  }
  return pieces;
}

void TakeReduced(const UnitMemory& reduced, bool is_packed, bool adds, ShardedUnit* unit) {
  const auto put = [adds](const at::Tensor& shard, const at::Tensor& from) {
    if (adds) {
      shard.add_(from);
    } else {
      shard.copy_(from);
    }
  };
  const UnitLayout& layout = unit->layout();
  if (is_packed) {
    put(unit->gradient(), FlatView(reduced, 0, layout.shard_elements()));
    return;
  }
  for (size_t index = 0; index < layout.parameters().size(); ++index) {
    const ParameterLayout& parameter = layout.parameters()[index];
    put(unit->gradient().narrow(0, parameter.shard_offset, parameter.shard_elements()),
        FlatView(reduced, layout.UnshardedOffset(index, reduced.element_bytes()),
                 parameter.shard_elements()));
  }
}

}  // namespace shardscope::runtime
