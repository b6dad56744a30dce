#include "trace/import/host_context.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <initializer_list>
#include <numeric>
#include <optional>
#include <string_view>

#include "trace/base/text.h"
#include "trace/base/torch_range_names.h"

namespace shardscope::imports {
namespace {

using torch_range_names::kFsdp1;
using torch_range_names::kFsdp2;

// What a span with a certain name says of what is launched inside of it and behind it.
struct Meaning {
  std::optional<Phase> phase;
  std::optional<HostAction> action;
  Names::Index unit = 0;
  // The unit computes from the end of this span on; or no longer from its start on.
  bool begins_unit = false;
  bool ends_unit = false;
  bool begins_step = false;
  // FSDP1 does not name units: this span is that of the next one, in the order of forward or
  // backward.
  bool is_forward_of_next = false;
  bool is_backward_of_next = false;
  bool reduces_next = false;
  bool is_of_prefetch = false;
  // What other threads do meanwhile belongs to it, where their own ranges say nothing.
  bool is_of_all_threads = false;
};

// The unit in "FSDP::all_gather (layers.0)" or "FSDP::backward_prefetch for layers.0".
std::string UnitOf(std::string_view name) {
  constexpr std::string_view kFor = " for ";
  if (const size_t at = name.find(kFor); at != std::string_view::npos) {
    return std::string(name.substr(at + kFor.size()));
  }
  const size_t open = name.find('(');
  if (open == std::string_view::npos || !name.ends_with(')')) return "root";
  return std::string(name.substr(open + 1, name.size() - open - 2));
}

Meaning MeaningOfFsdp2(std::string_view verb, Names::Index unit) {
  Meaning meaning{.unit = unit};
  if (verb.starts_with(torch_range_names::kPreForward)) {
    meaning.phase = Phase::kForward;
    meaning.begins_unit = true;
  } else if (verb.starts_with(torch_range_names::kPostForward)) {
    meaning.ends_unit = true;
    meaning.action = HostAction::kReshard;
  } else if (verb.starts_with(torch_range_names::kPreBackward)) {
    meaning.phase = Phase::kBackward;
    meaning.begins_unit = true;
  } else if (verb.starts_with(torch_range_names::kPostBackwardReduce)) {
    meaning.phase = Phase::kBackward;
    meaning.action = HostAction::kReduce;
    meaning.ends_unit = true;
  } else if (verb.starts_with(torch_range_names::kPostBackwardAccumulate)) {
    meaning.phase = Phase::kBackward;
    meaning.action = HostAction::kAccumulate;
    meaning.ends_unit = true;
  } else if (verb.starts_with(torch_range_names::kPostBackward)) {
    meaning.phase = Phase::kBackward;
    meaning.action = HostAction::kReshard;
    meaning.ends_unit = true;
  } else if (verb.starts_with(torch_range_names::kRootPostBackward)) {
    return {.phase = Phase::kBackward};
  } else if (verb.starts_with(torch_range_names::kAllGatherCopyOut)) {
    meaning.action = HostAction::kCopyOut;
  } else if (verb.starts_with(torch_range_names::kAllGather)) {
    meaning.action = HostAction::kGather;
  } else if (verb.starts_with(torch_range_names::kBackwardPrefetch)) {
    meaning.phase = Phase::kBackward;
  } else {
    return {};
  }
  return meaning;
}

Meaning MeaningOfFsdp1(std::string_view verb) {
  if (verb == "forward") return {.phase = Phase::kForward, .is_forward_of_next = true};
  if (verb == "_pre_forward" || verb == "_root_pre_forward") return {.action = HostAction::kGather};
  if (verb == "_pre_forward_prefetch")
    return {.action = HostAction::kGather, .is_of_prefetch = true};
  if (verb == "_pre_backward_hook") {
    return {.phase = Phase::kBackward, .action = HostAction::kGather, .is_backward_of_next = true};
  }
  if (verb == "_pre_backward_prefetch" || verb == "_post_backward_prefetch") {
    return {.phase = Phase::kBackward, .action = HostAction::kGather, .is_of_prefetch = true};
  }
  if (verb == "_post_backward_hook") {
    return {.phase = Phase::kBackward, .action = HostAction::kReduce, .reduces_next = true};
  }
  return {};
}

// Ranges that programs mark by themselves. Autograd works for a backward on threads of its own.
Meaning MeaningOfWords(std::string_view name) {
  constexpr size_t kLongest = 24;
  if (name.size() > kLongest) return {};
  std::string word;
  for (const char c : name) {
    if (std::isalpha(static_cast<unsigned char>(c)) != 0)
      word += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  const auto is_one_of = [&word](std::initializer_list<std::string_view> words) {
    return std::ranges::find(words, word) != words.end();
  };
  if (is_one_of({"forward", "fwd", "forwardpass"})) return {.phase = Phase::kForward};
  if (is_one_of({"backward", "bwd", "backwardpass"}))
    return {.phase = Phase::kBackward, .is_of_all_threads = true};
  if (is_one_of({"optimizer", "optimizerstep", "optstep", "optim", "optimstep"}))
    return {.phase = Phase::kOptimizer};
  return {};
}

Meaning MeaningOf(const std::string& name, Names* names) {
  if (name.starts_with(kFsdp2)) {
    return MeaningOfFsdp2(std::string_view(name).substr(kFsdp2.size()), names->Add(UnitOf(name)));
  }
  if (name.starts_with(kFsdp1)) return MeaningOfFsdp1(std::string_view(name).substr(kFsdp1.size()));
  if (name.starts_with(torch_range_names::kBackward)) return {.phase = Phase::kBackward};
  if (name.starts_with(torch_range_names::kOptimizerStep) ||
      name.starts_with(torch_range_names::kZeroGrad)) {
    return {.phase = Phase::kOptimizer};
  }
  if (name.starts_with(torch_range_names::kDdpForward)) return {.phase = Phase::kForward};
  if (name.starts_with(torch_range_names::kStep))
    return {.phase = Phase::kForward, .begins_step = true};
  return MeaningOfWords(name);
}

// FSDP1's units, which have no names, in the order in which they compute.
class UnnamedUnits {
 public:
  explicit UnnamedUnits(Names* names) : names_(*names) {}

  void BeginStep() { num_forward_ = num_backward_ = num_reduced_ = 0; }
  Names::Index NextForward() {
    const int unit = num_forward_++;
    num_units_ = std::max(num_units_, num_forward_);
    return Name(unit);
  }
  // The root's hook runs first, then those of its units from the last to the first.
  Names::Index NextBackward() {
    backward_ = num_backward_ == 0 ? 0 : std::max(num_units_ - num_backward_, 0);
    ++num_backward_;
    return Name(backward_);
  }
  // Of the root last.
  Names::Index NextReduced() {
    ++num_reduced_;
    return Name(num_reduced_ >= num_units_ ? 0 : num_units_ - num_reduced_);
  }
  // The unit whose parameters are gathered ahead, beside those of `unit`.
  Names::Index Ahead(Phase phase) {
    if (phase == Phase::kForward) return Name(num_forward_);
    return Name(std::max(num_backward_ == 1 ? num_units_ - 1 : backward_ - 1, 0));
  }

 private:
  Names::Index Name(int unit) {
    return names_.Add(unit == 0 ? std::string("root") : fmt::format("unit {}", unit));
  }

  Names& names_;
  int num_units_ = 0;
  int num_forward_ = 0;
  int num_backward_ = 0;
  int num_reduced_ = 0;
  int backward_ = 0;
};

// Goes through the spans of one thread, in order of time.
class ThreadWalk {
 public:
  // `forwards_are_marked`: what follows a backward belongs to it until a forward is marked.
  ThreadWalk(const std::vector<Meaning>& meanings, bool forwards_are_marked, UnnamedUnits* units)
      : meanings_(meanings), forwards_are_marked_(forwards_are_marked), units_(*units) {}

  void Begin(const RecordedSpan& span) {
    EndUntil(span.start_ns);
    const Meaning& meaning = meanings_[span.name];
    if (meaning.begins_step) current_.clear();
    knows_ = knows_ || meaning.phase || meaning.unit != 0 || meaning.action;
    if (meaning.ends_unit) Leave(meaning.unit);
    Open open{span.start_ns + span.duration_ns, Inside(), meaning.begins_unit};
    if (meaning.phase) open.context.phase = since_ = *meaning.phase;
    if (meaning.phase == Phase::kOptimizer) open.context.unit = 0;
    if (meaning.action) open.context.action = *meaning.action;
    if (meaning.unit != 0) open.context.unit = meaning.unit;
    if (meaning.is_forward_of_next) {
      current_.clear();
      open.context.unit = units_.NextForward();
      open.context.action = HostAction::kCompute;
    }
    if (meaning.is_backward_of_next) {
      open.context.unit = units_.NextBackward();
      open.begins_unit = true;
      current_.clear();  // FSDP1 says when a unit begins, not when it ends
    }
    if (meaning.reduces_next) open.context.unit = units_.NextReduced();
    if (meaning.is_of_prefetch) open.context.unit = units_.Ahead(open.context.phase);
    open_.push_back(open);
  }

  // `elsewhere`: what a range of another thread says for all of them.
  HostContext At(int64_t time_ns, std::optional<Phase> elsewhere) {
    EndUntil(time_ns);
    HostContext context = Inside();
    if (!knows_ && elsewhere) context.phase = *elsewhere;
    context.since = context.phase == Phase::kForward ? since_ : context.phase;
    if (forwards_are_marked_) context.phase = context.since;
    return context;
  }

 private:
  struct Open {
    int64_t end_ns = 0;
    HostContext context;
    bool begins_unit = false;
  };

  void EndUntil(int64_t time_ns) {
    while (!open_.empty() && open_.back().end_ns <= time_ns) {
      if (open_.back().begins_unit) current_.push_back(open_.back().context.unit);
      open_.pop_back();
    }
  }

  void Leave(Names::Index unit) {
    const auto found = std::find(current_.begin(), current_.end(), unit);
    if (found != current_.end()) current_.erase(found, current_.end());
  }

  HostContext Inside() const {
    HostContext context = open_.empty() ? HostContext() : open_.back().context;
    // What hooks say in between counts for all that follows on this thread.
    if (context.action == HostAction::kCompute && context.phase != Phase::kOptimizer &&
        !current_.empty()) {
      context.unit = current_.back();
    }
    return context;
  }

  const std::vector<Meaning>& meanings_;
  const bool forwards_are_marked_;
  UnnamedUnits& units_;
  std::vector<Open> open_;
  Phase since_ = Phase::kForward;
  bool knows_ = false;                 // a span said something
  std::vector<Names::Index> current_;  // units that compute, the innermost last
};

}  // namespace

NamedPart PartOfRange(const std::string& name) {
  NamedPart part;
  if (name.starts_with(kFsdp2)) {
    part.phase = MeaningOfFsdp2(std::string_view(name).substr(kFsdp2.size()), 0).phase;
    part.unit = UnitOf(name);
  } else if (!name.starts_with(kFsdp1)) {
    Names unused;
    part.phase = MeaningOf(name, &unused).phase;
  }
  return part;
}

std::vector<HostContext> ContextsAt(Recording* recording, const HostSteps& steps,
                                    const std::vector<HostMoment>& moments) {
  std::vector<Meaning> meanings;
  const size_t num_names = recording->names.size();
  for (Names::Index name = 0; name < num_names; ++name) {
    meanings.push_back(MeaningOf(recording->names[name], &recording->names));
  }
  UnnamedUnits units(&recording->names);
  const bool forwards_are_marked = std::ranges::any_of(meanings, [](const Meaning& meaning) {
    return meaning.phase == Phase::kForward && !meaning.begins_step;
  });
  std::vector<ThreadWalk> walks(recording->tracks.size(),
                                ThreadWalk(meanings, forwards_are_marked, &units));
  std::vector<uint32_t> order(moments.size());
  std::iota(order.begin(), order.end(), 0U);
  std::sort(order.begin(), order.end(),
            [&](uint32_t a, uint32_t b) { return moments[a].time_ns < moments[b].time_ns; });
  std::vector<HostContext> contexts(moments.size());
  auto step = steps.steps().begin();
  auto span = recording->spans.begin();
  const RecordedSpan* of_all = nullptr;
  for (const uint32_t index : order) {
    const HostMoment& moment = moments[index];
    for (; span != recording->spans.end() && span->start_ns <= moment.time_ns; ++span) {
      if (recording->tracks[span->track].IsOfDevice()) continue;
      for (; step != steps.steps().end() && step->start_ns <= span->start_ns; ++step)
        units.BeginStep();
      walks[span->track].Begin(*span);
      if (meanings[span->name].is_of_all_threads) of_all = &*span;
    }
    const bool is_inside =
        of_all != nullptr && moment.time_ns < of_all->start_ns + of_all->duration_ns;
    contexts[index] = walks[moment.track].At(
        moment.time_ns, is_inside ? meanings[of_all->name].phase : std::nullopt);
  }
  return contexts;
}

}  // namespace shardscope::imports
