// CommunicationMatrix: which rank sends how much to which. Collectives are taken to go round rings
// in the order of ranks, as NCCL's and our own do with much data; an all-to-all, which
// is sends and receives among many, goes to all alike, a send to its peer. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "trace/analysis/collectives/collectives.h"
#include "trace/query/snapshot.h"

namespace shardscope::analysis {

// With more ranks there is no matrix.
inline constexpr size_t kMostMatrixRanks = 1024;

struct CommunicationMatrix {
  std::vector<int32_t> ranks;  // ascending; of rows, which send, and of columns, which receive
  std::vector<int64_t> bytes;  // row by row, of all steps of the scope
  // Of collectives of which not all ranks are in the trace, and of gathers and scatters, whose root
  // it does not tell.
  int64_t unplaced_bytes = 0;

  bool empty() const { return ranks.empty(); }
  int64_t At(size_t from, size_t to) const { return bytes[from * ranks.size() + to]; }
};

class CommunicationMatrixMaker {
 public:
  explicit CommunicationMatrixMaker(const query::Snapshot& snapshot);
  // The members of one collective, as ForEachCollective() gives them.
  void Add(std::span<const CollectiveMember> members);
  CommunicationMatrix Take() { return std::move(matrix_); }

 private:
  void Send(size_t from, size_t to, int64_t bytes);

  const query::Snapshot& snapshot_;
  CommunicationMatrix matrix_;
  std::unordered_map<int32_t, size_t> place_of_;  // of a rank
  std::vector<std::pair<size_t, int64_t>> sent_;  // of the members: place, bytes; kept to be reused
};

// Neighbouring ranks that share a cell of a picture.
struct MatrixCell {
  size_t first_from = 0;  // indices of CommunicationMatrix::ranks
  size_t last_from = 0;
  size_t first_to = 0;
  size_t last_to = 0;
  int64_t bytes = 0;  // sum over these, above 0
};
// Row by row; those without bytes are left out. `most`: rows and columns of cells.
std::vector<MatrixCell> CellsOf(const CommunicationMatrix& matrix, size_t most);

// As a table of a terminal, means of a step; of many ranks the pairs that send most.
std::string PrintMatrix(const CommunicationMatrix& matrix, int64_t num_steps);

}  // namespace shardscope::analysis
