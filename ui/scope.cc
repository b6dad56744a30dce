#include "ui/scope.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "ui/text.h"

namespace shardscope::ui {
namespace {

using analysis::ScopedSteps;
using analysis::ScopeKind;

constexpr ScopeKind kOptions[] = {ScopeKind::kSinceChange, ScopeKind::kLastSteps,
                                  ScopeKind::kInView, ScopeKind::kSelection, ScopeKind::kWholeRun};

std::string NameOf(Language language, ScopeKind kind) {
  switch (kind) {
    case ScopeKind::kSinceChange:
      return Tr(language, Text::kScopeSinceChange);
    case ScopeKind::kLastSteps:
      return TrFormat(language, Text::kScopeLastSteps, analysis::kLastStepsShown);
    case ScopeKind::kInView:
      return Tr(language, Text::kScopeInView);
    case ScopeKind::kSelection:
      return Tr(language, Text::kScopeSelection);
    case ScopeKind::kWholeRun:
    case ScopeKind::kSteps:
      break;
  }
  return {};
}

std::string RangeOf(Language language, const ScopedSteps& steps) {
  return steps.first == steps.last ? TrFormat(language, Text::kStepN, steps.first)
                                   : TrFormat(language, Text::kScopeSteps, steps.first, steps.last);
}

std::string LabelOf(Language language, const ScopedSteps& steps) {
  const std::string name = NameOf(language, steps.kind);
  switch (steps.kind) {
    case ScopeKind::kSinceChange:
      if (steps.change_step < 0) return Tr(language, Text::kScopeSinceStart);
      return TrFormat(language, Text::kScopeSinceStep, steps.change_step);
    case ScopeKind::kInView:
    case ScopeKind::kSelection:
      if (steps.empty()) return name;
      if (steps.first == steps.last) return fmt::format("{} {}", name, steps.first);
      return fmt::format("{} {}–{}", name, steps.first, steps.last);
    case ScopeKind::kSteps:
      return RangeOf(language, steps);
    case ScopeKind::kLastSteps:
    case ScopeKind::kWholeRun:
      break;
  }
  return name;
}

// Of a run that does not fit into memory it is what is loaded.
std::string WholeRunOf(const Context& context, Language language) {
  const std::optional<query::RunPart>& part = context.snapshot->part;
  if (!part) return Tr(language, Text::kScopeWholeRun);
  return TrFormat(language, Text::kScopeSteps, part->first_step, part->last_step);
}

std::string TipOf(Language language, const ScopedSteps& steps) {
  if (steps.empty()) return Tr(language, Text::kScopeTipEmpty);
  std::string tip = TrFormat(language, Text::kScopeTip, RangeOf(language, steps));
  if (steps.first_timed > steps.first) {
    tip += TrFormat(language, Text::kScopeTipWarmUp, steps.first_timed);
  }
  return tip;
}

int ChosenOf(const Context& context) {
  const analysis::Scope scope =
      context.focus.scope.value_or(analysis::DefaultScope(context.snapshot->state));
  const auto* const found = std::find(std::begin(kOptions), std::end(kOptions), scope.kind);
  return found == std::end(kOptions) ? -1 : static_cast<int>(found - std::begin(kOptions));
}

}  // namespace

std::vector<std::string> ScopeOptions(const Context& context, Language language) {
  std::vector<std::string> options;
  for (const ScopeKind kind : kOptions) {
    options.push_back(kind == ScopeKind::kWholeRun ? WholeRunOf(context, language)
                                                   : NameOf(language, kind));
  }
  return options;
}

ScopeMenu ScopeMenuOf(const Context& context) {
  const Language language = context.language;
  ScopeMenu menu;
  const bool is_whole = context.figures->scope.kind == ScopeKind::kWholeRun;
  menu.label = is_whole ? WholeRunOf(context, language) : LabelOf(language, context.figures->scope);
  menu.tip = TipOf(language, context.figures->scope);
  menu.options = ScopeOptions(context, language);
  menu.chosen = ChosenOf(context);
  return menu;
}

SetScope ScopeOption(int at) { return {analysis::Scope{.kind = kOptions[at]}}; }

SetScope NextScope(const Context& context) {
  return ScopeOption((ChosenOf(context) + 1) % static_cast<int>(std::size(kOptions)));
}

}  // namespace shardscope::ui
