// Compare: the open run, A, beside another one, or two ranges of its steps: a sentence, the parts
// of a step, what the difference consists of, and what is set up differently.
#pragma once

#include <optional>
#include <string>

#include "ui/panel.h"
#include "ui/panels/compare/compare_rows.h"

namespace shardscope::panels {

class ComparePanel : public ui::Panel {
 public:
  // Keeps what is being typed and the order of rows, nothing else.
  void Draw(const ui::Context& context, ui::DrawLog* log, ui::Commands* commands) override;
  ui::TableMaker AsTable(const ui::Context& context) const override;

 private:
  void DrawForm(const CompareFrame& frame);
  void DrawFields(const CompareFrame& frame);
  void DrawRecent(const CompareFrame& frame);
  void Ask(const CompareFrame& frame);
  std::optional<ui::CompareWith> Question(const CompareFrame& frame);
  void DrawActions(const CompareFrame& frame);
  void DrawMade(const CompareFrame& frame);
  void DrawUnderEachOther(const CompareFrame& frame);

  bool chooses_ = false;     // another B, though one is compared
  bool wants_path_ = false;  // its field is to have the keyboard
  int typed_into_ = 0;       // TypedInto::times in the last frame
  int questions_ = 0;        // CompareState::questions in the last frame
  std::string path_;
  std::string steps_a_;
  std::string steps_b_;
  std::string form_error_;
  CompareRows rows_;
};

}  // namespace shardscope::panels
