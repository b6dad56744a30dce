// Schedule: the plan of a step as a grid of streams with what each op waits for and holds, or as
// text. Ops can be moved and the text changed; it is checked, and the live run can train with it.
#pragma once

#include <compare>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ui/panel.h"
#include "ui/schedule_sheet.h"

namespace shardscope::panels {

struct ScheduleFrame;

class SchedulePanel : public ui::Panel {
 public:
  // Keeps what was chosen and what is typed, nothing else.
  void Draw(const ui::Context& context, ui::DrawLog* log, ui::Commands* commands) override;
  ui::TableMaker AsTable(const ui::Context& context) const override;

 private:
  std::optional<query::ScheduleId> Wanted(const ui::Context& context);
  // Keeps the text that was changed, for when its Schedule is shown again.
  void PutAway();
  // Forgets what is of the run that was open, but for that text.
  void Leave();
  // true: there is one.
  bool ChooseSchedule(const ui::Context& context);
  void DrawChoices(const ScheduleFrame& frame);
  void DrawVerdict(const ScheduleFrame& frame) const;
  // What the live run trains with, and what it could.
  void DrawRun(const ScheduleFrame& frame);
  void DrawGrid(const ScheduleFrame& frame);
  void DrawOp(const ScheduleFrame& frame, plan::OpIndex op);
  void DrawOpMarks(const ScheduleFrame& frame, plan::OpIndex op, const ui::Box& row) const;
  void DrawSelected(const ScheduleFrame& frame);
  void DrawMoves(const ScheduleFrame& frame);
  void ReadMoveKeys();
  // false: it cannot go there.
  bool MoveSelected(const ScheduleFrame& frame, bool earlier);
  void DrawRevert(const ScheduleFrame& frame);
  void DrawText(const ScheduleFrame& frame);
  void Check(ui::Commands* commands);

  std::optional<query::ScheduleId> chosen_;  // none: follows the step in focus
  // ScheduleInFocus(), and what it was found in.
  struct LookedIn {
    std::string run_folder;
    uint64_t generation = 0;
    int32_t step = -2;  // of none yet
    bool operator==(const LookedIn&) const = default;
  };
  LookedIn looked_in_;
  std::optional<query::ScheduleId> in_focus_;
  // ScheduleChoices(), and of which generation of the Snapshot.
  std::vector<ui::ScheduleChoice> choices_;
  std::optional<uint64_t> choices_of_;
  query::ScheduleId shown_ = query::ScheduleId::None();
  int32_t program_ = 0;
  plan::OpIndex selected_ = plan::kNone;
  bool scrolls_to_selected_ = false;      // it was moved
  plan::OpIndex moved_to_ = plan::kNone;  // where that op stands in what is being checked
  std::deque<bool> moves_;  // that it still is to make once that is checked: earlier, else later
  ui::FoundOpRun found_;    // of that op
  bool as_text_ = false;
  bool is_changed_ = false;  // the text is no longer that of the run
  std::string typed_;
  // A Schedule of a run. Another run may be in the same folder later.
  struct WhatIsTyped {
    std::string run_folder;  // canonical: a run may be opened by several spellings
    std::string run_id;
    std::string text;  // as the run has it
    auto operator<=>(const WhatIsTyped&) const = default;
  };
  WhatIsTyped typed_for_;
  // What was typed for others and is not theirs, for when they are shown again.
  std::map<WhatIsTyped, std::string> left_;
  std::string run_;  // the text that the run was asked to train with, until it does
  std::shared_ptr<const std::string> asked_;  // what is checked
  std::shared_ptr<const std::string> sent_;   // what `run_` was made of
};

}  // namespace shardscope::panels
