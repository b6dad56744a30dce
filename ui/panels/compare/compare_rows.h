// The delta table of the panel Compare: unit, phase, kind; A, B, B - A; new, gone, slower, faster.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ui/comparison.h"
#include "ui/panel.h"
#include "ui/panels/compare/compare_frame.h"
#include "ui/widgets/tables.h"

namespace shardscope::panels {

class CompareRows {
 public:
  // Keeps the order of rows, and what the last click could not show.
  void Draw(const CompareFrame& frame, ImVec2 size);
  // In less its columns scroll to the side; pixels.
  static float LeastWidth(const CompareFrame& frame);
  // Null: nothing is compared, or it is not drawn yet.
  ui::TableMaker AsTable(const ui::Context& context) const;

 private:
  void Update(const CompareFrame& frame);
  void DrawRow(const CompareFrame& frame, size_t at);
  void Show(const CompareFrame& frame, const analysis::ComparedRow& row);

  widgets::TableOrder sorted_;  // by none: the largest difference first
  // What order_ was made of.
  std::shared_ptr<const ui::Compared> made_of_;
  std::vector<size_t> order_;  // into the rows of the comparison
  std::string said_;           // why the last click led nowhere
};

}  // namespace shardscope::panels
