#include "ui/panels/steps/step_words.h"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <optional>

#include "trace/base/text.h"
#include "ui/text.h"
#include "ui/value_label.h"

namespace shardscope::panels {
namespace {

using query::MarkerKind;
using ui::Text;

// Of a change it is the key's name; of a kind that a newer version writes the kind itself.
std::string WordOfEvent(ui::Language language, const query::Marker& event) {
  const std::optional<MarkerKind> kind = query::ParseMarkerKind(event.kind);
  if (!kind) return event.kind;
  switch (*kind) {
    case MarkerKind::kChange:
      return event.key;
    case MarkerKind::kPause:
      return ui::Tr(language, Text::kStepsPause);
    case MarkerKind::kResume:
      return ui::Tr(language, Text::kStepsResume);
    case MarkerKind::kCheckpoint:
      return ui::Tr(language, Text::kStepsCheckpoint);
    case MarkerKind::kStop:
      return ui::Tr(language, Text::kStepsStop);
    case MarkerKind::kSkip:
      return ui::Tr(language, Text::kStepsSkip);
    case MarkerKind::kError:
      return ui::Tr(language, Text::kStepsError);
    case MarkerKind::kNote:
      return ui::Tr(language, Text::kStepsNote);
  }
  return event.kind;
}

}  // namespace

std::string LossText(double loss) { return std::isnan(loss) ? "–" : fmt::format("{:.4f}", loss); }

std::string NormText(double norm) {
  // The other form would leave the point behind the third digit.
  const bool is_whole = std::abs(norm) >= 99.95 && std::abs(norm) < 999.5;
  return is_whole ? fmt::format("{:.0f}", norm) : fmt::format("{:#.3g}", norm);
}

std::string EventWords(ui::Language language, const query::Marker& event) {
  std::string text = WordOfEvent(language, event);
  if (event.kind == Name(MarkerKind::kChange) || !event.old_value.empty()) {
    text += " " + ui::ValueLabel(event.old_value) + " → " + ui::ValueLabel(event.new_value);
  } else if (!event.new_value.empty()) {
    // A checkpoint's value is its folder.
    text += " " + (event.kind == Name(MarkerKind::kCheckpoint)
                       ? std::filesystem::path(event.new_value).filename().string()
                       : event.new_value);
  }
  return Printable(text, "");
}

}  // namespace shardscope::panels
