// Advice in the language of the app: what to change, where that is seen, and which knobs of the
// open run do it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trace/analysis/explain/explanation.h"
#include "ui/commands.h"
#include "ui/context.h"
#include "ui/language.h"

namespace shardscope::ui {

std::string AdviceTitle(Language language, const analysis::Advice& advice);

// In PyTorch's words, as `report` has it, with the keys of this program behind it.
std::string AdviceRemedy(Language language, const analysis::Advice& advice);

// A place where it is seen, and what brings that into view.
struct AdvicePlace {
  std::string text;
  Commands jump;
};
// The dearest stalls, then the worst rank and step.
std::vector<AdvicePlace> PlacesOf(Language language, const analysis::Explanation& explanation,
                                  const analysis::Advice& advice);

// The value to turn a key to that has `value`, in the direction of advice; none: it is there
// already, or the key does not say which way.
std::optional<std::string> AdvisedValue(std::string_view key, std::string_view value);

struct AdvisedKnob {
  std::string key;
  std::string from;  // in force
  std::string to;
};
// The live keys of `advice` that are not there yet.
std::vector<AdvisedKnob> AdvisedKnobs(const Context& context, const analysis::Advice& advice);

// Why there is no advice.
std::string NoAdvice(Language language, const analysis::Verdict& verdict);

}  // namespace shardscope::ui
