#include "trace/analysis/collectives/communication_matrix.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string_view>

#include "trace/analysis/capped_sum.h"
#include "trace/analysis/report/text_table.h"
#include "trace/base/units.h"

namespace shardscope::analysis {
namespace {

constexpr size_t kMostPrinted = 16;  // ranks of a whole matrix
constexpr size_t kPrintedPairs = 20;

std::string BytesOfStep(int64_t bytes, int64_t num_steps) {
  if (bytes == 0) return "-";
  return FormatBytes(std::llround(static_cast<double>(bytes) / static_cast<double>(num_steps)));
}

std::string PrintWhole(const CommunicationMatrix& matrix, int64_t num_steps) {
  TextTable::Row head = {"from \\ to"};
  for (const int32_t rank : matrix.ranks) head.push_back(fmt::format("rank {}", rank));
  TextTable table(std::move(head), 1);
  for (size_t from = 0; from < matrix.ranks.size(); ++from) {
    TextTable::Row row = {fmt::format("rank {}", matrix.ranks[from])};
    for (size_t to = 0; to < matrix.ranks.size(); ++to) {
      row.push_back(BytesOfStep(matrix.At(from, to), num_steps));
    }
    table.Add(std::move(row));
  }
  return table.Print();
}

std::string PrintPairs(const CommunicationMatrix& matrix, int64_t num_steps) {
  std::vector<size_t> pairs;
  for (size_t at = 0; at < matrix.bytes.size(); ++at) {
    if (matrix.bytes[at] > 0) pairs.push_back(at);
  }
  std::stable_sort(pairs.begin(), pairs.end(),
                   [&](size_t a, size_t b) { return matrix.bytes[a] > matrix.bytes[b]; });
  TextTable table({"from", "to", "sent a step"}, 2);
  const size_t num_ranks = matrix.ranks.size();
  for (size_t at = 0; at < std::min(pairs.size(), kPrintedPairs); ++at) {
    table.Add({fmt::format("rank {}", matrix.ranks[pairs[at] / num_ranks]),
               fmt::format("rank {}", matrix.ranks[pairs[at] % num_ranks]),
               BytesOfStep(matrix.bytes[pairs[at]], num_steps)});
  }
  const size_t left = pairs.size() - std::min(pairs.size(), kPrintedPairs);
  return table.Print() + (left > 0 ? fmt::format("  {} pairs more, --json has all\n", left) : "");
}

}  // namespace

CommunicationMatrixMaker::CommunicationMatrixMaker(const query::Snapshot& snapshot)
    : snapshot_(snapshot) {
  if (snapshot.ranks.size() > kMostMatrixRanks) return;
  for (const query::RankRows& rows : snapshot.ranks) matrix_.ranks.push_back(rows.rank);
  std::sort(matrix_.ranks.begin(), matrix_.ranks.end());
  matrix_.bytes.assign(matrix_.ranks.size() * matrix_.ranks.size(), 0);
  for (size_t at = 0; at < matrix_.ranks.size(); ++at) place_of_[matrix_.ranks[at]] = at;
}

void CommunicationMatrixMaker::Send(size_t from, size_t to, int64_t bytes) {
  AddCapped(bytes, &matrix_.bytes[from * matrix_.ranks.size() + to]);
}

void CommunicationMatrixMaker::Add(std::span<const CollectiveMember> members) {
  if (matrix_.empty()) return;
  sent_.clear();
  bool has_root = false;
  for (const CollectiveMember& member : members) {
    const auto place = place_of_.find(member.row->rank);
    if (place == place_of_.end()) return;
    const query::PlanOp* op = snapshot_.FindPlanOp(member.run->plan_op);
    const std::string_view kind = op == nullptr ? "" : std::string_view(op->kind);
    has_root =
        has_root || kind == Name(words::OpKind::kGather) || kind == Name(words::OpKind::kScatter);
    // Runs that an earlier version imported say of a receive how much comes.
    const int64_t bytes =
        kind == Name(words::OpKind::kReceive) ? 0 : std::max<int64_t>(member.row->wire_bytes, 0);
    sent_.emplace_back(place->second, bytes);
  }
  const CollectiveMember& first = members.front();
  // A group of one sends nothing; of a group that is not whole it is not known who is next.
  const bool is_whole = std::ssize(members) == first.row->group_size && members.size() > 1;
  if (!is_whole || has_root) {
    for (const auto& [place, bytes] : sent_) AddCapped(bytes, &matrix_.unplaced_bytes);
    return;
  }
  std::sort(sent_.begin(), sent_.end());
  const size_t others = sent_.size() - 1;
  for (size_t at = 0; at < sent_.size(); ++at) {
    const auto [from, bytes] = sent_[at];
    if (first.row->kind != query::OpClass::kSendReceive) {
      Send(from, sent_[(at + 1) % sent_.size()].first, bytes);
      continue;
    }
    // What does not divide goes to the next ones: the sum stays.
    const auto share = bytes / static_cast<int64_t>(others);
    const auto rest = static_cast<size_t>(bytes % static_cast<int64_t>(others));
    for (size_t next = 1; next <= others; ++next) {
      Send(from, sent_[(at + next) % sent_.size()].first, share + (next <= rest ? 1 : 0));
    }
  }
}

std::vector<MatrixCell> CellsOf(const CommunicationMatrix& matrix, size_t most) {
  const size_t num_ranks = matrix.ranks.size();
  std::vector<MatrixCell> cells;
  if (num_ranks == 0 || most == 0) return cells;
  const size_t per_cell = (num_ranks + most - 1) / most;
  for (size_t from = 0; from < num_ranks; from += per_cell) {
    for (size_t to = 0; to < num_ranks; to += per_cell) {
      MatrixCell cell{from, std::min(from + per_cell, num_ranks) - 1, to,
                      std::min(to + per_cell, num_ranks) - 1, 0};
      for (size_t row = cell.first_from; row <= cell.last_from; ++row) {
        for (size_t column = cell.first_to; column <= cell.last_to; ++column) {
          AddCapped(matrix.At(row, column), &cell.bytes);
        }
      }
      if (cell.bytes > 0) cells.push_back(cell);
    }
  }
  return cells;
}

std::string PrintMatrix(const CommunicationMatrix& matrix, int64_t num_steps) {
  const bool sends =
      std::any_of(matrix.bytes.begin(), matrix.bytes.end(), [](int64_t sent) { return sent > 0; });
  if (num_steps <= 0 || (!sends && matrix.unplaced_bytes == 0)) return "";
  std::string text =
      "\nWho sends to whom in a step, collectives taken as rings in the order of ranks\n";
  if (sends) {
    text += matrix.ranks.size() <= kMostPrinted ? PrintWhole(matrix, num_steps)
                                                : PrintPairs(matrix, num_steps);
  }
  if (matrix.unplaced_bytes > 0) {
    text +=
        fmt::format("  {} of which it is not known to whom: ranks or roots are not in the trace\n",
                    BytesOfStep(matrix.unplaced_bytes, num_steps));
  }
  return text;
}

}  // namespace shardscope::analysis
