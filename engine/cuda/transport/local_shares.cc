#include "engine/cuda/transport/local_shares.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "engine/transport/reduce.h"

namespace shardscope::cuda {
namespace {

using transport::AllReducePiece;
using transport::Announcement;
using transport::ChunkOf;
using transport::GatherPiece;
using transport::ReducePiece;

size_t Index(int rank) { return static_cast<size_t>(rank); }

// Splits a collective's time among its pieces by their sizes.
class PaceOfPieces {
 public:
  PaceOfPieces(const Pace& pace, size_t all) : pace_(pace), all_(std::max<size_t>(all, 1)) {}
  Pace Next(size_t size) {
    const double from = At(before_);
    before_ += size;
    return {pace_.window, from, At(before_), pace_.limit_ns};
  }

 private:
  double At(size_t sum) const {
    return pace_.from +
           (pace_.to - pace_.from) * static_cast<double>(sum) / static_cast<double>(all_);
  }
  const Pace pace_;
  const size_t all_;
  size_t before_ = 0;
};

template <typename Piece>
std::span<const Piece> PiecesOf(const Announcement& one) {
  return std::get<std::span<const Piece>>(one.pieces);
}

}  // namespace

void LocalShares::Gather(Announced announced, int rank, const Pace& pace) const {
  const std::span<const GatherPiece> own = PiecesOf<GatherPiece>(announced[Index(rank)]);
  const Stream stream = announced[Index(rank)].call.device_stream;
  size_t all = 0;
  for (const GatherPiece& piece : own) all += piece.bytes;
  PaceOfPieces paces(pace, all);
  for (size_t index = 0; index < own.size(); ++index) {
    CopyTask task{
        .num_inputs = options_.num_ranks, .output = own[index].receive, .bytes = own[index].bytes};
    for (int from = 0; from < options_.num_ranks; ++from) {
      task.inputs[from] = PiecesOf<GatherPiece>(announced[Index(from)])[index].send;
    }
    if (task.bytes == 0) continue;
    if (pace.window != nullptr) {
      options_.kernels->Copy(task, paces.Next(own[index].bytes), stream);
      continue;
    }
    for (int from = 0; from < options_.num_ranks; ++from) {
      std::byte* to = own[index].receive + Index(from) * task.bytes;
      if (to == task.inputs[from]) continue;
      Check(options_.api, "cudaMemcpyAsync",
            options_.api.MemcpyAsync(to, task.inputs[from], task.bytes, kCopyDefault, stream));
    }
  }
}

void LocalShares::Reduce(Announced announced, int rank, const Pace& pace) const {
  const Announcement& mine = announced[Index(rank)];
  const std::span<const ReducePiece> own = PiecesOf<ReducePiece>(mine);
  const auto element_bytes = static_cast<size_t>(plan::BytesOf(mine.reduction.dtype));
  size_t all = 0;
  for (const ReducePiece& piece : own) all += piece.elements;
  PaceOfPieces paces(pace, all);
  for (size_t index = 0; index < own.size(); ++index) {
    SumTask task{.num_inputs = options_.num_ranks,
                 .output = own[index].receive,
                 .elements = own[index].elements,
                 .dtype = mine.reduction.dtype,
                 .scale = mine.reduction.scale};
    for (int from = 0; from < options_.num_ranks; ++from) {
      task.inputs[from] = PiecesOf<ReducePiece>(announced[Index(from)])[index].send +
                          Index(rank) * task.elements * element_bytes;
    }
    if (task.elements == 0) continue;
    options_.kernels->Sum(task, paces.Next(own[index].elements), mine.call.device_stream);
  }
}

void LocalShares::ChunkSums(Announced announced, int rank, const Pace& pace) const {
  const Announcement& mine = announced[Index(rank)];
  const std::span<const AllReducePiece> own = PiecesOf<AllReducePiece>(mine);
  const auto element_bytes = static_cast<size_t>(plan::BytesOf(mine.reduction.dtype));
  size_t all = 0;
  for (const AllReducePiece& piece : own) all += piece.elements;
  PaceOfPieces paces(pace, all);
  for (size_t index = 0; index < own.size(); ++index) {
    const auto [begin, end] = ChunkOf(own[index].elements, rank, options_.num_ranks);
    const Pace piece_pace = paces.Next(own[index].elements);
    SumTask task{.num_inputs = options_.num_ranks,
                 .output = own[index].data + begin * element_bytes,
                 .elements = end - begin,
                 .dtype = mine.reduction.dtype,
                 .scale = mine.reduction.scale};
    for (int from = 0; from < options_.num_ranks; ++from) {
      task.inputs[from] =
          PiecesOf<AllReducePiece>(announced[Index(from)])[index].data + begin * element_bytes;
    }
    if (task.elements > 0) options_.kernels->Sum(task, piece_pace, mine.call.device_stream);
  }
}

void LocalShares::ChunkCopies(Announced announced, int rank, const Pace& pace) const {
  const Announcement& mine = announced[Index(rank)];
  const std::span<const AllReducePiece> own = PiecesOf<AllReducePiece>(mine);
  const auto element_bytes = static_cast<size_t>(plan::BytesOf(mine.reduction.dtype));
  size_t all = 0;
  for (const AllReducePiece& piece : own) {
    const auto [begin, end] = ChunkOf(piece.elements, rank, options_.num_ranks);
    all += piece.elements - (end - begin);
  }
  PaceOfPieces paces(pace, all);
  for (size_t index = 0; index < own.size(); ++index) {
    for (int from = 0; from < options_.num_ranks; ++from) {
      const auto [begin, end] = ChunkOf(own[index].elements, from, options_.num_ranks);
      if (from == rank || begin == end) continue;
      const std::byte* source = PiecesOf<AllReducePiece>(announced[Index(from)])[index].data;
      const CopyTask task{.inputs = {source + begin * element_bytes},
                          .num_inputs = 1,
                          .output = own[index].data + begin * element_bytes,
                          .bytes = (end - begin) * element_bytes};
      options_.kernels->Copy(task, paces.Next(end - begin), mine.call.device_stream);
    }
  }
}

}  // namespace shardscope::cuda
