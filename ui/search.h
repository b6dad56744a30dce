// What of a search every panel needs: where it stands among the hits, the way to the next, what is
// wrong with a query.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "trace/analysis/find/search.h"
#include "ui/commands.h"
#include "ui/context.h"

namespace shardscope::ui {

// Of the hits that are found now, which was stepped to; nullopt: none, or it is no longer one.
std::optional<size_t> CurrentHit(const SearchState& search);

// `by` hits on from the current one (negative: back), round the end; where there is none yet, the
// first one from the start of the view on, or the last before it. Opens a search that is closed.
// Nothing while what was typed last is still being looked for.
Commands StepToHit(const Context& context, int by);

// What is wrong, in the language; in English the sentence of the command line.
std::string SearchErrorText(Language language, const analysis::SearchError& error);

}  // namespace shardscope::ui
