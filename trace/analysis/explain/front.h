// Front: the time of each step accounted once for the whole group of ranks.
//
// A step is cut into stages at the ends of what ranks compute: data, each unit's forward and
// backward, optimizer, and the rest. The front at a boundary is the time at which the rank that is
// furthest behind has passed it. It goes from the start of the step to its end, so what it advances
// by in each stage adds up to the step, and whoever is at the front of a stage is the one who
// determined how long it took: others that wait later do not count again. Idea and evaluation:
// StageFrontier, arXiv 2606.06751. Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "trace/query/snapshot.h"

namespace shardscope::analysis {

struct StepRows;  // row_index.h

// The stage in which batches are read.
inline constexpr std::string_view kDataStage = "data";

// One stage of one step.
struct FrontPart {
  int32_t step = 0;
  std::string stage;     // "between steps", kDataStage, "forward block0", "backward m1 block3",
                         // "optimizer", "end"
  int32_t rank = 0;      // that was furthest behind at its end
  int64_t front_ns = 0;  // by which the front advanced
  // Of that, what the rank spent beyond the median of the others, waiting for them not counted. 0
  // where no other rank has this stage.
  int64_t delay_ns = 0;
};

// Of the steps of [first_step, last_step] that all ranks have finished, by step and in the order of
// stages; stages by which the front did not advance are left out.
std::vector<FrontPart> FrontParts(const query::Snapshot& snapshot, int first_step, int last_step);

// The same of one range of steps after the other, each a time.
class FrontMaker {
 public:
  explicit FrontMaker(const query::Snapshot& snapshot);
  void Add(const StepRows& rows);
  std::vector<FrontPart> TakeParts() { return std::move(parts_); }

 private:
  const std::string& StageOf(const query::PlanOp& op);

  const size_t num_ranks_;
  bool tells_of_data_ = false;                               // any rank
  std::unordered_map<query::PlanOpId, std::string> stages_;  // each made once
  std::vector<FrontPart> parts_;
};

// A rank that held up the others.
struct RankDelay {
  int32_t rank = 0;
  std::string stage;        // empty: all over the step
  bool is_lasting = false;  // in most steps; else in one
  int32_t worst_step = 0;
  int64_t worst_ns = 0;    // in that step
  int64_t total_ns = 0;    // over all steps
  double ns_per_step = 0;  // mean over all steps
  double share = 0;        // of all steps' time, or of that one step's
};

struct Front {
  int num_steps = 0;
  int64_t total_ns = 0;  // of these steps: what all parts add up to
  std::vector<FrontPart> parts;
  std::vector<RankDelay> delays;  // that stand out, dearest first; mostly none
};

// A delay stands out if it is at least this share of the step in the median step; of a rank in all
// its stages together, if it is that much, and that many times, more than what ranks mostly have.
inline constexpr double kLastingDelay = 0.025;
inline constexpr double kLastingDelayRatio = 2;
// Or in one step at least this share, and that many times every other delay of the run.
inline constexpr double kSingleDelay = 0.04;
inline constexpr double kSingleDelayRatio = 4;

// `parts` as FrontParts() gives them.
Front MakeFront(std::vector<FrontPart> parts);

// What delays of some ranks cost all of them, over all stages.
struct DelayCost {
  double ns_per_step = 0;
  double share = 0;   // of all steps' time
  std::string stage;  // where more than half of it is; empty: all over the step
};
DelayCost CostOfDelays(const Front& front, const std::vector<int32_t>& ranks);  // ascending

}  // namespace shardscope::analysis
