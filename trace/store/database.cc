#include "trace/store/database.h"

#include <fmt/format.h>
#include <sqlite3.h>

#include <limits>

namespace shardscope::store {
namespace {

constexpr int kBusyTimeoutMs = 2000;

// What a hostile file could make a query do is bounded: no row or text over 64 MiB, no huge
// expression, no attached files beyond the finisher's one.
void Restrict(sqlite3* database) {
  sqlite3_db_config(database, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(database, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  sqlite3_db_config(database, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, nullptr);
  sqlite3_limit(database, SQLITE_LIMIT_LENGTH, 64 << 20);
  sqlite3_limit(database, SQLITE_LIMIT_SQL_LENGTH, 1 << 20);
  sqlite3_limit(database, SQLITE_LIMIT_COLUMN, 256);
  sqlite3_limit(database, SQLITE_LIMIT_EXPR_DEPTH, 200);
  sqlite3_limit(database, SQLITE_LIMIT_COMPOUND_SELECT, 50);
  sqlite3_limit(database, SQLITE_LIMIT_VDBE_OP, 100'000);
  sqlite3_limit(database, SQLITE_LIMIT_TRIGGER_DEPTH, 1);
  sqlite3_limit(database, SQLITE_LIMIT_ATTACHED, 0);
}

std::string Describe(sqlite3* database) {
  const char* file = sqlite3_db_filename(database, "main");
  const std::string name = file == nullptr || *file == '\0' ? "the merged run" : file;
  return fmt::format("{}: {}", name, sqlite3_errmsg(database));
}

}  // namespace

void Statement::Finalize::operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }

void Statement::Bind(int parameter, int64_t value) {
  SHARDSCOPE_CHECK(sqlite3_bind_int64(statement_.get(), parameter, value) == SQLITE_OK);
}
void Statement::Bind(int parameter, double value) {
  SHARDSCOPE_CHECK(sqlite3_bind_double(statement_.get(), parameter, value) == SQLITE_OK);
}
void Statement::Bind(int parameter, std::string_view text) {
  // An empty view may have no data, which SQLite would take for NULL.
  const char* data = text.empty() ? "" : text.data();
  SHARDSCOPE_CHECK(sqlite3_bind_text(statement_.get(), parameter, data,
                                     static_cast<int>(text.size()), SQLITE_STATIC) == SQLITE_OK);
}
void Statement::BindBlob(int parameter, std::string_view bytes) {
  const char* data = bytes.empty() ? "" : bytes.data();
  SHARDSCOPE_CHECK(sqlite3_bind_blob(statement_.get(), parameter, data,
                                     static_cast<int>(bytes.size()), SQLITE_STATIC) == SQLITE_OK);
}

Result<bool> Statement::Step() {
  const int code = sqlite3_step(statement_.get());
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  const Status status = Status::Error(Describe(sqlite3_db_handle(statement_.get())));
  sqlite3_reset(statement_.get());
  return status;
}

Status Statement::Run() {
  const Result<bool> row = Step();
  Reset();
  return row.status();
}

void Statement::Reset() { sqlite3_reset(statement_.get()); }

int Statement::NumColumns() const { return sqlite3_column_count(statement_.get()); }
std::string Statement::ColumnName(int column) const {
  const char* name = sqlite3_column_name(statement_.get(), column);
  return name == nullptr ? "" : name;
}

Statement::Type Statement::ColumnType(int column) const {
  switch (sqlite3_column_type(statement_.get(), column)) {
    case SQLITE_INTEGER:
      return Type::kInteger;
    case SQLITE_FLOAT:
      return Type::kReal;
    case SQLITE_TEXT:
      return Type::kText;
    case SQLITE_BLOB:
      return Type::kBlob;
    default:
      return Type::kNull;
  }
}

int64_t Statement::Integer(int column) const {
  return sqlite3_column_int64(statement_.get(), column);
}
double Statement::Real(int column) const {
  // SQLite stores a NaN as NULL.
  if (ColumnType(column) == Type::kNull) return std::numeric_limits<double>::quiet_NaN();
  return sqlite3_column_double(statement_.get(), column);
}
std::string_view Statement::Text(int column) const {
  const unsigned char* text = sqlite3_column_text(statement_.get(), column);
  if (text == nullptr) return {};
  const auto size = static_cast<size_t>(sqlite3_column_bytes(statement_.get(), column));
  text_bytes_ += size;
  // sqlite3 gives UTF-8 as unsigned char.
  return {reinterpret_cast<const char*>(text), size};
}
std::string_view Statement::Blob(int column) const {
  const void* bytes = sqlite3_column_blob(statement_.get(), column);
  if (bytes == nullptr) return {};
  return {static_cast<const char*>(bytes),
          static_cast<size_t>(sqlite3_column_bytes(statement_.get(), column))};
}

bool Statement::ReadOnly() const { return sqlite3_stmt_readonly(statement_.get()) != 0; }

void Database::Close::operator()(sqlite3* database) const { sqlite3_close_v2(database); }

Result<Database> Database::Open(const std::string& path, Mode mode) {
  int flags = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_URI;
  if (mode == Mode::kReadOnly) flags |= SQLITE_OPEN_READONLY;
  if (mode != Mode::kReadOnly) flags |= SQLITE_OPEN_READWRITE;
  if (mode == Mode::kCreate) flags |= SQLITE_OPEN_CREATE;
  sqlite3* raw = nullptr;
  const int code = sqlite3_open_v2(path.c_str(), &raw, flags, nullptr);
  Database database;
  database.path_ = path;
  database.database_.reset(raw);
  if (code != SQLITE_OK) {
    return Status::Error(fmt::format("cannot open {}: {}", path, sqlite3_errstr(code)));
  }
  sqlite3_busy_timeout(raw, kBusyTimeoutMs);
  if (mode == Mode::kReadOnly) {
    Restrict(raw);
    const Status set =
        database.Execute("PRAGMA cell_size_check=ON; PRAGMA mmap_size=0; PRAGMA temp_store=MEMORY");
    if (!set.ok()) return set;
  }
  return database;
}

Result<Database> Database::OpenInMemory() { return Open(":memory:", Mode::kCreate); }

Result<Statement> Database::Prepare(std::string_view sql, std::string_view* rest) {
  sqlite3_stmt* raw = nullptr;
  const char* tail = nullptr;
  const int code =
      sqlite3_prepare_v2(database_.get(), sql.data(), static_cast<int>(sql.size()), &raw, &tail);
  if (code != SQLITE_OK) return Status::Error(Describe(database_.get()));
  if (rest != nullptr) *rest = sql.substr(static_cast<size_t>(tail - sql.data()));
  if (raw == nullptr) return Status::Error("there is no SQL statement to run");
  Statement statement;
  statement.statement_.reset(raw);
  return statement;
}

Status Database::Execute(const std::string& sql) {
  if (sqlite3_exec(database_.get(), sql.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK) {
    return Status::Ok();
  }
  return Status::Error(Describe(database_.get()));
}

Result<int64_t> Database::QueryInteger(const std::string& sql) {
  SHARDSCOPE_ASSIGN_OR_RETURN(Statement statement, Prepare(sql));
  SHARDSCOPE_ASSIGN_OR_RETURN(const bool row, statement.Step());
  return row ? statement.Integer(0) : 0;
}

Result<std::string> Database::QueryText(const std::string& sql) {
  SHARDSCOPE_ASSIGN_OR_RETURN(Statement statement, Prepare(sql));
  SHARDSCOPE_ASSIGN_OR_RETURN(const bool row, statement.Step());
  return row ? std::string(statement.Text(0)) : std::string();
}

bool Database::in_transaction() const { return sqlite3_get_autocommit(database_.get()) == 0; }

void Database::Seal() {
  Restrict(database_.get());
  // Query-only also refuses changes to the temporary and in-memory tables.
  sqlite3_exec(database_.get(), "PRAGMA query_only=ON", nullptr, nullptr, nullptr);
}

void Database::StopWhen(const std::stop_token& stop) {
  constexpr int kStepsBetweenLooks = 4096;
  stop_ = std::make_unique<std::stop_token>(stop);
  const auto is_over = [](void* token) -> int {
    return static_cast<const std::stop_token*>(token)->stop_requested() ? 1 : 0;
  };
  sqlite3_progress_handler(database_.get(), kStepsBetweenLooks, is_over, stop_.get());
}

std::string ReadOnlyUri(const std::string& path) {
  // Two slashes at the start would begin a host's name: an absolute path stands behind an empty
  // one.
  std::string uri = path.starts_with('/') ? "file://" : "file:";
  for (const char c : path) {
    if (c == '%' || c == '?' || c == '#') {
      uri += fmt::format("%{:02X}", static_cast<int>(c));
    } else {
      uri += c;
    }
  }
  return uri + "?mode=ro";
}

}  // namespace shardscope::store
