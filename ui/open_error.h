// Why a run could not be opened, in the language of the app where the reason is known.
#pragma once

#include <string>

#include "ui/language.h"

namespace shardscope::ui {

// Nothing is at `path`: the commonest reason.
bool IsMissing(const std::string& path);

// `error` is what the reader said; it stays in English unless `path` is missing.
std::string OpenErrorText(Language language, const std::string& path, bool is_missing,
                          const std::string& error);

}  // namespace shardscope::ui
