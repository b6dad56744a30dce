// The panel Lessons: the list of lessons with what is done, and one of them with its run, the thing
// to do, and the quiz.
#pragma once

#include <map>
#include <string>

#include "ui/panel.h"

namespace shardscope::panels {

struct LessonsFrame;

class LessonsPanel : public ui::Panel {
 public:
  void Draw(const ui::Context& context, ui::DrawLog* log, ui::Commands* commands) override;

 private:
  void DrawLesson(const LessonsFrame& frame, const lesson::Lesson& one);
  void DrawQuestion(const LessonsFrame& frame, const lesson::Lesson& one, lesson::Exercise part);
  void DrawAnswer(const LessonsFrame& frame, const lesson::Question& question, bool quiz);

  std::string shown_;                    // id of the lesson that the answers are of
  std::map<bool, std::string> answers_;  // as typed; true: to the quiz
  std::map<bool, float> heights_;        // of what was said of them last
};

}  // namespace shardscope::panels
