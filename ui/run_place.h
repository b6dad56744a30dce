// RunPlace: whether what the open run was read from is still where it was opened.
#pragma once

#include <cstdint>

#include "ui/language.h"

namespace shardscope::ui {

enum class RunPlace : uint8_t {
  kThere,
  kFolderGone,
  kFolderReplaced,
  kFileGone,  // of a trace file that was opened alone
  kFileReplaced,
};

inline bool IsReplaced(RunPlace place) {
  return place == RunPlace::kFolderReplaced || place == RunPlace::kFileReplaced;
}

// What is the matter with it, and the remedy; empty where it is there.
const char* RunPlaceText(Language language, RunPlace place);

}  // namespace shardscope::ui
