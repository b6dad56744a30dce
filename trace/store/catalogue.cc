#include "trace/store/catalogue.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "trace/schema/ddl.h"

namespace shardscope::store {

Result<std::vector<std::string>> NamesInDatabase(Database* database,
                                                 std::initializer_list<std::string_view> types) {
  SHARDSCOPE_ASSIGN_OR_RETURN(Statement select,
                              database->Prepare(fmt::format(
                                  "SELECT name FROM (SELECT type, name FROM sqlite_schema UNION "
                                  "SELECT type, name FROM sqlite_temp_schema) WHERE type IN ('{}') "
                                  "AND name NOT LIKE 'sqlite_%' ORDER BY name",
                                  fmt::join(types, "', '"))));
  std::vector<std::string> names;
  while (true) {
    SHARDSCOPE_ASSIGN_OR_RETURN(const bool row, select.Step());
    if (!row) return names;
    names.emplace_back(select.Text(0));
  }
}

Status CreateViews(ViewsOf where, Database* database) {
  const std::string_view create =
      where == ViewsOf::kConnection ? "CREATE TEMP VIEW" : "CREATE VIEW";
  for (const schema::View& view : schema::Views()) {
    SHARDSCOPE_RETURN_IF_ERROR(
        database->Execute(fmt::format("{} {} AS {}", create, view.name, view.body)));
  }
  return Status::Ok();
}

}  // namespace shardscope::store
