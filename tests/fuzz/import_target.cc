// The input: a file of another program, of whichever format its content says.
#include <filesystem>
#include <fstream>

#include "tests/fuzz/folder.h"
#include "tests/fuzz/targets.h"
#include "trace/base/check.h"
#include "trace/import/import.h"
#include "trace/query/live_trace.h"

namespace shardscope::fuzz {

void FuzzImport(Input input) {
  static const Folder folder("import");
  const std::string path = folder.path + "/file";
  const std::string run = folder.path + "/run";
  {
    std::ofstream file(path, std::ios::binary);
    file.write(reinterpret_cast<const char*>(input.data()),
               static_cast<std::streamsize>(input.size()));
  }
  std::filesystem::remove_all(run);
  const Result<imports::ImportedRun> imported = imports::ImportRun(path, run, {.num_threads = 1});
  if (!imported.ok()) {
    SHARDSCOPE_CHECK(!imported.message().empty());
    SHARDSCOPE_CHECK(!std::filesystem::exists(run));
    return;
  }
  const Result<query::SnapshotPtr> snapshot = query::ReadSnapshot(run);
  SHARDSCOPE_CHECK(snapshot.ok());  // what an importer writes can be read
  PrintReports(**snapshot);
}

}  // namespace shardscope::fuzz
