#include "tests/fuzz/folder.h"

#include <cstdlib>
#include <filesystem>

#include "trace/analysis/report/report.h"
#include "trace/base/check.h"

namespace shardscope::fuzz {

namespace fs = std::filesystem;

Folder::Folder(const char* name) {
  const fs::path memory = "/dev/shm";
  const fs::path root = fs::exists(memory) ? memory : fs::temp_directory_path();
  path = (root / (std::string("shardscope-") + name + "-XXXXXX")).string();
  SHARDSCOPE_CHECK(mkdtemp(path.data()) != nullptr);
}

Folder::~Folder() { fs::remove_all(path); }

void PrintReports(const query::Snapshot& snapshot) {
  const analysis::Report report = analysis::MakeReport(snapshot);
  SHARDSCOPE_CHECK(!analysis::PrintReportText(report).empty());
  for (const auto definition : {analysis::GpuDefinition::kExact, analysis::GpuDefinition::kHta}) {
    const analysis::GpuTime gpu = analysis::MeasureGpu(snapshot, definition);
    SHARDSCOPE_CHECK(!analysis::PrintReportJson(report, &gpu).empty());
    SHARDSCOPE_CHECK(gpu.ranks.empty() == analysis::PrintGpuTime(gpu).empty());
  }
}

}  // namespace shardscope::fuzz
