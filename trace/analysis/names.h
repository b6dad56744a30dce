// Names: the short labels of ops and the words of enums, the same in report, app and tests.
#pragma once

#include <string>
#include <string_view>

#include "trace/analysis/collectives/collectives.h"
#include "trace/analysis/scope.h"
#include "trace/query/rows.h"
#include "trace/query/snapshot.h"

namespace shardscope::analysis {

// "AG block1", "RS block2", "AR", "F block1.mlp", "B head", "copy-out block1", "optimizer block1".
// Micro-batches after the first are named: "F m1 block1.mlp".
std::string ShortName(const query::PlanOp& op);

// A stall's headline, "AG block1 → B": what was waited for and the phase that waited.
std::string StallTitle(const query::PlanOp& blocking, const query::PlanOp& waiting);

// "forward", "backward", ... to "F", "B", "O"; "" for an unknown phase.
std::string_view PhaseLetter(const query::PlanOp& op);

// The words of trace/base/words.h, and "since_change", "last_steps", ...
using words::Name;
std::string_view Name(ScopeKind kind);

}  // namespace shardscope::analysis
