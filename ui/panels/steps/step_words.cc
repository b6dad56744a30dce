#include "ui/panels/steps/step_words.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <filesystem>
#include <string_view>
#include <utility>

#include "trace/base/text.h"
#include "ui/text.h"

namespace shardscope::panels {
namespace {

using ui::Text;

// Of what is no change of a key.
constexpr std::array kKinds = {std::pair{std::string_view("pause"), Text::kStepsPause},
                               std::pair{std::string_view("resume"), Text::kStepsResume},
                               std::pair{std::string_view("checkpoint"), Text::kStepsCheckpoint},
                               std::pair{std::string_view("stop"), Text::kStepsStop},
                               std::pair{std::string_view("skip"), Text::kStepsSkip},
                               std::pair{std::string_view("error"), Text::kStepsError},
                               std::pair{std::string_view("note"), Text::kStepsNote}};

}  // namespace

std::string LossText(double loss) { return std::isnan(loss) ? "–" : fmt::format("{:.4f}", loss); }

std::string NormText(double norm) {
  // The other form would leave the point behind the third digit.
  const bool is_whole = std::abs(norm) >= 99.95 && std::abs(norm) < 999.5;
  return is_whole ? fmt::format("{:.0f}", norm) : fmt::format("{:#.3g}", norm);
}

std::string EventWords(ui::Language language, const query::Marker& event) {
  std::string text;
  for (const auto& [kind, word] : kKinds) {
    if (event.kind == kind) text = ui::Tr(language, word);
  }
  if (event.kind == "change") {
    text = event.key;
  } else if (text.empty()) {
    text = event.kind;
  }
  const std::string from = event.old_value.empty() ? "" : event.old_value + " → ";
  // A checkpoint's value is its folder.
  const std::string to = event.kind == "checkpoint"
                             ? std::filesystem::path(event.new_value).filename().string()
                             : event.new_value;
  if (!from.empty() || !to.empty()) text += " " + from + to;
  return Printable(text, "");
}

}  // namespace shardscope::panels
