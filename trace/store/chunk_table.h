// Table row_chunk of a finished file: all rows of its hot tables once more, packed (row_chunk.h).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "trace/base/status.h"
#include "trace/store/database.h"
#include "trace/store/row_batch.h"

namespace shardscope::store {

// From here on a finished file is read as a large one (finished_source.h) and has chunks: one with
// some 150,000 op runs. Below this the common way is quick enough.
inline constexpr int64_t kLargeTraceBytes = 32 << 20;

// Every trigger that a finished file may have: three a table, which remove its chunks when a row is
// inserted, updated or deleted.
const std::vector<std::string>& ChunkTriggers();

// Packs the rows of a finished file that is open nowhere else, if it has `least_bytes` and was not
// bounded in size. A trace without chunks is still a whole one: where they cannot be written, or
// would fill the disk, the file stays as it was. Tells how far it is (TellFinishProgress). An
// error: it could not be made what it was, and must not be used.
Status AddRowChunks(const std::string& path, int64_t least_bytes = kLargeTraceBytes);

// What of a finished file its chunks take; 0 if that cannot be told.
int64_t BytesOfChunks(Database* database);

// The rows of one table, or those of some ids, chunk by chunk. Used by one thread at a time; the
// database outlives it.
class RowChunks {
 public:
  // Null: the file has none of this table.
  static Result<std::unique_ptr<RowChunks>> Open(const Table& table, Database* database,
                                                 const IdRange& ids = {});

  // Appends those rows of the next chunk, at most kMostRowsOfChunk, to rows of this table. False at
  // the end; not to be called again then. Damaged files give an error instead of rows without end.
  Result<bool> Read(AnyRows* rows);

 private:
  RowChunks(const Table& table, std::string path, Statement select, const IdRange& ids)
      : table_(table), path_(std::move(path)), select_(std::move(select)), ids_(ids) {}

  Status Damaged(const std::string& what) const;
  Status Lacks() const;
  // Appends the rows of the chunk that select_ is at, at least one.
  Status Unpack(AnyRows* rows) const;
  // The last chunk that begins with ids_.first or before, the first one where none does. By a
  // binary search that unpacks the chunks at which it looks.
  Result<int64_t> FirstChunk(Database* database);

  const Table& table_;
  const std::string path_;
  Statement select_;  // chunks with this number and later ones
  const IdRange ids_;
  int64_t first_id_ = 0;  // of the table
  int64_t last_id_ = 0;
  uint64_t last_chunk_ = 0;  // row_chunk.id of the last one that was read
  int64_t read_id_ = INT64_MIN;
  size_t rows_left_ = 0;  // that the file can have
};

}  // namespace shardscope::store
