// The parts of the injected library inside one process. What it does in real programs, and the
// hooks themselves, are tested by tests/record_test.py.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "trace/record/inject/cuda_recording.h"
#include "trace/record/inject/nvtx/nvtx_ranges.h"
#include "trace/record/inject/process_recording.h"
#include "trace/store/run_files.h"
#include "trace/store/run_source.h"

namespace shardscope::inject {
namespace {

using Rows = std::vector<std::vector<std::string>>;

Rows Query(const std::string& folder, std::string_view query) {
  const auto run = store::FindRun(folder);
  EXPECT_TRUE(run.ok()) << run.message();
  auto database = store::OpenRunDatabase(run.value());
  EXPECT_TRUE(database.ok()) << database.message();
  auto statement = database->Prepare(query);
  EXPECT_TRUE(statement.ok()) << statement.message();
  Rows rows;
  while (statement->Step().value()) {
    std::vector<std::string>& row = rows.emplace_back();
    for (int i = 0; i < statement->NumColumns(); ++i) row.emplace_back(statement->Text(i));
  }
  return rows;
}

cupti::Kernel KernelAt(int64_t start_ns, int64_t end_ns, uint32_t stream, int32_t name) {
  cupti::Kernel kernel;
  kernel.start_ns = start_ns;
  kernel.end_ns = end_ns;
  kernel.device = 1;
  kernel.stream = {7, stream};
  kernel.name = name;
  return kernel;
}

void RecordGpu(ProcessRecording* recording) {
  cupti::Names names;
  const int32_t gemm = names.OfPointer("_Z4gemmi");
  const int32_t gather = names.OfText("ncclDevKernel_AllGather_RING_LL(args)");
  cupti::Batch batch;
  batch.kernels = {KernelAt(1000, 1500, 3, gemm), KernelAt(1200, 1900, 4, gather),
                   KernelAt(0, 0, 3, gemm), KernelAt(2000, 0, 3, gemm)};
  cupti::Copy copy;
  copy.start_ns = 3000;
  copy.end_ns = 3100;
  copy.kind = cupti::CopyKind::kHostToDevice;
  copy.device = 1;
  copy.stream = {7, 3};
  batch.copies = {copy};
  cupti::MemoryOperation allocation;
  allocation.time_ns = 4000;
  allocation.bytes = 1 << 20;
  allocation.kind = cupti::MemoryKind::kDevice;
  allocation.device = 1;
  cupti::MemoryOperation release = allocation;
  release.time_ns = 5000;
  release.bytes = -allocation.bytes;
  cupti::MemoryOperation pinned = allocation;
  pinned.kind = cupti::MemoryKind::kPinned;
  batch.memory = {allocation, release, pinned};
  // While the allocation and the release are made, the program has its profiler stopped.
  recording->Switch(false, 3500);
  recording->Switch(true, 6000);
  CudaRecording spans(recording);
  spans.Add(batch, names);
  spans.Finish();
  EXPECT_EQ(spans.unplaced(), 1);  // the unfinished one stands where it began
  recording->CountLost("cupti", "lost times", spans.unplaced());
}

void RecordRanges() {
  NvtxRanges program;
  NvtxRanges library;
  EXPECT_EQ(program.Push(nullptr, "aten::mm, seq = 12, op_id = 3"), 0);
  EXPECT_EQ(program.Push(nullptr, "aten::mm, seq = 13, op_id = 4"), 1);
  EXPECT_EQ(library.Push(nullptr, "of library"), 0);
  EXPECT_EQ(program.Push(program.Domain("other"), "in domain"), 0);
  EXPECT_EQ(program.Pop(nullptr), 1);
  EXPECT_EQ(library.Pop(nullptr), 0);
  EXPECT_EQ(library.Pop(nullptr), -1);
  EXPECT_EQ(program.Pop(nullptr), 0);
  EXPECT_EQ(program.Pop(nullptr), -1);
  EXPECT_EQ(program.Pop(program.Domain("other")), 0);
  EXPECT_EQ(program.Domain("other"), program.Domain("other"));
  EXPECT_EQ(program.Register("text"), program.Register("text"));
  const uint64_t first = program.Start(nullptr, "crossing");
  const uint64_t second = program.Start(nullptr, "crossing");
  EXPECT_NE(first, second);
  program.End(first);
  program.End(first);  // again: nothing
  program.End(second);
}

// A child of fork records nothing and leaves the file alone, also when it ends as programs do.
void ForkAndRecord() {
  const pid_t child = fork();
  if (child == 0) {
    NvtxRanges ranges;
    ranges.Push(nullptr, "in child");
    ranges.Pop(nullptr);
    const bool silent =
        ProcessRecording::Active() == nullptr && ProcessRecording::Open() == nullptr;
    ProcessRecording::Finish();
    _exit(silent ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

// Nothing in a child waits for a lock that a thread of its parent held at the fork.
void ForkWhileAThreadAddsNames() {
  NvtxRanges ranges;
  std::atomic<bool> is_done = false;
  std::thread other([&] {
    for (int i = 0; !is_done; ++i) ranges.Domain(std::to_string(i % 1000));
  });
  for (int i = 0; i < 50; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(20);
      ranges.Domain("in child");
      ranges.Register("in child");
      ranges.Push(ranges.Domain("in child"), "in child");
      ranges.Start(nullptr, "in child");
      ProcessRecording::StateIfRecorded("test", "off", "in child");
      _exit(0);
    }
    int status = -1;
    waitpid(child, &status, 0);
    ASSERT_EQ(status, 0) << "child " << i;
  }
  is_done = true;
  other.join();
}

void ExpectRows(const std::string& folder) {
  const Rows spans = Query(folder,
                           "SELECT n.text, s.category, count(*) FROM span s JOIN string n ON n.id "
                           "= s.name_string GROUP BY 1, 2 ORDER BY 1");
  const Rows expected = {{"aten::mm", "host", "2"},
                         {"copy host to device", "copy", "1"},
                         {"crossing", "host", "2"},
                         {"gemm(int)", "compute", "2"},
                         {"ncclDevKernel_AllGather_RING_LL(args)", "communication", "1"},
                         {"of library", "host", "1"},
                         {"other: in domain", "host", "1"},
                         {"process", "host", "1"}};
  EXPECT_EQ(spans, expected);
  const Rows streams =
      Query(folder, "SELECT count(*) FROM track WHERE name LIKE '%GPU 1 context 7 stream %'");
  EXPECT_EQ(streams, Rows{{"2"}});
  EXPECT_EQ(Query(folder, "SELECT DISTINCT rank FROM track"), Rows{{"5"}});
  const Rows memory = {{"5", "GPU 1", "1048576"}, {"5", "GPU 1", "-1048576"}};
  EXPECT_EQ(Query(folder, "SELECT rank, device, bytes FROM memory_event ORDER BY executed_ns"),
            memory);
  EXPECT_EQ(Query(folder,
                  "SELECT time_ns, bytes FROM memory_segment WHERE kind = 'device' "
                  "ORDER BY time_ns"),
            (Rows{{"4000", "1048576"}, {"5000", "-1048576"}}));
  const Rows capabilities =
      Query(folder, "SELECT source, status, dropped > 0 FROM capability ORDER BY 1, 2");
  const Rows told = {{"cupti", "partial", "1"}, {"inject", "partial", "1"}, {"nvtx", "on", "0"}};
  EXPECT_EQ(capabilities, told);
  EXPECT_EQ(Query(folder, "SELECT value FROM meta WHERE key = 'state'").back(),
            std::vector<std::string>{"finished"});
}

// One test: a process has one recording in its life.
TEST(Inject, OneRecordingOfThisProcess) {
  std::string folder = (std::filesystem::temp_directory_path() / "shardscope-XXXXXX").string();
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  EXPECT_EQ(ProcessRecording::Active(), nullptr);
  setenv(kRunVariable, folder.c_str(), 1);
  setenv("RANK", "5", 1);
  ProcessRecording* recording = ProcessRecording::Open();
  ASSERT_NE(recording, nullptr);
  EXPECT_EQ(ProcessRecording::Open(), recording);
  recording->SourceOn("nvtx");
  recording->SourceOn("nvtx");
  RecordRanges();
  RecordGpu(recording);
  ForkAndRecord();
  ForkWhileAThreadAddsNames();
  const schema::StringId name = recording->Name("same");
  EXPECT_EQ(recording->Name("same"), name);
  for (size_t i = 0; i < kMaxNames; ++i) recording->Name(std::to_string(i));
  EXPECT_EQ(recording->Name("one more"), recording->Name("another"));
  ProcessRecording::Finish();
  EXPECT_EQ(ProcessRecording::Active(), nullptr);
  EXPECT_EQ(ProcessRecording::Open(), nullptr);

  ExpectRows(folder);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace shardscope::inject
