#include "ui/blocks.h"

#include <algorithm>

#include "trace/analysis/memory/memory.h"
#include "trace/base/text.h"
#include "trace/base/time.h"
#include "ui/panel_ids.h"
#include "ui/text.h"
#include "ui/values.h"

namespace shardscope::ui {
namespace {

constexpr int64_t kMomentsPerSecond = 3;  // while the lens plays

// "F block0 all_gather 3.2 ms before" of what did something at `time_ns`.
std::string DoneText(Language language, const std::string& op, int64_t time_ns, int64_t at_ns) {
  const std::string when =
      time_ns > at_ns ? TrFormat(language, Text::kBlocksLater, FormatDuration(time_ns - at_ns))
                      : TrFormat(language, Text::kBlocksBefore, FormatDuration(at_ns - time_ns));
  return op.empty() ? when : op + "  " + when;
}

// Blocks are read anew for each moment: while the lens plays not for that of every frame.
int64_t MomentOfLens(const LensState& lens) {
  if (!lens.plays) return lens.now_ns;
  const int64_t apart_ns = std::max<int64_t>(kNsPerSecond / kMomentsPerSecond / lens.slowness, 1);
  return lens.now_ns - (lens.now_ns - lens.start_ns) % apart_ns;
}

std::optional<query::BlocksQuery> WantedIn(const BlocksState& state, const Context& context) {
  std::optional<query::BlocksQuery> wanted;
  if (context.report != nullptr) {
    wanted = analysis::BlocksAtPeak(context.report->memory, state.rank);
    // A rank of which nothing was recorded has no peak.
    if (!wanted && !state.at_ns) wanted = analysis::BlocksAtPeak(context.report->memory, {});
  }
  if (!wanted && state.rank && state.at_ns) wanted = query::BlocksQuery{.rank = *state.rank};
  if (!wanted) return std::nullopt;
  if (context.lens.is_on) {
    wanted->at_ns = MomentOfLens(context.lens);
  } else if (state.at_ns) {
    wanted->at_ns = *state.at_ns;
  }
  if (state.since_ns && *state.since_ns < wanted->at_ns) wanted->since_ns = state.since_ns;
  return wanted;
}

}  // namespace

std::optional<query::BlocksQuery> WantedBlocks(const Context& context) {
  return WantedIn(context.blocks, context);
}

std::optional<BlocksState> BlocksBetween(const Context& context, std::optional<int64_t> moment_ns,
                                         std::optional<int32_t> rank) {
  BlocksState state = context.blocks;
  state.since_ns = moment_ns;
  if (!moment_ns) return state;
  if (!state.rank && !state.at_ns) state.rank = rank;
  const std::optional<query::BlocksQuery> shown = WantedIn(state, context);
  if (rank && shown && shown->rank != *rank) return std::nullopt;
  // The time lens has a moment of its own.
  if (!shown || context.lens.is_on || *moment_ns <= shown->at_ns) return state;
  state.rank = shown->rank;
  state.since_ns = shown->at_ns;
  state.at_ns = moment_ns;
  return state;
}

std::string BlockLabel(Language language, const query::LiveBlock& block) {
  if (!block.unit.empty()) return block.unit;
  if (!block.stack.empty()) return std::string(FirstLine(block.stack));
  if (!block.allocated_by.empty()) return block.allocated_by;
  return MemoryCategoryName(language, block.category);
}

std::string AllocatedText(Language language, const query::LiveBlock& block, int64_t at_ns) {
  if (IsThereFromTheStart(block)) return Tr(language, Text::kBlocksFromTheStart);
  const std::string by =
      block.stack.empty() ? block.allocated_by : std::string(FirstLine(block.stack));
  return DoneText(language, by, block.allocated_ns, at_ns);
}

std::string FreedText(Language language, const query::LiveBlock& block, int64_t at_ns) {
  if (block.freed_ns < 0) return Tr(language, Text::kBlocksNotFreed);
  return DoneText(language, block.freed_by, block.freed_ns, at_ns);
}

std::string FromTo(Language language, const query::LiveBlock& block, int64_t at_ns) {
  const std::string from =
      block.allocated_by.empty() ? AllocatedText(language, block, at_ns) : block.allocated_by;
  return from + " → " +
         (block.freed_by.empty() ? FreedText(language, block, at_ns) : block.freed_by);
}

Commands ShowAllocation(const query::Snapshot& snapshot, int32_t rank,
                        const query::LiveBlock& block) {
  const query::RankRows* rows = snapshot.FindRank(rank);
  if (rows == nullptr || block.allocated_by_op.is_none()) return {};
  for (const query::OpRun& run : rows->op_runs) {
    if (run.plan_op != block.allocated_by_op || run.step != block.step) continue;
    return {FocusPanel{panel_ids::kTimeline}, ShowRank{rank, block.step},
            SelectOp{run.id, rank, false}, FitSelection{}};
  }
  return {};
}

}  // namespace shardscope::ui
