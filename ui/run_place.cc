#include "ui/run_place.h"

#include "ui/text.h"

namespace shardscope::ui {

const char* RunPlaceText(Language language, RunPlace place) {
  switch (place) {
    case RunPlace::kThere:
      return "";
    case RunPlace::kFolderGone:
      return Tr(language, Text::kRunFolderGone);
    case RunPlace::kFolderReplaced:
      return Tr(language, Text::kRunFolderReplaced);
    case RunPlace::kFileGone:
      return Tr(language, Text::kRunFileGone);
    case RunPlace::kFileReplaced:
      return Tr(language, Text::kRunFileReplaced);
  }
  return "";
}

}  // namespace shardscope::ui
