#include "engine/runtime/units/unit_views.h"

#include <ATen/ops/from_blob.h>
#include <c10/core/ScalarType.h>

#include "engine/runtime/units/arithmetic.h"

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

// Both contiguous.
void Put(const at::Tensor& to, const at::Tensor& from, bool adds) {
  if (!adds) {
    to.copy_(from);
  } else if (to.is_cpu() && to.scalar_type() == at::kFloat && from.element_size() == 2) {
    const auto dtype = from.scalar_type() == at::kHalf ? plan::DType::kFp16 : plan::DType::kBf16;
    AddNarrow(from.const_data_ptr(), dtype, from.numel(), to.mutable_data_ptr<float>());
  } else {
    to.add_(from);
  }
}

// Of `count` ranks, [count, shard_elements].
at::Tensor Shards(const UnitLayout& layout, const UnitMemory& rank_major, int64_t count) {
  return FlatView(rank_major, 0, count * layout.shard_elements())
      .view({count, layout.shard_elements()});
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
  PackRanks(layout, unsharded, 0, layout.num_ranks(), rank_major);
}

void PackRanks(const UnitLayout& layout, const UnitMemory& unsharded, int64_t first, int64_t count,
               const UnitMemory& rank_major) {
  const at::Tensor shards = Shards(layout, rank_major, count);
  for (size_t index = 0; index < layout.parameters().size(); ++index) {
    const ParameterLayout& parameter = layout.parameters()[index];
    shards.narrow(1, parameter.shard_offset, parameter.shard_elements())
        .copy_(RowsOfAll(layout, index, unsharded).narrow(0, first, count));
  }
}

void UnpackRankMajor(const UnitLayout& layout, const UnitMemory& rank_major,
                     const UnitMemory& unsharded) {
  const at::Tensor shards = Shards(layout, rank_major, layout.num_ranks());
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

std::vector<transport::AllReducePiece> WholeParameterPieces(const UnitLayout& layout,
                                                            const UnitMemory& packed) {
  std::vector<transport::AllReducePiece> pieces;
  for (const ParameterLayout& parameter : layout.parameters()) {
    if (parameter.parameter.split != plan::TensorSplit::kWhole) continue;
    pieces.push_back({packed.data + parameter.shard_offset * packed.element_bytes(),
                      static_cast<size_t>(parameter.shard_elements())});
  }
  return pieces;
}

std::vector<at::Tensor> SlotsOf(const UnitLayout& layout, int place, const UnitMemory& unsharded) {
  std::vector<at::Tensor> slots;
  for (size_t index = 0; index < layout.parameters().size(); ++index) {
    slots.push_back(RowsOfAll(layout, index, unsharded).select(0, place));
  }
  return slots;
}

std::vector<transport::GatherPiece> GatherPiecesInPlace(const UnitLayout& layout, int place,
                                                        const UnitMemory& unsharded) {
  const int64_t bytes = unsharded.element_bytes();
  std::vector<transport::GatherPiece> pieces;
  for (size_t index = 0; index < layout.parameters().size(); ++index) {
    const int64_t slot_bytes = layout.parameters()[index].shard_elements() * bytes;
    std::byte* const all = unsharded.data + layout.UnshardedOffset(index, bytes);
    pieces.push_back({all + place * slot_bytes, all, static_cast<size_t>(slot_bytes)});
  }
  return pieces;
}

std::vector<transport::ReducePiece> ReducePiecesInPlace(const UnitLayout& layout, int place,
                                                        const UnitMemory& unsharded) {
  const int64_t bytes = unsharded.element_bytes();
  std::vector<transport::ReducePiece> pieces;
  for (size_t index = 0; index < layout.parameters().size(); ++index) {
    const int64_t elements = layout.parameters()[index].shard_elements();
    std::byte* const all = unsharded.data + layout.UnshardedOffset(index, bytes);
    pieces.push_back({all, all + place * elements * bytes, static_cast<size_t>(elements)});
  }
  return pieces;
}

void Take(const UnitLayout& layout, const UnitMemory& from, bool adds, const UnitMemory& to) {
  for (size_t index = 0; index < layout.parameters().size(); ++index) {
    Put(RowsOfAll(layout, index, to), RowsOfAll(layout, index, from), adds);
  }
}

void TakeReduced(const UnitLayout& layout, const UnitMemory& reduced, bool is_packed, bool adds,
                 const at::Tensor& shard) {
  if (is_packed) {
    Put(shard, FlatView(reduced, 0, layout.shard_elements()), adds);
    return;
  }
  for (size_t index = 0; index < layout.parameters().size(); ++index) {
    const ParameterLayout& parameter = layout.parameters()[index];
    Put(shard.narrow(0, parameter.shard_offset, parameter.shard_elements()),
        FlatView(reduced, layout.UnshardedOffset(index, reduced.element_bytes()),
                 parameter.shard_elements()),
        adds);
  }
}

}  // namespace shardscope::runtime
