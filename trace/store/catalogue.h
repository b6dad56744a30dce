// What a database holds, by name, and the views of the schema in it.
#pragma once

#include <cstdint>
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

// Whether views stay in the file, or are of one connection, in front of what the file itself has.
enum class ViewsOf : uint8_t { kFile, kConnection };
// All of the schema, in a database that has all tables.
Status CreateViews(ViewsOf where, Database* database);

}  // namespace shardscope::store
