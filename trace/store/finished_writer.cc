#include "trace/store/finished_writer.h"

#include <unistd.h>

#include <utility>

#include "trace/base/words.h"
#include "trace/schema/ddl.h"
#include "trace/store/finisher.h"

namespace shardscope::store {

Result<std::unique_ptr<FinishedWriter>> FinishedWriter::Create(TraceFile file) {
  const std::string path = file.UnfinishedPath();
  unlink(path.c_str());
  SHARDSCOPE_ASSIGN_OR_RETURN(Database database, Database::Open(path, Database::Mode::kCreate));
  std::unique_ptr<FinishedWriter> writer(new FinishedWriter(std::move(file), std::move(database)));
  SHARDSCOPE_RETURN_IF_ERROR(ConfigureFinished(&writer->database_));
  SHARDSCOPE_RETURN_IF_ERROR(writer->database_.Execute("BEGIN"));
  for (const std::string& table : schema::CreateTables()) {
    SHARDSCOPE_RETURN_IF_ERROR(writer->database_.Execute(table));
  }
  SHARDSCOPE_RETURN_IF_ERROR(writer->SetMeta("state", Name(words::TraceState::kFinishing)));
  return writer;
}

FinishedWriter::~FinishedWriter() { unlink(file_.UnfinishedPath().c_str()); }

Status FinishedWriter::SetMeta(std::string_view key, std::string_view value) {
  return Insert(schema::MetaRow{std::string(key), std::string(value)});
}

Status FinishedWriter::Finish() {
  inserter_.Forget();
  SHARDSCOPE_RETURN_IF_ERROR(CompleteFinished(words::TraceState::kFinished, &database_));
  SHARDSCOPE_ASSIGN_OR_RETURN(database_, Database::OpenInMemory());
  return PublishFinished(file_.UnfinishedPath(), file_, true);
}

}  // namespace shardscope::store
