#include "trace/query/live_blocks.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>

#include "trace/base/words.h"
#include "trace/query/select.h"
#include "trace/store/run_files.h"
#include "trace/store/run_source.h"

namespace shardscope::query {
namespace {

// Of those live at the moment some may be freed later: looked for in so many rows.
constexpr int64_t kMostRowsAfter = 500'000;

MemoryCategory CategoryOf(std::string_view word) {
  return ParseMemoryCategory(word).value_or(MemoryCategory::kOther);
}

// What of a rank is live, told in the order of its changes.
class Ledger {
 public:
  explicit Ledger(const BlocksQuery& query) { blocks_.asked = query; }

  void Allocate(LiveBlock block) {
    BySize& open = open_[{block.category, block.unit}];
    open[block.bytes].push_back(std::move(block));
  }

  // `freed`: bytes, category, unit, and of freed_ns and freed_by what is known.
  void Free(const LiveBlock& freed) {
    const auto found = open_.find({freed.category, freed.unit});
    if (found == open_.end()) return;
    BySize& open = found->second;
    const auto same = open.find(freed.bytes);
    if (same != open.end()) {
      End(std::move(same->second.front()), freed);
      same->second.pop_front();
      if (same->second.empty()) open.erase(same);
      return;
    }
    int64_t left = freed.bytes;
    while (left > 0 && !open.empty()) left -= Shrink(&open, left, freed);
  }

  // One of which all is known.
  void AddWhole(LiveBlock block) { Keep(std::move(block)); }

  // What is still open lives on.
  LiveBlocks Finish() && {
    for (auto& [key, open] : open_) {
      for (auto& [bytes, blocks] : open) {
        for (LiveBlock& block : blocks) Keep(std::move(block));
      }
    }
    for (std::vector<LiveBlock>* list : {&blocks_.live, &blocks_.gone}) {
      std::sort(list->begin(), list->end(), [](const LiveBlock& a, const LiveBlock& b) {
        return std::tie(b.bytes, a.category, a.unit, a.allocated_ns) <
               std::tie(a.bytes, b.category, b.unit, b.allocated_ns);
      });
    }
    return std::move(blocks_);
  }

 private:
  using BySize = std::map<int64_t, std::deque<LiveBlock>>;  // each oldest first

  // Takes at most `most` bytes off the oldest block; returns how many.
  int64_t Shrink(BySize* open, int64_t most, const LiveBlock& freed) {
    auto oldest = open->begin();
    for (auto it = open->begin(); it != open->end(); ++it) {
      if (it->second.front().allocated_ns < oldest->second.front().allocated_ns) oldest = it;
    }
    LiveBlock block = std::move(oldest->second.front());
    oldest->second.pop_front();
    if (oldest->second.empty()) open->erase(oldest);
    LiveBlock part = block;
    part.bytes = std::min(most, block.bytes);
    const int64_t taken = part.bytes;
    block.bytes -= taken;
    End(std::move(part), freed);
    if (block.bytes > 0) (*open)[block.bytes].push_front(std::move(block));
    return taken;
  }

  void End(LiveBlock block, const LiveBlock& freed) {
    block.freed_ns = freed.freed_ns;
    block.freed_by = freed.freed_by;
    Keep(std::move(block));
  }

  bool IsLiveAt(const LiveBlock& block, int64_t time_ns) const {
    return block.allocated_ns <= time_ns && (block.freed_ns < 0 || block.freed_ns > time_ns);
  }

  // If it was live at one of the moments that were asked for.
  void Keep(LiveBlock block) {
    const BlocksQuery& asked = blocks_.asked;
    const bool was_live = asked.since_ns && IsLiveAt(block, *asked.since_ns);
    const int64_t bytes = block.category == MemoryCategory::kHost ? 0 : block.bytes;
    if (IsLiveAt(block, asked.at_ns)) {
      blocks_.live_bytes += bytes;
      block.came = asked.since_ns && !was_live;
      if (block.came) blocks_.came_bytes += bytes;
      blocks_.live.push_back(std::move(block));
    } else if (was_live) {
      blocks_.gone_bytes += bytes;
      blocks_.gone.push_back(std::move(block));
    }
  }

  LiveBlocks blocks_;
  std::map<std::pair<MemoryCategory, std::string>, BySize> open_;
};

// false: no rows.
Result<bool> ReadEvents(store::Database* database, const BlocksQuery& query, Ledger* ledger) {
  SHARDSCOPE_ASSIGN_OR_RETURN(
      store::Statement rows,
      database->Prepare("SELECT m.bytes, m.category, m.unit, m.executed_ns, m.step, m.plan_op, "
                        "coalesce(p.name, '') FROM memory_event m LEFT JOIN plan_op p ON p.id = "
                        "m.plan_op WHERE m.rank = ?1 ORDER BY m.executed_ns, m.id"));
  rows.Bind(1, int64_t{query.rank});
  bool any = false;
  for (int64_t after = 0; after < kMostRowsAfter;) {
    SHARDSCOPE_ASSIGN_OR_RETURN(const bool is_row, rows.Step());
    if (!is_row) break;
    any = true;
    const int64_t time_ns = rows.Integer(3);
    const bool is_after = time_ns > query.at_ns;
    after += static_cast<int64_t>(is_after);
    const int64_t bytes = rows.Integer(0);
    LiveBlock block;
    block.bytes = std::abs(bytes);
    block.category = CategoryOf(rows.Text(1));
    block.unit = rows.Text(2);
    if (bytes >= 0) {
      block.allocated_ns = time_ns;
      block.step = static_cast<int32_t>(rows.Integer(4));
      block.allocated_by_op = PlanOpId(rows.Integer(5));
      block.allocated_by = rows.Text(6);
      ledger->Allocate(std::move(block));
    } else {
      block.freed_ns = time_ns;
      block.freed_by = rows.Text(6);
      ledger->Free(block);
    }
  }
  return any;
}

// Of a recorded program or an imported memory snapshot. false: no rows.
Result<bool> ReadAllocations(store::Database* database, const BlocksQuery& query, Ledger* ledger) {
  SHARDSCOPE_ASSIGN_OR_RETURN(
      store::Statement rows,
      database->Prepare(
          "SELECT a.block_bytes, a.category, a.unit, a.allocated_ns, a.free_completed_ns, a.state, "
          "coalesce(s.text, r.text, '') FROM allocation a "
          "LEFT JOIN allocation_stack k ON k.id = a.id LEFT JOIN string s ON s.id = "
          "k.stack_string LEFT JOIN string r ON r.id = a.range_string "
          "WHERE a.rank = ?1 AND a.allocated_ns <= ?2 AND a.free_completed_ns >= ?3"));
  rows.Bind(1, int64_t{query.rank});
  rows.Bind(2, query.at_ns);
  rows.Bind(3, query.since_ns.value_or(query.at_ns));
  bool any = false;
  while (true) {
    SHARDSCOPE_ASSIGN_OR_RETURN(const bool is_row, rows.Step());
    if (!is_row) break;
    any = true;
    LiveBlock block;
    block.bytes = rows.Integer(0);
    block.category = CategoryOf(rows.Text(1));
    block.unit = rows.Text(2);
    block.allocated_ns = rows.Integer(3);
    block.freed_ns =
        rows.Text(5) == words::Name(words::AllocationState::kFreed) ? rows.Integer(4) : -1;
    block.stack = rows.Text(6);
    ledger->AddWhole(std::move(block));
  }
  return any;
}

}  // namespace

Result<LiveBlocks> ReadLiveBlocks(const std::string& path, const BlocksQuery& query,
                                  const std::stop_token& stop) {
  SHARDSCOPE_ASSIGN_OR_RETURN(const store::RunFiles run, store::FindRun(path));
  SHARDSCOPE_ASSIGN_OR_RETURN(store::Database database, store::OpenRunDatabase(run));
  database.StopWhen(stop);
  Ledger ledger(query);
  SHARDSCOPE_ASSIGN_OR_RETURN(bool any, ReadAllocations(&database, query, &ledger));
  if (!any) {
    SHARDSCOPE_ASSIGN_OR_RETURN(any, ReadEvents(&database, query, &ledger));
  }
  if (!any) {
    return Status::Error(fmt::format(
        "rank {} has no rows of memory in this trace (record.memory, or a snapshot of PyTorch's "
        "allocator, makes them)",
        query.rank));
  }
  return std::move(ledger).Finish();
}

}  // namespace shardscope::query
