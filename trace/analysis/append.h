// Append: the rows of some steps behind those of the steps before.
#pragma once

#include <iterator>
#include <vector>

namespace shardscope::analysis {

template <typename Row>
void Append(std::vector<Row> more, std::vector<Row>* rows) {
  rows->insert(rows->end(), std::make_move_iterator(more.begin()),
               std::make_move_iterator(more.end()));
}

}  // namespace shardscope::analysis
