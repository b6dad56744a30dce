// Ranks: every rank in every step as a strip of colours, with a sentence on top that names the rank
// that the others wait for. A click on a cell leads to it in the timeline; ranks' lanes there can
// be put on top and taken away.
#pragma once

#include <memory>
#include <string>

#include "ui/panel.h"
#include "ui/panels/ranks/draw_strip.h"
#include "ui/panels/ranks/rank_strip.h"

namespace shardscope::panels {

class RanksPanel : public ui::Panel {
 public:
  // Keeps what is being typed, what was chosen, and what it arranged, nothing else.
  void Draw(const ui::Context& context, ui::DrawLog* log, ui::Commands* commands) override;
  ui::TableMaker AsTable(const ui::Context& context) const override;

 private:
  void DrawSentence(const RanksFrame& frame);
  void DrawChoices(const RanksFrame& frame);
  void DrawLaneButtons(const RanksFrame& frame);
  void Update(const RanksFrame& frame, float width);
  void DrawStrip(const RanksFrame& frame);
  // Mouse or keyboard on the cells, which are the last item.
  void HandleStrip(const RanksFrame& frame, const StripPlaces& places, bool clicked);

  std::string filter_;
  StripSettings settings_;
  std::string path_;  // of the run that settings_.ranks are of
  // What strip_ was made of.
  std::shared_ptr<const analysis::RankOverview> made_of_;
  StripSettings made_with_;
  Strip strip_;
  bool shows_slow_ = false;  // scroll to the slow rank in this frame
  StripPlace of_keys_;       // that arrow keys have moved to
};

}  // namespace shardscope::panels
