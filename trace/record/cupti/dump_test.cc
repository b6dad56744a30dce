// Buffers dumped by a session and read back give what decoding them at once gave, with the walker
// of the real library.
#include "trace/record/cupti/dump.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "trace/record/cupti/decode.h"
#include "trace/record/cupti/synthetic_test_util.h"

namespace shardscope::cupti {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kRoom = 1 << 20;

const CuptiFunctions& RealCupti() {
  static const Result<CuptiFunctions> loaded = LoadCupti(SHARDSCOPE_CUPTI_LIBRARY);
  EXPECT_TRUE(loaded.ok()) << loaded.status().message();
  return *loaded;
}

class Dump : public testing::Test {
 protected:
  std::unique_ptr<BufferDump> Create(int64_t max_bytes) {
    auto dump = BufferDump::Create(path_, 130001, max_bytes);
    EXPECT_TRUE(dump.ok()) << dump.message();
    return std::move(dump).value();
  }
  void TearDown() override { std::filesystem::remove(path_); }

  const std::string path_ =
      testing::TempDir() + testing::UnitTest::GetInstance()->current_test_info()->name();
};

// Everything that a batch holds, as text.
std::string Printed(const Batch& batch, const Names& names) {
  std::string text;
  const auto add = [&](auto... values) { ((text += std::to_string(values) + ' '), ...); };
  for (const Kernel& kernel : batch.kernels) {
    add(kernel.start_ns, kernel.end_ns, kernel.stream.context, kernel.stream.stream,
        kernel.correlation);
    text += names.Text(kernel.name) + '\n';
  }
  for (const ApiCall& call : batch.calls) add(call.start_ns, call.end_ns, call.thread);
  for (const Copy& copy : batch.copies) add(copy.start_ns, copy.bytes, copy.stream.stream);
  for (const Wait& wait : batch.waits) add(wait.start_ns, wait.recording);
  for (const EventRecord& event : batch.event_records) add(event.correlation, event.recording);
  return text;
}

// Two buffers that share one name and have one each.
std::vector<SyntheticBuffer> TwoBuffers(const std::vector<std::string>& names) {
  std::vector<SyntheticBuffer> buffers(2);
  for (uint32_t i = 0; i < 2; ++i) {
    buffers[i].Append(KernelRecord(100 + i, 250, 13, 41 + i, names[0].c_str()));
    buffers[i].Append(CallRecord(90, 95 + i, 1234, 41 + i));
    buffers[i].Append(KernelRecord(300, 350 + i, 14, 50 + i, names[1 + i].c_str()));
    buffers[i].Append(KernelRecord(360, 370, 14, 60 + i, nullptr));
    buffers[i].Append(CopyRecord(400, 500, 14, 70 + i, 4096));
    buffers[i].Append(EventRecordRecord(13, 80 + i, 9001));
    buffers[i].Append(StreamWaitRecord(260, 14, 90 + i, 9001));
  }
  return buffers;
}

TEST_F(Dump, ReadBackItDecodesToTheSame) {
  std::string before;
  {
    // Gone when the dump is read, as the process that wrote it is.
    const std::vector<std::string> texts = {"_Z4gemmPf", "ncclDevKernel_AllGather", "copy"};
    std::vector<SyntheticBuffer> buffers = TwoBuffers(texts);
    const std::unique_ptr<BufferDump> dump = Create(kRoom);
    Names names([&](const char* pointer) {
      dump->AddName(pointer, pointer);
      return std::string(pointer);
    });
    for (SyntheticBuffer& buffer : buffers) {
      Batch batch;
      dump->AddBuffer(buffer.data(), buffer.size());
      EXPECT_EQ(Decode(RealCupti(), buffer.data(), buffer.size(), names, batch).decoded, 7);
      before += Printed(batch, names);
    }
    EXPECT_EQ(dump->left_out(), 0);
  }
  EXPECT_THAT(before, HasSubstr("gemm(float*)"));
  Result<LoadedDump> loaded = ReadBufferDump(path_);
  ASSERT_TRUE(loaded.ok()) << loaded.message();
  EXPECT_EQ(loaded->cupti_version, 130001u);
  EXPECT_EQ(loaded->names.size(), 3u);
  Names names(loaded->resolver());
  std::string after;
  for (LoadedDump::Buffer& buffer : loaded->buffers) {
    Batch batch;
    const DecodeResult counts = Decode(RealCupti(), buffer.data(), buffer.size, names, batch);
    EXPECT_FALSE(counts.damaged);
    after += Printed(batch, names);
  }
  EXPECT_EQ(after, before);
}

TEST_F(Dump, BeyondItsBoundItLeavesBuffersOutAndCounts) {
  const std::vector<std::string> texts = {"a", "b", "c"};
  std::vector<SyntheticBuffer> buffers = TwoBuffers(texts);
  const std::unique_ptr<BufferDump> dump =
      Create(static_cast<int64_t>(buffers[0].size() + buffers[1].size()) - 1);
  for (SyntheticBuffer& buffer : buffers) {
    dump->AddBuffer(buffer.data(), buffer.size());
    dump->AddName(texts[0].c_str(), texts[0]);
  }
  EXPECT_EQ(dump->left_out(), 1);
  const Result<LoadedDump> loaded = ReadBufferDump(path_);
  ASSERT_TRUE(loaded.ok());
  EXPECT_EQ(loaded->buffers.size(), 1u);
}

TEST_F(Dump, WhatIsNoDumpOrCutIsRefused) {
  const std::string text = "x";
  std::vector<SyntheticBuffer> buffers = TwoBuffers({"a", "b", "c"});
  {
    const std::unique_ptr<BufferDump> dump = Create(kRoom);
    dump->AddBuffer(buffers[0].data(), buffers[0].size());
    dump->AddName(text.c_str(), text);
  }
  const auto size = std::filesystem::file_size(path_);
  for (auto cut = size - 1; cut > size - 40; cut -= 3) {
    std::filesystem::resize_file(path_, cut);
    const Result<LoadedDump> loaded = ReadBufferDump(path_);
    // Cut between two entries it is a shorter dump.
    EXPECT_TRUE(!loaded.ok() || loaded->names.empty()) << cut;
  }
  std::ofstream(path_) << "something else, and long enough";
  EXPECT_THAT(ReadBufferDump(path_).message(), HasSubstr("no dump"));
  EXPECT_THAT(ReadBufferDump("/nowhere/x").message(), HasSubstr("cannot read"));
  EXPECT_THAT(BufferDump::Create("/nowhere/x", 1, kRoom).message(), HasSubstr("/nowhere/x"));
}

}  // namespace
}  // namespace shardscope::cupti
