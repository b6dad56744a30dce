// Rows of CSV files.
#pragma once

#include <string>
#include <vector>

#include "trace/base/text.h"

namespace shardscope {

// The fields with commas between them (RFC 4180), without the line's end.
inline std::string CsvRow(const std::vector<std::string>& fields) {
  std::vector<std::string> quoted;
  quoted.reserve(fields.size());
  for (const std::string& field : fields) quoted.push_back(CsvField(field));
  return Join(quoted, ",");
}

}  // namespace shardscope
