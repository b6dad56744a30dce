// What the panel Blocks asks for and says of a block.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "trace/query/live_blocks.h"
#include "ui/commands.h"
#include "ui/context.h"
#include "ui/language.h"

namespace shardscope::ui {

// The moment of the time lens, else what was asked for, else the highest peak. nullopt: nothing is
// known of memory yet. While the lens plays it is a moment that changes three times a second.
std::optional<query::BlocksQuery> WantedBlocks(const Context& context);

// The state in which the moment that is shown is compared with another: from the earlier of the two
// to the later one. No moment: with none. `rank`: in whose memory or lanes the moment was chosen;
// before any was, it becomes the one that is shown. nullopt: the blocks that are shown are of
// another rank, of which that moment would say something else.
std::optional<BlocksState> BlocksBetween(const Context& context, std::optional<int64_t> moment_ns,
                                         std::optional<int32_t> rank);

// In a word or two what a block is, for a tile of its own: its unit; of none the innermost frame of
// its stack, or the range, in which it was asked for, else the op that allocated it, else its
// category.
std::string BlockLabel(Language language, const query::LiveBlock& block);

// "F block0 all_gather 3.2 ms before": what allocated it and when, beside the moment `at_ns`.
std::string AllocatedText(Language language, const query::LiveBlock& block, int64_t at_ns);
// Likewise what frees it, or has freed it.
std::string FreedText(Language language, const query::LiveBlock& block, int64_t at_ns);

// Both in short: of ops their names, without the times.
std::string FromTo(Language language, const query::LiveBlock& block, int64_t at_ns);

// Shows the op that allocated it in the timeline; none if no op is known.
Commands ShowAllocation(const query::Snapshot& snapshot, int32_t rank,
                        const query::LiveBlock& block);

}  // namespace shardscope::ui
