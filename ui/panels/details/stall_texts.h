// What Details says of each cause of a stall, beside its sentence (ui/text.h).
#pragma once

#include "trace/base/words.h"
#include "ui/terms.h"
#include "ui/text.h"

namespace shardscope::panels {

struct StallTexts {
  ui::Term term;    // in the list of what an area lost
  ui::Text remedy;  // of an op that waited
};
StallTexts StallTextsOf(words::StallCause cause);

}  // namespace shardscope::panels
