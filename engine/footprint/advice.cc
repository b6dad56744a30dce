#include "engine/footprint/advice.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "engine/footprint/out_of_memory.h"
#include "trace/base/text.h"
#include "trace/base/units.h"

namespace shardscope::footprint {
namespace {

constexpr int kMostTries = 500;
constexpr const char* kStrategy = "strategy";

// Tries settings on top of one configuration, and keeps what fits.
class RemedySearch {
 public:
  RemedySearch(const config::Config& config, int64_t needed_bytes, const Question& question)
      : config_(config), question_(question) {
    advice_.needed_bytes = needed_bytes;
    advice_.model_is_given = !config.Get("model.path").empty();
  }

  Advice Run() && {
    std::vector<Remedy>& fitting = advice_.fitting;
    One();
    if (fitting.size() < kMostRemedies) Two();
    if (fitting.size() < kMostRemedies) Together();
    std::ranges::stable_sort(fitting, {}, &Remedy::effect);
    if (fitting.size() > kMostRemedies) fitting.resize(kMostRemedies);
    if (fitting.empty() && smallest_) advice_.smallest.push_back(*std::move(smallest_));
    return std::move(advice_);
  }

 private:
  // Whether enough fit that change no more than this.
  bool IsDone(Effect effect) const {
    const auto changes_no_more = [&](const Remedy& one) { return one.effect <= effect; };
    const auto num = std::ranges::count_if(advice_.fitting, changes_no_more);
    return static_cast<size_t>(num) >= kMostRemedies || num_tries_ >= kMostTries;
  }

  // Each option alone.
  void One() {
    const Remedy given = Given();
    for (const MemoryOption& option : AllMemoryOptions()) {
      std::optional<Remedy> best = Best(option, given);
      if (!best) continue;
      Keep(*best);
      if (!Fits(*best)) helpful_.push_back(*std::move(best));
    }
  }

  // Of those that save something and are not enough.
  void Two() {
    for (size_t second = 1; second < helpful_.size(); ++second) {
      for (size_t first = 0; first < second; ++first) {
        if (IsDone(helpful_[second].effect)) return;
        if (const auto both = TryBoth(helpful_[first], helpful_[second])) Keep(*both);
      }
    }
  }

  // One after the other, while each still saves something: with the strategy as it is, and with
  // each that saves something, as that has to come before keys that it does not go with.
  void Together() {
    GoOnFrom(Given());
    for (const MemoryOption& option : AllMemoryOptions()) {
      for (Settings& settings : SettingsOf(option, config_)) {
        if (!settings.contains(kStrategy)) continue;
        if (IsDone(option.effect)) return;
        std::optional<Remedy> start = Try({std::move(settings), option.effect});
        if (start && start->needed_bytes < advice_.needed_bytes) GoOnFrom(*std::move(start));
      }
    }
  }

  void GoOnFrom(Remedy all) {
    for (const MemoryOption& option : AllMemoryOptions()) {
      if (Fits(all)) return;
      std::optional<Remedy> more = Best(option, all);
      if (!more) continue;
      all = *std::move(more);
      Keep(all);
    }
  }

  Remedy Given() const {
    return {.settings = {}, .effect = Effect::kNone, .needed_bytes = advice_.needed_bytes};
  }

  // On top of `base` the smallest change of the option that fits, else the one that leaves least;
  // none where that saves nothing.
  std::optional<Remedy> Best(const MemoryOption& option, const Remedy& base) {
    std::optional<Remedy> best;
    const Effect effect = std::max(base.effect, option.effect);
    const Result<config::Config> changed = With(config_, base.settings, question_.only_live);
    if (!changed.ok()) return best;
    for (Settings& settings : SettingsOf(option, *changed)) {
      if (IsDone(effect)) break;
      if (base.settings.contains(kStrategy) && settings.contains(kStrategy)) continue;
      settings.insert(base.settings.begin(), base.settings.end());
      std::optional<Remedy> remedy = Try({std::move(settings), effect});
      if (!remedy || remedy->needed_bytes >= (best ? *best : base).needed_bytes) continue;
      best = std::move(remedy);
      if (Fits(*best)) break;
    }
    return best;
  }

  std::optional<Remedy> TryBoth(const Remedy& first, const Remedy& second) {
    Settings settings = first.settings;
    for (const auto& [key, value] : second.settings) {
      if (settings.try_emplace(key, value).first->second != value) {
        return std::nullopt;  // two ways to set it
      }
    }
    return Try({std::move(settings), std::max(first.effect, second.effect)});
  }

  // With the bytes that it needs; none if it cannot be run.
  std::optional<Remedy> Try(Remedy remedy) {
    ++num_tries_;
    const Result<config::Config> changed = With(config_, remedy.settings, question_.only_live);
    if (!changed.ok() || IsInForce(*changed)) return std::nullopt;
    const Result<int64_t> needed = question_.needed(*changed);
    if (!needed.ok()) return std::nullopt;
    remedy.needed_bytes = *needed;
    return remedy;
  }

  // To leave a training as it is, or its strategy where that was to change, is no remedy.
  bool IsInForce(const config::Config& changed) const {
    if (question_.in_force == nullptr) return false;
    const std::string& strategy = question_.in_force->Get(kStrategy);
    const bool goes_back = config_.Get(kStrategy) != strategy && changed.Get(kStrategy) == strategy;
    return goes_back || changed.Values() == question_.in_force->Values();
  }

  bool Fits(const Remedy& remedy) const { return remedy.needed_bytes <= question_.limit_bytes; }

  void Keep(const Remedy& remedy) {
    if (Fits(remedy)) {
      const bool is_known = std::ranges::any_of(advice_.fitting, [&](const Remedy& other) {
        return std::ranges::includes(remedy.settings, other.settings);
      });
      if (!is_known) advice_.fitting.push_back(remedy);
    } else if (!smallest_ || remedy.needed_bytes < smallest_->needed_bytes) {
      smallest_ = remedy;
    }
  }

  const config::Config& config_;
  const Question& question_;
  Advice advice_;
  std::vector<Remedy> helpful_;  // of options that do not fit alone
  std::optional<Remedy> smallest_;
  int num_tries_ = 0;
};

std::string Spaced(std::string_view word) {
  std::string text(word);
  std::ranges::replace(text, '_', ' ');
  return text;
}

std::string HolderOf(const plan::Schedule& schedule, const plan::LiveBytes& live) {
  if (live.segment != plan::kNone) {
    return schedule.segments[static_cast<size_t>(live.segment)].name;
  }
  return live.unit == plan::kNone ? "" : schedule.units[static_cast<size_t>(live.unit)].name;
}

// "activation 12.3 MB (head 2.1 MB, block3.mlp 1.0 MB)"
std::string CategoryText(const Footprint& footprint, plan::MemoryCategory category) {
  constexpr size_t kMostHolders = 2;
  std::vector<std::string> holders;
  size_t num_more = 0;
  for (const plan::LiveBytes& live : footprint.most.live) {
    const std::string holder = HolderOf(footprint.schedule, live);
    if (live.category != category || holder.empty()) continue;
    if (holders.size() < kMostHolders) {
      holders.push_back(holder + " " + FormatBytes(live.bytes));
    } else {
      ++num_more;
    }
  }
  if (num_more > 0) holders.push_back(fmt::format(out_of_memory::kMoreHolders, num_more));
  if (category == plan::MemoryCategory::kOther && footprint.has_checkpoint_copy) {
    holders.push_back(out_of_memory::kWithCopy);
  }
  std::string text = Spaced(Name(category)) + " " +
                     FormatBytes(footprint.most.by_category[static_cast<size_t>(category)]);
  if (!holders.empty()) text += " (" + Join(holders, ", ") + ")";
  return text;
}

std::string RemedyText(const Remedy& remedy, int64_t needed_bytes) {
  return fmt::format(out_of_memory::kRemedy, TextOf(remedy.settings),
                     FormatBytes(needed_bytes - remedy.needed_bytes),
                     FormatBytes(remedy.needed_bytes), TextOf(remedy.effect));
}

}  // namespace

Result<int64_t> NeededBytes(const config::Config& config) {
  SHARDSCOPE_ASSIGN_OR_RETURN(const Footprint footprint, FootprintOf(config));
  return footprint.needed_bytes();
}

Advice Advise(const config::Config& config, int64_t needed_bytes, const Question& question) {
  return RemedySearch(config, needed_bytes, question).Run();
}

std::string PeakText(const Footprint& footprint) {
  const plan::Program& program = footprint.schedule.ProgramOf(footprint.most.rank);
  std::vector<plan::MemoryCategory> categories;
  for (size_t at = 0; at < plan::kNumMemoryCategories; ++at) {
    if (footprint.most.by_category[at] > 0) {
      categories.push_back(static_cast<plan::MemoryCategory>(at));
    }
  }
  std::ranges::stable_sort(categories, std::ranges::greater(), [&](plan::MemoryCategory category) {
    return footprint.most.by_category[static_cast<size_t>(category)];
  });
  constexpr size_t kMostCategories = 5;
  if (categories.size() > kMostCategories) categories.resize(kMostCategories);
  std::vector<std::string> parts;
  for (const plan::MemoryCategory category : categories) {
    parts.push_back(CategoryText(footprint, category));
  }
  const std::string live = Join(parts, ", ");
  if (footprint.most.op == plan::kNone) {
    return fmt::format(out_of_memory::kPeak, footprint.most.rank, live);
  }
  const auto& op = program.ops[static_cast<size_t>(footprint.most.op)];
  return fmt::format(out_of_memory::kPeakOfOp, footprint.most.op,
                     plan::OpName(footprint.schedule, op), footprint.most.rank, live);
}

std::string AdviceText(const Advice& advice, int64_t limit_bytes) {
  std::vector<std::string> remedies;
  for (const Remedy& remedy : advice.fitting) {
    remedies.push_back(RemedyText(remedy, advice.needed_bytes));
  }
  if (!remedies.empty()) return fmt::format(out_of_memory::kFits, Join(remedies, "; "));
  std::string text = fmt::format(out_of_memory::kNoneFits, FormatBytes(limit_bytes));
  if (!advice.smallest.empty()) {
    text += ": " + fmt::format(out_of_memory::kSavesMost,
                               RemedyText(advice.smallest.front(), advice.needed_bytes));
  }
  return text + "; " +
         (advice.model_is_given ? out_of_memory::kChangeGivenModel : out_of_memory::kChangeModel);
}

std::string OutOfMemoryText(const config::Config& config, const Footprint& footprint,
                            const Question& question) {
  const Advice advice = Advise(config, footprint.needed_bytes(), question);
  return fmt::format(out_of_memory::kSchedule, footprint.schedule.name,
                     FormatBytes(footprint.needed_bytes()), FormatBytes(footprint.issued_bytes),
                     FormatBytes(question.limit_bytes)) +
         ". " + PeakText(footprint) + ". " + AdviceText(advice, question.limit_bytes);
}

std::string StateMoveText(const config::Config& config, const StateMoveNeed& need,
                          const Question& question) {
  const Advice advice = Advise(config, need.bytes, question);
  return fmt::format(out_of_memory::kStateMove, need.from, need.to, FormatBytes(need.bytes),
                     FormatBytes(question.limit_bytes)) +
         ". " +
         (advice.fitting.empty() ? out_of_memory::kNoneBeside
                                 : AdviceText(advice, question.limit_bytes));
}

}  // namespace shardscope::footprint
