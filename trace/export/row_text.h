// Rows as JSON: lists of their values in the order of the table's columns.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "trace/schema/columns.h"
#include "trace/schema/fields.h"

namespace shardscope::exports {

// The key under which an event has rows of a table: "shardscope op_run".
std::string RowsKey(std::string_view table);

// "[1, 2, \"text\"]"; a REAL that is not finite is null.
class RowText final : public schema::FieldSink {
 public:
  void Integer(int64_t value) override;
  void Real(double value) override;
  void Text(std::string_view value) override;
  std::string Take() { return std::move(text_ += ']'); }

 private:
  void Next() { text_ += text_.size() > 1 ? ", " : ""; }

  std::string text_ = "[";
};

template <typename Row>
std::string TextOf(const Row& row) {
  RowText text;
  WriteFields(row, &text);
  return text.Take();
}

}  // namespace shardscope::exports
