// The scope of the figures as every panel shows it and lets it be chosen.
#pragma once

#include <string>
#include <vector>

#include "ui/commands.h"
#include "ui/context.h"
#include "ui/language.h"

namespace shardscope::ui {

struct ScopeMenu {
  std::string label;  // of the figures that are shown: "since step 12"
  std::string tip;    // which steps those are
  std::vector<std::string> options;
  int chosen = -1;  // of the options; -1: a range that was named elsewhere
};
// What they may be of, in the order of ScopeOption(). With a run only.
std::vector<std::string> ScopeOptions(const Context& context, Language language);
// With figures only.
ScopeMenu ScopeMenuOf(const Context& context);

// What clicking option `at` does.
SetScope ScopeOption(int at);
// The option after the chosen one.
SetScope NextScope(const Context& context);

}  // namespace shardscope::ui
