// Details: everything known about the selected op, and what it means.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ui/commands.h"
#include "ui/panel.h"
#include "ui/panels/details/details_text.h"
#include "ui/timeline/facts.h"
#include "ui/timeline/gpu/work_facts.h"

namespace shardscope::panels {

class DetailsPanel : public ui::Panel {
 public:
  // Fills the current window.
  void Draw(const ui::Context& context, ui::DrawLog* log, ui::Commands* commands) override;
  ui::TableMaker AsTable(const ui::Context& context) const override;

 private:
  void Update(const ui::Context& context);
  void DrawHeader(const ui::Context& context, ui::DrawLog* log) const;
  void UpdateWork(const ui::Context& context);
  void DrawWorkHeader(const ui::Context& context, ui::DrawLog* log) const;
  void UpdateSum(const ui::Context& context);
  void DrawSum(const ui::Context& context, ui::DrawLog* log) const;
  void DrawRows(const ui::Context& context, ui::DrawLog* log, ui::Commands* commands) const;
  void AddWaits(const ui::Context& context);
  void DrawMeaning(const ui::Context& context, ui::DrawLog* log) const;
  void DrawFooter(const ui::Context& context, float y, ui::DrawLog* log) const;

  // What facts_ are of.
  std::string run_folder_;
  uint64_t generation_ = 0;
  std::shared_ptr<const analysis::Report> report_;
  ui::Language language_ = ui::Language::kEnglish;

  timeline::OpFacts facts_;
  timeline::WorkFacts work_;  // of the selection, if it is no op
  std::vector<DetailRow> rows_;
  std::string meaning_;
  std::vector<ui::SelectedOp> also_;  // Shift-click: what sum_ns_ has besides facts_
  int64_t sum_ns_ = 0;
};

}  // namespace shardscope::panels
