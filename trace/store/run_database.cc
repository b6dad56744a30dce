#include "trace/store/run_database.h"

#include <utility>

#include "trace/schema/ddl.h"
#include "trace/store/reader.h"
#include "trace/store/run_source.h"

namespace shardscope::store {
namespace {

Result<Database> Merge(const RunFiles& run) {
  Result<Database> merged = Database::OpenInMemory();
  if (!merged.ok()) return merged;
  for (const std::string& table : schema::CreateTables()) {
    SHARDSCOPE_RETURN_IF_ERROR(merged->Execute(table));
  }
  Result<std::unique_ptr<RunSource>> source = RunSource::Open(run, RunSource::Purpose::kReadOnce);
  if (!source.ok()) return source.status();
  for (bool more = true; more;) {
    RowBatch batch;
    const Result<bool> left = source.value()->Read(&batch);
    if (!left.ok()) return left.status();
    more = left.value();
    SHARDSCOPE_RETURN_IF_ERROR(InsertBatch(batch, &*merged));
  }
  for (const std::string& index : schema::CreateIndexes()) {
    SHARDSCOPE_RETURN_IF_ERROR(merged->Execute(index));
  }
  SHARDSCOPE_RETURN_IF_ERROR(CreateTemporaryViews(&*merged));
  merged->Seal();
  return merged;
}

}  // namespace

Result<Database> OpenRunDatabase(const RunFiles& run) {
  if (run.traces.size() > 1 || LiveSegments(run.traces.front()).size() > 1) return Merge(run);
  Result<TraceReader> reader = TraceReader::OpenNewest(run.traces.front());
  if (!reader.ok()) return reader.status();
  return std::move(reader).value().TakeDatabase();
}

}  // namespace shardscope::store
