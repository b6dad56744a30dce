// Database and Statement: the thinnest wrapper of SQLite that the store needs. Only
// trace/store/*.cc sees sqlite3.h. A Database is used by one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>

#include "trace/base/status.h"

struct sqlite3;
struct sqlite3_stmt;

namespace shardscope::store {

// A prepared statement. Columns count from 0, parameters from 1.
class Statement {
 public:
  enum class Type : uint8_t { kInteger, kReal, kText, kBlob, kNull };

  // Bound text or bytes must live until the next Step() or Reset().
  void Bind(int parameter, int64_t value);
  void Bind(int parameter, double value);
  void Bind(int parameter, std::string_view text);
  void BindBlob(int parameter, std::string_view bytes);

  // true: a row is there; false: done. Errors name the database file.
  Result<bool> Step();

  // Runs a statement that gives no rows, then resets it.
  Status Run();
  void Reset();

  int NumColumns() const;
  std::string ColumnName(int column) const;
  Type ColumnType(int column) const;
  int64_t Integer(int column) const;
  double Real(int column) const;  // NaN for NULL
  // Valid until the next Step() or Reset().
  std::string_view Text(int column) const;
  std::string_view Blob(int column) const;

  // Bytes that Text() has returned so far.
  size_t text_bytes() const { return text_bytes_; }

  // Whether the statement changes nothing.
  bool ReadOnly() const;

 private:
  friend class Database;
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const;
  };
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
  mutable size_t text_bytes_ = 0;
};

class Database {
 public:
  enum class Mode : uint8_t {
    kReadOnly,   // an untrusted file: defensive settings and limits
    kReadWrite,  // must exist
    kCreate      // created if it does not exist
  };
  static Result<Database> Open(const std::string& path, Mode mode);
  static Result<Database> OpenInMemory();

  // `sql` is one statement; what follows its ';' is given back in *rest, if that is not null.
  Result<Statement> Prepare(std::string_view sql, std::string_view* rest = nullptr);
  // One or more statements without rows or parameters.
  Status Execute(const std::string& sql);
  // The first column of the first row; 0 or empty if there is none.
  Result<int64_t> QueryInteger(const std::string& sql);
  Result<std::string> QueryText(const std::string& sql);

  // Between BEGIN and the end of its transaction, which an error may be.
  bool in_transaction() const;

  // From now on nothing can be changed or attached, in memory neither.
  void Seal();

  // Statements that run, or are begun, once `stop` is asked for fail: "interrupted".
  void StopWhen(const std::stop_token& stop);

  const std::string& path() const { return path_; }

 private:
  struct Close {
    void operator()(sqlite3* database) const;
  };
  std::string path_;
  std::unique_ptr<std::stop_token> stop_;  // SQLite has its address
  std::unique_ptr<sqlite3, Close> database_;
};

// `path` as a file: URI that opens read-only, for ATTACH.
std::string ReadOnlyUri(const std::string& path);

}  // namespace shardscope::store
