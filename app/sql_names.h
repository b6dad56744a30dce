// What a query can name: said where it names something else.
#pragma once

#include <string>

#include "trace/store/database.h"

namespace shardscope::app {

// SQLite's `error` on `query`. Of an unknown table it adds the tables and views that there are, of
// an unknown column the columns of those that the query names, and the nearest name of both.
std::string WithNames(const std::string& error, const std::string& query,
                      store::Database* database);

}  // namespace shardscope::app
