// For tests of the trace: a folder of its own, and short ways to record.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>

#include "trace/query/rows.h"
#include "trace/record/recorder.h"

namespace shardscope::query {

// A new empty folder, removed at the end of the test.
class TestFolder {
 public:
  TestFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "shardscope-XXXXXX").string();
    SHARDSCOPE_CHECK(mkdtemp(pattern.data()) != nullptr);
    path_ = pattern;
  }
  ~TestFolder() { std::filesystem::remove_all(path_); }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

inline std::unique_ptr<record::Recorder> OpenRecorder(const std::string& folder,
                                                      size_t ring_records = 1 << 14,
                                                      int64_t max_bytes = 0) {
  record::RecorderOptions options;
  options.run_folder = folder;
  options.meta["name"] = "test";
  options.config["run.ranks"] = "2";
  options.ring_records = ring_records;
  options.max_bytes = max_bytes;
  auto recorder = record::Recorder::Open(options);
  SHARDSCOPE_CHECK(recorder.ok());
  return std::move(recorder).value();
}

// An op of the plan with only what tests look at.
inline PlanOpId AddPlanOp(record::Recorder* recorder, const std::string& name,
                          const std::string& kind, const std::string& category) {
  schema::PlanOpRow row;
  row.name = name;
  row.kind = kind;
  row.category = category;
  row.micro_batch = -1;
  row.unit = "block0";
  return recorder->Add(row);
}

inline record::OpRecord OpAt(PlanOpId plan_op, int64_t rank, int64_t step, int64_t start_ns,
                             int64_t end_ns) {
  record::OpRecord record;
  record.run.plan_op = plan_op;
  record.run.rank = rank;
  record.run.step = step;
  record.run.track = TrackId(1);
  record.run.issued_ns = start_ns;
  record.run.ready_ns = start_ns;
  record.run.started_ns = start_ns;
  record.run.ended_ns = end_ns;
  record.run.blocking_plan_op = PlanOpId::None();
  record.run.blocking_kind = "none";
  return record;
}

}  // namespace shardscope::query
