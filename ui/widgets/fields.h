// Fields: text inputs and drop-downs in the look of the app.
#pragma once

#include <string>
#include <vector>

#include "ui/widgets/look.h"

namespace shardscope::widgets {

struct Field {
  std::string_view hint;  // shown while empty
  bool invalid = false;   // bordered in the colour of bad news
  bool mono = false;
  float width = 0;  // pixels; 0: the content's width
};
// True when the text changed.
bool TextField(const Look& look, const char* id, std::string* text, const Field& field);

// True when another option was chosen.
bool Choice(const Look& look, const char* id, const std::vector<std::string>& options, int* chosen,
            float width = 0);

}  // namespace shardscope::widgets
