// What panels say of many ranks: who the others wait for, in the language, and which ranks a few
// words choose.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "engine/plan/mesh.h"
#include "trace/analysis/ranks/rank_findings.h"
#include "trace/query/snapshot.h"
#include "ui/context.h"
#include "ui/language.h"

namespace shardscope::ui {

// As the run's keys arrange its ranks; nullopt: nothing tells (another program's trace), or they do
// not multiply to its ranks.
std::optional<plan::Mesh> MeshOfRun(const query::Snapshot& snapshot);

// Whose lanes stand under one another: as arranged by hand, but pinned ones first and hidden ones
// not at all. Ranks that came after they were arranged stand behind the others.
std::vector<int32_t> RanksInOrder(const query::Snapshot& snapshot, const Lanes& lanes);

// Where the lanes of `rank` land that are put over those of shown[place], or under all others.
// Pinned ones stay over the others, and these under them.
size_t LandingPlace(const std::vector<int32_t>& shown, const Lanes& lanes, int32_t rank,
                    size_t place);

// For Lanes::rank_order: all ranks, hidden ones too, once `rank` has landed so.
std::vector<int32_t> OrderWithMoved(const query::Snapshot& snapshot, const Lanes& lanes,
                                    const std::vector<int32_t>& shown, int32_t rank, size_t place);

struct RankFilterError {
  enum class Problem : uint8_t {
    kNoNumbers,  // "0-", "a", "shard="
    kNoMesh,     // "shard=1" of a run without one
    kUnknownDimension
  };
  Problem problem = Problem::kNoNumbers;
  std::string term;  // as it was written
  bool operator==(const RankFilterError&) const = default;
};
using RankFilterResult = std::variant<std::vector<int32_t>, RankFilterError>;

// Those of `ranks` that all terms of `text` choose, with spaces between them: "0-31", "3,8-15",
// "shard=3", "replicate=0-1 shard=3". Without a term: all.
RankFilterResult FilterRanks(const std::vector<int32_t>& ranks,
                             const std::optional<plan::Mesh>& mesh, std::string_view text);

// What is wrong, with the remedy.
std::string RankFilterErrorText(Language language, const RankFilterError& error);

// analysis::RankSentence() in the language.
std::string RankSentence(Language language, const analysis::RankFindings& findings);

// "Lateness", ...
const char* RankFigureName(Language language, analysis::RankFigure figure);
// "3.10 ms", "12%", "512 MB".
std::string FormatRankFigure(analysis::RankFigure figure, double value);
// "ns", "share", "B": of the log of what was drawn.
std::string_view UnitOf(analysis::RankFigure figure);

}  // namespace shardscope::ui
