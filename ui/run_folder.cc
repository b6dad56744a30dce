#include "ui/run_folder.h"

#include "engine/config/run_files.h"
#include "ui/text.h"

namespace shardscope::ui {

std::string WhyFolderIsTaken(Language language, const std::string& folder) {
  const auto touched = config::WhatARunWouldTouch(folder);
  if (!touched.ok()) return TrFormat(language, Text::kRunsFolderUnread, touched.message());
  if (!touched->has_value()) return "";
  const config::TouchedFile& file = **touched;
  if (file.is_run) return TrFormat(language, Text::kRunsFolderTaken, folder);
  return TrFormat(language, Text::kRunsFolderTouched, folder, file.name);
}

}  // namespace shardscope::ui
