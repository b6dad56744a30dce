#include "trace/analysis/explain/front.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "trace/analysis/capped_sum.h"
#include "trace/analysis/collectives/collectives.h"
#include "trace/analysis/derived.h"
#include "trace/analysis/lower_median.h"
#include "trace/analysis/row_index.h"
#include "trace/analysis/steps/breakdown.h"
#include "trace/base/interval.h"

namespace shardscope::analysis {
namespace {

constexpr std::string_view kBetweenStage = "between steps";
constexpr std::string_view kEndStage = "end";

bool IsData(const query::PlanOp& op) { return op.kind == Name(words::OpKind::kLoadBatch); }

// What a rank is in while it runs this op; empty: the op ends no stage.
std::string StageOf(const query::PlanOp& op) {
  if (IsData(op)) return std::string(kDataStage);
  if (op.category == query::Category::kOptimizer) return "optimizer";
  if (op.category != query::Category::kCompute) return "";
  std::string stage = op.phase.empty() ? "compute" : op.phase;
  if (op.micro_batch > 0) stage += " m" + std::to_string(op.micro_batch);
  const std::string& place = op.unit.empty() ? op.segment : op.unit;
  const std::string unit = op.unit.empty() ? place.substr(0, place.find('.')) : place;
  if (!unit.empty()) stage += " " + unit;
  return stage;
}

struct StageTime {
  int64_t end_ns = 0;
  int64_t own_ns = 0;  // without waiting for other ranks
};

// One rank's way through one step.
struct RankStages {
  int32_t rank = 0;
  int64_t start_ns = 0;
  std::vector<std::string> order;
  std::map<std::string, StageTime> times;
};

using StageNames = std::function<const std::string&(const query::PlanOp& op)>;

// A stage that a rank comes back to is another one: "forward embedding (2)".
std::string Occurrence(const std::string& stage, const RankStages& stages) {
  std::string name = stage;
  for (int count = 2; stages.times.contains(name); ++count) {
    name = stage + " (" + std::to_string(count) + ")";
  }
  return name;
}

void AddStage(const std::string& stage, int64_t end_ns, RankStages* stages) {
  const std::string name = Occurrence(stage, *stages);
  stages->order.push_back(name);
  stages->times[name].end_ns = end_ns;
}

// Where a rank was idle because others were late, or computed in its place.
std::vector<Interval> WaitsOf(const StepIndex& step) {
  std::vector<Interval> waits;
  std::vector<Interval> compute;
  for (const IndexedRun& run : step.runs) {
    if (run.collective != nullptr && run.collective->wait_ns > 0) {
      waits.push_back({run.collective->started_ns, run.collective->last_arrival_ns});
    }
    if (!query::IsCompute(run.op->op_class)) continue;
    compute.push_back({run.run.started_ns, run.run.ended_ns});
    if (run.run.slot_wait_ns > 0) {
      waits.push_back({run.run.started_ns - run.run.slot_wait_ns, run.run.started_ns});
    }
  }
  return Subtract(Union(std::move(waits)), Union(std::move(compute)));
}

// Adds what passes until the first work, or reading of data, is asked for: of a program that tells
// of reading (on any rank) it is something else, of another it may be that.
void AddBeginning(const StepIndex& step, bool tells_of_data, RankStages* stages) {
  int64_t issued_ns = INT64_MAX;
  for (const IndexedRun& run : step.runs) {
    if (IsData(*run.op) || run.op->category != query::Category::kHost) {
      issued_ns = std::min(issued_ns, run.run.issued_ns);
    }
  }
  if (issued_ns == INT64_MAX || issued_ns <= step.start_ns) return;
  AddStage(std::string(tells_of_data ? kBetweenStage : kDataStage), issued_ns, stages);
}

RankStages StagesOf(const StepIndex& step, bool tells_of_data, const StageNames& stage_of) {
  RankStages stages;
  stages.rank = step.rank;
  stages.start_ns = step.start_ns;
  AddBeginning(step, tells_of_data, &stages);
  const std::string* current = nullptr;
  for (const IndexedRun& run : step.runs) {
    const std::string& stage = stage_of(*run.op);
    if (stage.empty()) continue;
    if (current == nullptr || *current != stage) AddStage(stage, run.run.ended_ns, &stages);
    current = &stage;
    StageTime& time = stages.times[stages.order.back()];
    time.end_ns = std::max(time.end_ns, run.run.ended_ns);
  }
  AddStage(std::string(kEndStage), step.end_ns, &stages);

  const std::vector<Interval> waits = WaitsOf(step);
  int64_t passed_ns = step.start_ns;
  for (const std::string& name : stages.order) {
    StageTime& time = stages.times[name];
    time.end_ns = std::clamp(time.end_ns, passed_ns, std::max(passed_ns, step.end_ns));
    const std::vector<Interval> stage = {{passed_ns, time.end_ns}};
    time.own_ns = TotalNs(Subtract(stage, waits));
    passed_ns = time.end_ns;
  }
  return stages;
}

// All stages of a step in the order in which ranks pass them. Ranks of a pipeline have different
// ones: these are put by when they end.
std::vector<std::string> OrderOf(const std::vector<RankStages>& ranks) {
  const bool same = std::ranges::all_of(
      ranks, [&ranks](const RankStages& rank) { return rank.order == ranks.front().order; });
  if (same) return ranks.front().order;
  std::map<std::string, std::pair<double, int>> ends;
  for (const RankStages& rank : ranks) {
    for (const auto& [name, time] : rank.times) {
      ends[name].first += static_cast<double>(time.end_ns - rank.start_ns);
      ++ends[name].second;
    }
  }
  std::vector<std::pair<double, std::string>> sorted;
  for (const auto& [name, sum] : ends) {
    const bool is_end = name == kEndStage;
    sorted.emplace_back(is_end ? HUGE_VAL : sum.first / sum.second, name);
  }
  std::sort(sorted.begin(), sorted.end());
  std::vector<std::string> order;
  for (auto& [end, name] : sorted) order.push_back(std::move(name));
  return order;
}

// What `rank` needed more than the others in this stage, as far as the front shows it.
int64_t DelayOf(const std::vector<RankStages>& ranks, const RankStages& rank,
                const std::string& stage, int64_t front_ns) {
  std::vector<int64_t> others;
  for (const RankStages& other : ranks) {
    const auto found = other.times.find(stage);
    if (other.rank != rank.rank && found != other.times.end())
      others.push_back(found->second.own_ns);
  }
  const auto own = rank.times.find(stage);
  if (others.empty() || own == rank.times.end()) return 0;
  // Not LowerMedian(): of two others the slower one, so that a delay is what neither needed.
  const auto middle = others.begin() + static_cast<std::ptrdiff_t>(others.size() / 2);
  std::nth_element(others.begin(), middle, others.end());
  return std::max<int64_t>(0, std::min(own->second.own_ns, front_ns) - *middle);
}

void AppendParts(int32_t step, const std::vector<RankStages>& ranks,
                 std::vector<FrontPart>* parts) {
  int64_t front_ns = INT64_MIN;
  for (const RankStages& rank : ranks) front_ns = std::max(front_ns, rank.start_ns);
  std::vector<int64_t> passed_ns(ranks.size(), INT64_MIN);
  for (const std::string& stage : OrderOf(ranks)) {
    size_t last = 0;
    for (size_t i = 0; i < ranks.size(); ++i) {
      const auto found = ranks[i].times.find(stage);
      if (found == ranks[i].times.end()) continue;
      passed_ns[i] = std::max(passed_ns[i], found->second.end_ns);
      if (passed_ns[i] > passed_ns[last]) last = i;
    }
    const int64_t advance_ns = passed_ns[last] - front_ns;
    if (advance_ns <= 0) continue;
    front_ns = passed_ns[last];
    parts->push_back({step, stage, ranks[last].rank, advance_ns,
                      DelayOf(ranks, ranks[last], stage, advance_ns)});
  }
}

// The delays of a rank in one stage, or in all.
struct DelayRows {
  std::map<int32_t, int64_t> by_step;
  int64_t total_ns = 0;
  int32_t worst_step = 0;
  int64_t worst_ns = 0;

  void Add(int32_t step, int64_t delay_ns) {
    total_ns += delay_ns;
    const int64_t of_step_ns = by_step[step] += delay_ns;
    if (of_step_ns <= worst_ns) return;
    worst_ns = of_step_ns;
    worst_step = step;
  }
};

using StepLengths = std::map<int32_t, int64_t>;

// Of the shares of all steps; those without a delay have 0.
double MedianShare(const DelayRows& rows, const StepLengths& step_ns) {
  std::vector<double> shares(step_ns.size() - rows.by_step.size());
  for (const auto& [step, delay_ns] : rows.by_step) {
    shares.push_back(static_cast<double>(delay_ns) / static_cast<double>(step_ns.at(step)));
  }
  return Percentile(std::move(shares), 0.5);
}

RankDelay LastingDelay(int32_t rank, std::string stage, const DelayRows& rows, const Front& front) {
  RankDelay delay{rank,          std::move(stage), true, rows.worst_step,
                  rows.worst_ns, rows.total_ns,    0,    0};
  delay.ns_per_step = static_cast<double>(rows.total_ns) / front.num_steps;
  delay.share = static_cast<double>(rows.total_ns) / static_cast<double>(front.total_ns);
  return delay;
}

struct FrontDelays {
  StepLengths step_ns;
  std::map<std::pair<int32_t, std::string>, DelayRows> of_stages;  // by rank and stage
  std::map<int32_t, DelayRows> of_ranks;                           // of all that have a part
};

FrontDelays DelaysOf(const std::vector<FrontPart>& parts) {
  FrontDelays delays;
  for (const FrontPart& part : parts) {
    delays.step_ns[part.step] += part.front_ns;
    DelayRows& of_rank = delays.of_ranks[part.rank];
    if (part.delay_ns <= 0) continue;
    delays.of_stages[{part.rank, part.stage}].Add(part.step, part.delay_ns);
    of_rank.Add(part.step, part.delay_ns);
  }
  return delays;
}

// Ranks that are late in many stages, in none of them most.
std::set<int32_t> LateEverywhere(const FrontDelays& delays) {
  std::vector<double> shares;
  for (const auto& [rank, rows] : delays.of_ranks) {
    shares.push_back(MedianShare(rows, delays.step_ns));
  }
  const double usual = LowerMedian(std::move(shares));
  std::set<int32_t> everywhere;
  for (const auto& [rank, rows] : delays.of_ranks) {
    const double share = MedianShare(rows, delays.step_ns);
    double largest = 0;
    for (const auto& [key, of_stage] : delays.of_stages) {
      if (key.first == rank) largest = std::max(largest, MedianShare(of_stage, delays.step_ns));
    }
    if (largest * 2 < share && share - usual >= kLastingDelay &&
        share >= kLastingDelayRatio * usual) {
      everywhere.insert(rank);
    }
  }
  return everywhere;
}

// The largest of all, and the next.
std::pair<int64_t, int64_t> LargestDelays(const std::vector<FrontPart>& parts) {
  std::pair<int64_t, int64_t> largest;
  for (const FrontPart& part : parts) {
    if (part.delay_ns > largest.first) {
      largest = {part.delay_ns, largest.first};
    } else {
      largest.second = std::max(largest.second, part.delay_ns);
    }
  }
  return largest;
}

}  // namespace

std::vector<FrontPart> FrontParts(const query::Snapshot& snapshot, int first_step, int last_step) {
  if (snapshot.derived) return DerivedFrontParts(snapshot, first_step, last_step);
  FrontMaker maker(snapshot);
  for (const auto& [first, last] : StepRanges(snapshot, first_step, last_step)) {
    maker.Add(StepRows(snapshot, first, last));
  }
  return maker.TakeParts();
}

FrontMaker::FrontMaker(const query::Snapshot& snapshot)
    : num_ranks_(snapshot.ranks.size()),
      tells_of_data_(std::ranges::any_of(snapshot.plan_ops,
                                         [](const auto& entry) { return IsData(entry.second); })) {}

const std::string& FrontMaker::StageOf(const query::PlanOp& op) {
  const auto [found, is_new] = stages_.try_emplace(op.id);
  if (is_new) found->second = analysis::StageOf(op);
  return found->second;
}

void FrontMaker::Add(const StepRows& rows) {
  const auto stage_of = [this](const query::PlanOp& op) -> const std::string& {
    return StageOf(op);
  };
  std::map<int32_t, std::vector<RankStages>> steps;
  for (const StepIndex& step : rows.steps) {
    if (step.finished) steps[step.step].push_back(StagesOf(step, tells_of_data_, stage_of));
  }
  for (const auto& [step, ranks] : steps) {
    if (ranks.size() == num_ranks_) AppendParts(step, ranks, &parts_);
  }
}

Front MakeFront(std::vector<FrontPart> parts) {
  Front front;
  const FrontDelays delays = DelaysOf(parts);
  // A damaged file may claim steps of years.
  for (const auto& [step, ns] : delays.step_ns) {
    front.total_ns += std::min(ns, std::numeric_limits<int64_t>::max() - front.total_ns);
  }
  front.num_steps = static_cast<int>(delays.step_ns.size());
  const auto [largest_ns, second_ns] = LargestDelays(parts);
  front.parts = std::move(parts);

  const std::set<int32_t> everywhere = LateEverywhere(delays);
  for (const int32_t rank : everywhere) {
    front.delays.push_back(LastingDelay(rank, "", delays.of_ranks.at(rank), front));
  }
  for (const auto& [key, rows] : delays.of_stages) {
    const auto& [rank, stage] = key;
    if (MedianShare(rows, delays.step_ns) >= kLastingDelay) {
      if (!everywhere.contains(rank))
        front.delays.push_back(LastingDelay(rank, stage, rows, front));
      continue;
    }
    const auto worst = static_cast<double>(rows.worst_ns);
    const double of_step = worst / static_cast<double>(delays.step_ns.at(rows.worst_step));
    const bool is_single = of_step >= kSingleDelay && rows.worst_ns == largest_ns &&
                           worst >= kSingleDelayRatio * static_cast<double>(second_ns);
    if (!is_single) continue;
    front.delays.push_back({rank, stage, false, rows.worst_step, rows.worst_ns, rows.total_ns,
                            static_cast<double>(rows.total_ns) / front.num_steps, of_step});
  }
  std::stable_sort(front.delays.begin(), front.delays.end(),
                   [](const RankDelay& a, const RankDelay& b) { return a.total_ns > b.total_ns; });
  return front;
}

DelayCost CostOfDelays(const Front& front, const std::vector<int32_t>& ranks) {
  DelayCost cost;
  if (front.num_steps == 0 || front.total_ns <= 0) return cost;
  std::map<std::string, int64_t> stages;
  int64_t total_ns = 0;
  for (const FrontPart& part : front.parts) {
    if (part.delay_ns <= 0 || !std::binary_search(ranks.begin(), ranks.end(), part.rank)) continue;
    AddCapped(part.delay_ns, &total_ns);
    AddCapped(part.delay_ns, &stages[part.stage]);
  }
  cost.ns_per_step = static_cast<double>(total_ns) / front.num_steps;
  cost.share = static_cast<double>(total_ns) / static_cast<double>(front.total_ns);
  for (const auto& [stage, stage_ns] : stages) {
    if (stage_ns > total_ns / 2) cost.stage = stage;
  }
  return cost;
}

}  // namespace shardscope::analysis
