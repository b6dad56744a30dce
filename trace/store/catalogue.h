// What a database holds, by name.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "trace/base/status.h"
#include "trace/store/database.h"

namespace shardscope::store {

// In order, temporary ones too, without SQLite's own. `types`: "table", "view".
Result<std::vector<std::string>> NamesInDatabase(Database* database,
                                                 std::initializer_list<std::string_view> types);

}  // namespace shardscope::store
