#include "trace/export/row_text.h"

#include <fmt/format.h>

#include <cmath>

#include "trace/export/chrome_writer.h"

namespace shardscope::exports {

std::string RowsKey(std::string_view table) { return fmt::format("shardscope {}", table); }

void RowText::Integer(int64_t value) {
  Next();
  text_ += std::to_string(value);
}

void RowText::Real(double value) {
  Next();
  text_ += std::isfinite(value) ? fmt::format("{}", value) : "null";
}

void RowText::Text(std::string_view value) {
  Next();
  text_ += JsonText(value);
}

}  // namespace shardscope::exports
