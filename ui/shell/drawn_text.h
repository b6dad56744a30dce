// The texts of a picture as they are read: `shardscope shot -o x.txt`, for those who have it read
// to them.
#pragma once

#include <string>
#include <vector>

#include "ui/draw_log.h"
#include "ui/language.h"
#include "ui/shell/backend/svg.h"

namespace shardscope::shell {

// What a picture says of a text by its ground, a line or a dot alone.
struct TextRemark {
  ui::Box box;        // of what can be clicked, with the text in it
  std::string text;   // uncut
  std::string words;  // "on (chosen)": what is read in its place
};

// Which of several choices and tabs are on, and which are asked for, by what widgets logged.
std::vector<TextRemark> RemarksOf(const ui::DrawLog& widgets, ui::Language language);

// Window by window, with a line for each line on screen: from top to bottom, in each from left to
// right, texts two spaces apart. Of equal texts at the same place one is kept. A remark takes the
// place of the first text in its box that is its own, or the beginning of it.
std::string PrintTexts(const std::vector<WrittenText>& texts, std::vector<TextRemark> remarks = {});

}  // namespace shardscope::shell
