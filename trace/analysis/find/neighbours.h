// From one op, kernel or range to others: of the same name, and along what it waited for and what
// waited for it. Pure functions over a Snapshot.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "trace/analysis/find/search.h"
#include "trace/query/snapshot.h"

namespace shardscope::analysis {

// What a row of op_runs, gpu_work or spans is, as a hit of the search.
SearchHit HitOf(const query::RankRows& rows, HitKind what, size_t row);

// How many rows are looked at for the next of a name: a frame waits for it.
inline constexpr size_t kNeighbourRows = 200'000;

// The next (`by` > 0) or the one before (`by` < 0) with the same name on its rank, by start;
// nullopt where none is near enough. Ops have the name that the plan gives them, in every step the
// same; that the end of a range was not seen is no part of its name. `from`: no marker.
std::optional<SearchHit> OfSameName(const query::Snapshot& snapshot, const SearchHit& from, int by);

// What this op waited for last: of a receive what was sent, else the op that ended last before it
// could begin; else, of a collective, the part of the rank that arrived last. nullopt: it waited
// for nothing that is known.
std::optional<SearchHit> WaitedFor(const query::Snapshot& snapshot, const SearchHit& op);

// What waited for this op: of a send what received it, of an all-gather its first use, else the
// first op that waited for it last.
std::optional<SearchHit> WaitsFor(const query::Snapshot& snapshot, const SearchHit& op);

}  // namespace shardscope::analysis
