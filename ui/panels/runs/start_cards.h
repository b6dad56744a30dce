// The cards of the start page: what can be begun with one click.
#pragma once

#include <span>
#include <string>

#include "ui/commands.h"
#include "ui/context.h"
#include "ui/text.h"
#include "ui/widgets/look.h"

namespace shardscope::panels {

struct StartCard {
  const char* preset;  // file of assets/presets without its ending; "": it opens what is there
  ui::Text title;
  ui::Text what;
};
std::span<const StartCard> StartCards();

// The file of the card's preset; empty if it is not installed.
std::string PresetFileOf(const StartCard& card, const ui::Places& places);

// Draws the cards in rows over the content's width. Returns the one that was chosen, or null. One
// that cannot be begun now says why on hover, and is not chosen.
const StartCard* DrawStartCards(const ui::Context& context, const widgets::Look& look,
                                ui::DrawLog* log);

}  // namespace shardscope::panels
