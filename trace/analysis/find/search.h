// Search: finds what happened in a run by a few words: ops, work of GPUs, ranges that threads
// marked, and markers, which errors are. Pure functions over a Snapshot, the same for app and CLI.
//
// A query is terms with spaces between them, all of which have to hold:
//   all_gather        a part of the name, in capitals or not; "two words" in quotes
//   kind:all_gather   kind, class or category of an op, what a GPU did, op, work, range, marker,
//                     or the kind of a marker (change, error, ...)
//   rank:1  step:7    where it ran; ranges, and work of no op, are of the step they begin in
//   unit:block1       a part of the op's unit or segment; GPU work is of the op that launched it
//   slower:5ms        it took longer than that
//   exposed           communication that compute of its rank does not hide to its end
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "trace/analysis/steps/breakdown.h"
#include "trace/base/status.h"
#include "trace/query/snapshot.h"

namespace shardscope::analysis {

// All of it has to hold.
struct SearchQuery {
  std::vector<std::string> texts;  // in small letters
  std::vector<std::string> kinds;
  std::vector<std::string> units;  // in small letters
  std::optional<int32_t> rank;
  std::optional<int32_t> step;
  std::optional<int64_t> slower_ns;
  bool exposed = false;
};

struct SearchError {
  enum class Problem : uint8_t {
    kEmpty,        // no term
    kOpenQuote,    // without its end
    kUnknownTerm,  // "color:red"
    kUnknownKind,
    kNoText,  // "unit:"
    kNoNumber,
    kNoDuration,
    kTwice,   // a term that can hold one value only
    kNoValue  // "exposed:2"
  };
  Problem problem = Problem::kEmpty;
  std::string term;  // as it was written
  std::string hint;  // what may stand there, or what was perhaps meant; may be empty
};

// One sentence: the term, what is wrong with it, the remedy (English; the app translates by
// problem).
std::string SearchErrorSentence(const SearchError& error);

std::variant<SearchQuery, SearchError> ParseSearch(std::string_view text);

enum class HitKind : uint8_t { kOp, kWork, kRange, kMarker };

struct SearchHit {
  HitKind what = HitKind::kOp;
  int32_t rank = -1;  // -1: of a marker, which is of all ranks
  int32_t step = -1;  // -1: in none
  uint32_t row = 0;   // of its rank's op_runs, gpu_work or spans, or of Snapshot::markers
  int64_t start_ns = 0;
  int64_t end_ns = 0;  // of a marker its start
  query::TrackId track = query::TrackId::None();
  query::OpRunId op_run = query::OpRunId::None();  // of an op
  query::SpanId span = query::SpanId::None();      // of work and ranges
  // false: of a range that was still open when its recording ended, at `end_ns`. Of what a search
  // found; HitOf() does not look at names.
  bool has_end = true;

  bool operator==(const SearchHit&) const = default;
};

// By time; equal ones by rank, what they are, and row.
bool IsBefore(const SearchHit& a, const SearchHit& b);

std::string NameOf(const query::Snapshot& snapshot, const SearchHit& hit);  // in full
std::string KindOf(const query::Snapshot& snapshot, const SearchHit& hit);  // kind: finds it

inline constexpr size_t kMostHits = 100'000;

struct SearchResult {
  bool stopped = false;         // before its end: the rest says nothing
  std::vector<SearchHit> hits;  // the first ones, in time order
  // Of all hits, kept or not.
  int64_t count = 0;
  int64_t longest_ns = 0;  // how far behind its start a hit may reach
  // Of those whose end was seen; without markers, which are moments.
  int64_t sum_ns = 0;
  Percentiles duration_ns;
};

struct SearchOptions {
  size_t most_hits = kMostHits;  // that are kept
  std::stop_token stop = {};     // looked at every few thousand rows
  // Ranks are searched on as many threads as the machine has cores, each of which has so many rows.
  size_t rows_a_thread = 1'000'000;
};

// Besides the hits it takes up to 24 bytes for each thing found, while it runs: its length, which
// is copied as threads' findings are joined.
SearchResult Search(const query::Snapshot& snapshot, const SearchQuery& query,
                    const SearchOptions& options = {});

// An error names the steps that there are, where `query` names one of which the trace has nothing:
// no finished step, nothing that ran in it, no marker. For a query without hits.
Status CheckHasStep(const query::Snapshot& snapshot, const SearchQuery& query);

}  // namespace shardscope::analysis
