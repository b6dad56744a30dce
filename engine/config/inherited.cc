// What a run that goes on has from its checkpoint, beside what the user gives.
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/config/faults.h"
#include "engine/config/rules.h"
#include "trace/base/check.h"
#include "trace/base/text.h"

namespace shardscope::config {

void Config::Inherit() {
  for (auto& [key, value] : values_) value.is_inherited = value.is_explicit;
  for (Change& change : changes_) change.is_inherited = true;
}

bool Config::IsGiven(std::string_view key) const {
  const auto found = values_.find(key);
  SHARDSCOPE_CHECK(found != values_.end());
  return found->second.is_explicit && !found->second.is_inherited;
}

void Config::Unset(std::string_view key) {
  const KeyInfo* info = FindKey(key);
  SHARDSCOPE_CHECK(info != nullptr);
  values_[info->name] = {.text = info->default_value};
  RefreshDefaults();
}

bool MustHaveEffect(const Config& config, std::string_view key) {
  return config.IsGiven(key) && config.Get(key) != FindKey(key)->default_value;
}

namespace {

// Whether it only says how the work is arranged, or what shall go wrong there. Without it a run
// learns the same up to rounding: `accumulation` says how often gradients are rounded where
// precision.reduce is narrow. The dtype that they are kept in is arithmetic.
bool MayGiveWay(const KeyInfo& key) {
  if (key.name == "precision.keep_low_grads") return false;
  const bool arranges = key.live && (key.shapes_schedule || key.is_of_model);
  return arranges || IsOfAccumulation(key.name) || IsFaultKey(key.name);
}

// Takes the items of these numbers out, and says whether what is left is in order.
using Fits = std::function<bool(const std::vector<size_t>& without)>;

std::vector<size_t> Chosen(const std::vector<bool>& is_chosen) {
  std::vector<size_t> out;
  for (size_t at = 0; at < is_chosen.size(); ++at) {
    if (is_chosen[at]) out.push_back(at);
  }
  return out;
}

// The fewest of `num` items without which it fits, of several such choices the later items; none
// where nothing helps. Of so many items that it would take long, every choice of few is tried, and
// then all but those that can come back one by one.
std::vector<size_t> FewestOut(size_t num, const Fits& fits) {
  constexpr int kMostTries = 300;
  int tries = 0;
  for (size_t size = 1; size <= num && tries < kMostTries; ++size) {
    std::vector<bool> is_out(num, false);
    std::fill(is_out.end() - static_cast<std::ptrdiff_t>(size), is_out.end(), true);
    do {
      std::vector<size_t> out = Chosen(is_out);
      if (fits(out)) return out;
    } while (++tries < kMostTries && std::next_permutation(is_out.begin(), is_out.end()));
  }
  if (tries < kMostTries) return {};
  std::vector<size_t> out = Chosen(std::vector<bool>(num, true));
  bool is_fit = fits(out);
  for (size_t at = 0; at < out.size();) {
    std::vector<size_t> fewer = out;
    fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(at));
    if (fits(fewer)) {
      // One that could not come back before may need this one.
      out = std::move(fewer);
      is_fit = true;
      at = 0;
    } else {
      ++at;
    }
  }
  return is_fit ? out : std::vector<size_t>();
}

// Gives way in `config`, without listed changes, what has to. Returns what that was.
std::vector<std::string> SettleKeys(Config* config) {
  std::vector<std::string_view> keys;
  for (const KeyInfo& key : AllKeys()) {
    const bool is_inherited = config->IsExplicit(key.name) && !config->IsGiven(key.name);
    // The strategy says what the others have to go with.
    if (is_inherited && MayGiveWay(key) && key.name != "strategy") keys.push_back(key.name);
  }
  if (keys.empty() || config->Check().ok()) return {};
  const auto without = [&](const std::vector<size_t>& out) {
    Config left = *config;
    for (const size_t at : out) left.Unset(keys[at]);
    return left;
  };
  const std::vector<size_t> out =
      FewestOut(keys.size(), [&](const auto& some) { return without(some).Check().ok(); });
  if (out.empty()) return {};
  const Config left = without(out);
  std::vector<std::string> shown;
  for (const size_t at : out) {
    const std::string& now = left.Get(keys[at]);
    shown.push_back(
        fmt::format("{} (now {})", Shown(*config, keys[at]), now.empty() ? "empty" : now));
  }
  *config = left;
  return shown;
}

// A key of a listed change.
struct ChangedKey {
  size_t change = 0;
  std::string key;
};

// The same of the changes that `config` lists, in which all else is settled.
std::vector<std::string> SettleChanges(Config* config) {
  const std::vector<Change> changes = config->changes();
  std::vector<ChangedKey> keys;
  std::vector<ChangedKey> strategies;  // taken out last: then that goes on which was given
  for (size_t at = 0; at < changes.size(); ++at) {
    if (!changes[at].is_inherited) continue;
    for (const auto& [key, value] : changes[at].set) {
      if (!MayGiveWay(*FindKey(key))) continue;
      (key == "strategy" ? strategies : keys).push_back({at, key});
    }
  }
  keys.insert(keys.begin(), strategies.begin(), strategies.end());
  if (keys.empty() || config->Check().ok()) return {};
  const auto without = [&](const std::vector<size_t>& out) {
    std::vector<Change> left = changes;
    for (const size_t at : out) left[keys[at].change].set.erase(keys[at].key);
    Config settled = *config;
    settled.ClearChanges();
    for (Change& change : left) {
      if (!change.set.empty()) settled.AddChange(std::move(change));
    }
    return settled;
  };
  const std::vector<size_t> out =
      FewestOut(keys.size(), [&](const auto& some) { return without(some).Check().ok(); });
  if (out.empty()) return {};
  *config = without(out);
  std::vector<std::string> shown;
  for (const size_t at : out) {
    const Change& change = changes[keys[at].change];
    shown.push_back(fmt::format("{}={} of the change at step {} (left out)", keys[at].key,
                                change.set.at(keys[at].key), change.step));
  }
  return shown;
}

}  // namespace

std::string SettleInherited(Config* config) {
  // Ranks would keep gradients in a dtype that the strategy does not have.
  constexpr std::string_view kKeepsDType = "precision.keep_low_grads";
  if (!config->IsGiven(kKeepsDType) &&
      !Applies(kKeepsDType, GetStrategy(*config), config->Get("preset"))) {
    config->Unset(kKeepsDType);
  }
  Config start = *config;
  start.ClearChanges();
  std::vector<std::string> gave_way = SettleKeys(&start);
  for (const Change& change : config->changes()) start.AddChange(change);
  for (std::string& shown : SettleChanges(&start)) gave_way.push_back(std::move(shown));
  if (!gave_way.empty()) *config = std::move(start);
  return Join(gave_way, ", ");
}

}  // namespace shardscope::config
