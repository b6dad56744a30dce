// Link: a place in a run as a text that reopens there, `RUN#step=30&rank=1&op=AG%20block1`. This
// is its grammar; what it leads to in a run is in ui/timeline/link_place.h. Pure, no Dear ImGui.
//
// Behind the # stand parts with & between them, each at most once, in any order:
//   step=30  step=30..32   a step, or the steps from one to another
//   rank=1                 the rank of what is selected, or that is unfolded
//   ranks=0-3,7            the ranks of the marked area, ascending, where it is of several
//   op=AG%20block1  op=41  an op of that step, by its name or its place in the rank's program
//   nth=2                  of the ops with that name the second one (default the first)
//   work=NAME              a kernel, copy or range of that name, the one that begins nearest to
//   at=+1.5ms              this time
//   area=+1ms..+4ms        a marked stretch of time, of `rank` or `ranks` alone if there are any
//   t=12.5s..13.1s         what is in view
//   search=kind:forward    what is looked for (trace/analysis/find/search.h)
//   scope=5:9              steps of the figures (trace/analysis/scope.h)
// Times count from the start of the run; with a sign (t=-1ms..+4ms) from the start of the step.
// Space, #, %, &, + and what is not printable stand as %XX; a name that is a number has %XX for its
// first digit.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "trace/analysis/scope.h"
#include "ui/language.h"

namespace shardscope::ui {

struct LinkTime {
  int64_t ns = 0;
  bool of_step = false;  // from the start of the step, else of the run

  bool operator==(const LinkTime&) const = default;
};

struct LinkTimes {
  LinkTime from;
  LinkTime to;

  bool operator==(const LinkTimes&) const = default;
};

struct Link {
  std::optional<int32_t> step;
  std::optional<int32_t> last_step;  // of a range of steps
  std::optional<int32_t> rank;
  std::vector<int32_t> ranks;       // ascending; of `area`, instead of `rank`
  std::string op;                   // name; empty: none
  std::optional<int32_t> op_index;  // instead of the name
  int32_t nth = 1;
  std::string work;  // name; empty: none
  std::optional<LinkTime> at;
  std::optional<LinkTimes> area;   // marked
  std::optional<LinkTimes> times;  // in view
  std::string search;
  std::optional<analysis::Scope> scope;

  bool HasOp() const { return !op.empty() || op_index.has_value(); }
  bool HasTimes() const { return at || area || times; }
  bool operator==(const Link&) const = default;
};

// Why a text is no link, or leads nowhere in a run.
struct LinkError {
  enum class Problem : uint8_t {
    kEmpty,
    kTooLong,
    kUnknownPart,  // hint: the name that was perhaps meant, or empty
    kTwice,
    kNoNumber,
    kNoTime,
    kNoTimes,
    kNoRanks,
    kBadText,  // not UTF-8, a control character, or % without two hexadecimal digits
    kBadScope,
    kNeedsStep,  // as those below, without `hint`
    kNeedsRank,
    kNeedsOp,
    kNeedsWork,
    kNeedsAt,
    kNeedsArea,
    kOpAndWork,
    // In a run.
    kNoSteps,
    kNoSuchStep,  // hint: "0 to 23", the steps that there are
    kNoSuchRank,  // hint: the ranks that there are
    kNoSuchOp,    // hint: the name that was perhaps meant, or empty
    kNoSuchWork,
    kOutside,  // hint: how long the run is
  };
  Problem problem = Problem::kEmpty;
  std::string part;  // as it was written: "step=x"
  std::string hint;
};

// One sentence: the part, what is wrong with it, the remedy.
std::string LinkErrorText(Language language, const LinkError& error);

// Where it is, in words: "step 30, rank 1, AG block1".
std::string LinkLabel(Language language, const Link& link);

// What stands behind the #.
std::variant<Link, LinkError> ParseLink(std::string_view text);

// What ParseLink() reads as this link.
std::string PrintLink(const Link& link);

// What was given to be opened.
struct LinkedRun {
  std::string path;          // empty: of the run that is open ("#step=3")
  std::optional<Link> link;  // none: no # behind the path
};
// A path may have # in it: of the parts before a # the longest that exists is the path, and all of
// `text` is if it exists. Looks at the file system.
std::variant<LinkedRun, LinkError> ParseLinkedRun(const std::string& text);

}  // namespace shardscope::ui
