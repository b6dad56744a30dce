#include "ui/open_error.h"

#include <filesystem>
#include <system_error>

#include "ui/text.h"

namespace shardscope::ui {

bool IsMissing(const std::string& path) {
  std::error_code error;
  return !path.empty() &&
         std::filesystem::status(path, error).type() == std::filesystem::file_type::not_found;
}

std::string OpenErrorText(Language language, const std::string& path, bool is_missing,
                          const std::string& error) {
  return is_missing ? TrFormat(language, Text::kOpenMissing, path) : error;
}

}  // namespace shardscope::ui
