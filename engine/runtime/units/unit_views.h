// Memory of a unit as tensors and as pieces of collectives, in the forms of sharded_unit.h, on any
// device. No state.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <vector>

#include "engine/runtime/units/sharded_unit.h"
#include "engine/transport/transport.h"

namespace shardscope::runtime {

// A unit's memory in one of its forms.
struct UnitMemory {
  std::byte* data = nullptr;
  at::ScalarType type = at::kFloat;
  at::Device device = at::kCPU;

  int64_t element_bytes() const;
};

at::Tensor FlatView(const UnitMemory& memory, int64_t first_byte, int64_t elements);

// Parameter `index` without its padding, of the unsharded form; or of a packed shard of one rank
// alone, which is whole.
at::Tensor ParameterView(const UnitLayout& layout, size_t index, const UnitMemory& memory,
                         bool is_packed);

// Padding rows take part in a reduction, and their sum lands in the shards' padding.
void ZeroPadding(const UnitLayout& layout, const UnitMemory& unsharded);

// The one form into the other, cast on the way.
void PackRankMajor(const UnitLayout& layout, const UnitMemory& unsharded,
                   const UnitMemory& rank_major);
// Only `count` ranks' shards from `first` on.
void PackRanks(const UnitLayout& layout, const UnitMemory& unsharded, int64_t first, int64_t count,
               const UnitMemory& rank_major);
void UnpackRankMajor(const UnitLayout& layout, const UnitMemory& rank_major,
                     const UnitMemory& unsharded);

// One piece a parameter, without copies: a packed shard into the unsharded form, and back.
std::vector<transport::GatherPiece> GatherPieces(const UnitLayout& layout, const std::byte* shard,
                                                 const UnitMemory& unsharded);
std::vector<transport::ReducePiece> ReducePieces(const UnitLayout& layout,
                                                 const UnitMemory& unsharded, std::byte* shard);
// Without shards (no_shard): the unit's gradient in place.
std::vector<transport::AllReducePiece> AllReducePieces(const UnitLayout& layout,
                                                       const UnitMemory& unsharded);

// Of a packed gradient shard, the parameters that are whole on every rank of mesh.tensor.
std::vector<transport::AllReducePiece> WholeParameterPieces(const UnitLayout& layout,
                                                            const UnitMemory& packed);

// `place`'s rows of each parameter, in the unsharded form.
std::vector<at::Tensor> SlotsOf(const UnitLayout& layout, int place, const UnitMemory& unsharded);
// One piece a parameter, in place: `place`'s slot is what it sends, or what it receives.
std::vector<transport::GatherPiece> GatherPiecesInPlace(const UnitLayout& layout, int place,
                                                        const UnitMemory& unsharded);
std::vector<transport::ReducePiece> ReducePiecesInPlace(const UnitLayout& layout, int place,
                                                        const UnitMemory& unsharded);

// One unsharded form into another of the same dtype: overwrites it, or adds to it.
void Take(const UnitLayout& layout, const UnitMemory& from, bool adds, const UnitMemory& to);

// A reduced gradient into `shard`, of a gradient too: overwrites it, or adds to it. `is_packed`: it
// has the form of a shard; else that of an unsharded unit of one rank, its padding left out.
void TakeReduced(const UnitLayout& layout, const UnitMemory& reduced, bool is_packed, bool adds,
                 const at::Tensor& shard);

}  // namespace shardscope::runtime
