#include "trace/record/cupti/decode.h"

#include <gtest/gtest.h>

#include <cstring>

#include "trace/record/cupti/synthetic_test_util.h"

namespace shardscope::cupti {
namespace {

// The walker of the real library: it needs no driver.
const CuptiFunctions& Real() {
  static const Result<CuptiFunctions> loaded = LoadCupti(SHARDSCOPE_CUPTI_LIBRARY);
  EXPECT_TRUE(loaded.ok()) << loaded.status().message();
  return *loaded;
}

TEST(LoadCupti, NamesTheLibraryThatIsMissing) {
  // First test of the file: a copy that is loaded already would be the answer.
  const Result<CuptiFunctions> loaded = LoadCupti("/nowhere/libcupti.so.13");
  ASSERT_FALSE(loaded.ok());
  EXPECT_NE(loaded.status().message().find("/nowhere/libcupti.so.13"), std::string::npos);
}

TEST(Decode, EveryKindBecomesItsPlainValue) {
  SyntheticBuffer buffer;
  CUpti_ActivityKernel10 kernel = KernelRecord(100, 250, 13, 41, "_Z4gemmPf");
  kernel.deviceId = 2;
  kernel.gridX = 8, kernel.gridY = 4, kernel.gridZ = 2;
  kernel.blockX = 256, kernel.blockY = 1, kernel.blockZ = 1;
  kernel.registersPerThread = 96;
  kernel.staticSharedMemory = 1024, kernel.dynamicSharedMemory = 512;
  kernel.graphNodeId = 77;
  kernel.channelID = 5;
  buffer.Append(kernel);
  buffer.Append(CallRecord(90, 95, 1234, 41));
  buffer.Append(CallRecord(91, 94, 1234, 42, /*driver=*/true));
  CUpti_ActivityMemcpy6 copy = CopyRecord(300, 400, 14, 43, 4096);
  copy.runtimeCorrelationId = 44;
  buffer.Append(copy);
  CUpti_ActivityMemset4 set = {};
  set.kind = CUPTI_ACTIVITY_KIND_MEMSET;
  set.bytes = 64;
  set.contextId = 1;
  set.streamId = 15;
  buffer.Append(set);
  buffer.Append(EventRecordRecord(13, 45, 9001));
  buffer.Append(StreamWaitRecord(260, 14, 46, 9001));
  buffer.Append(StreamWaitRecord(261, 14, 47, CUPTI_SYNCHRONIZATION_INVALID_VALUE));
  CUpti_ActivityMemory4 memory = {};
  memory.kind = CUPTI_ACTIVITY_KIND_MEMORY2;
  memory.memoryOperationType = CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_RELEASE;
  memory.memoryKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
  memory.address = 0x7f00;
  memory.bytes = 2048;
  memory.timestamp = 500;
  buffer.Append(memory);
  CUpti_ActivityExternalCorrelation external = {};
  external.kind = CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION;
  external.externalId = 12;
  external.correlationId = 41;
  buffer.Append(external);

  Names names;
  Batch batch;
  const DecodeResult counts = Decode(Real(), buffer.data(), buffer.size(), names, batch);
  EXPECT_EQ(counts.decoded, 9);
  EXPECT_EQ(counts.ignored, 1);  // ids that a program gives its calls
  EXPECT_FALSE(counts.damaged);

  ASSERT_EQ(batch.kernels.size(), 1u);
  const Kernel& found = batch.kernels[0];
  EXPECT_EQ(found.start_ns, 100);
  EXPECT_EQ(found.end_ns, 250);
  EXPECT_EQ(found.device, 2u);
  EXPECT_EQ(found.stream, (StreamId{1, 13}));
  EXPECT_EQ(found.grid, (std::array<int32_t, 3>{8, 4, 2}));
  EXPECT_EQ(found.block, (std::array<int32_t, 3>{256, 1, 1}));
  EXPECT_EQ(found.registers, 96);
  EXPECT_EQ(found.static_shared_memory + found.dynamic_shared_memory, 1536);
  EXPECT_EQ(found.graph_node, 77u);
  EXPECT_EQ(found.channel.id, 5u);
  EXPECT_EQ(names.Text(found.name), "gemm(float*)");

  ASSERT_EQ(batch.calls.size(), 2u);
  EXPECT_FALSE(batch.calls[0].driver);
  EXPECT_TRUE(batch.calls[1].driver);
  EXPECT_EQ(batch.calls[0].thread, 1234u);
  ASSERT_EQ(batch.copies.size(), 2u);
  EXPECT_EQ(batch.copies[0].kind, CopyKind::kDeviceToDevice);
  EXPECT_EQ(batch.copies[0].runtime_correlation, 44u);
  EXPECT_EQ(batch.copies[1].kind, CopyKind::kSet);
  ASSERT_EQ(batch.waits.size(), 2u);
  EXPECT_EQ(batch.waits[0].recording, 9001u);
  EXPECT_EQ(batch.waits[1].recording, kNoRecording);
  ASSERT_EQ(batch.event_records.size(), 1u);
  ASSERT_EQ(batch.memory.size(), 1u);
  EXPECT_EQ(batch.memory[0].bytes, -2048);
}

TEST(Decode, NamesAreOneTextEachHoweverManyPointersSayThem) {
  const std::string first = "gemm", second = "gemm", third = "softmax";
  SyntheticBuffer buffer;
  for (const std::string* name : {&first, &second, &third, &first}) {
    buffer.Append(KernelRecord(1, 2, 7, 1, name->c_str()));
  }
  buffer.Append(KernelRecord(1, 2, 7, 1, nullptr));
  Names names;
  Batch batch;
  Decode(Real(), buffer.data(), buffer.size(), names, batch);
  ASSERT_EQ(batch.kernels.size(), 5u);
  EXPECT_EQ(batch.kernels[0].name, batch.kernels[1].name);
  EXPECT_EQ(batch.kernels[0].name, batch.kernels[3].name);
  EXPECT_NE(batch.kernels[0].name, batch.kernels[2].name);
  EXPECT_EQ(names.Text(batch.kernels[4].name), "");
  EXPECT_EQ(names.size(), 3);
}

// As after a module was unloaded and another took its place.
TEST(Decode, ANameIsWhatStandsThereNow) {
  std::string name = "_Z4gemmPf";
  Names names;
  const int32_t gemm = names.OfPointer(name.c_str());
  EXPECT_EQ(names.OfPointer(name.c_str()), gemm);
  std::strcpy(name.data(), "softmax");
  EXPECT_EQ(names.Text(names.OfPointer(name.c_str())), "softmax");
  EXPECT_EQ(names.Text(gemm), "gemm(float*)");
}

TEST(Decode, AFixtureResolvesPointersByItsTable) {
  SyntheticBuffer buffer;
  buffer.Append(KernelRecord(1, 2, 7, 1, reinterpret_cast<const char*>(uintptr_t{0x1234})));
  Names names([](const char* pointer) {
    return reinterpret_cast<uintptr_t>(pointer) == 0x1234 ? std::string("from_table")
                                                          : std::string("?");
  });
  Batch batch;
  Decode(Real(), buffer.data(), buffer.size(), names, batch);
  ASSERT_EQ(batch.kernels.size(), 1u);
  EXPECT_EQ(names.Text(batch.kernels[0].name), "from_table");
}

TEST(Decode, ATruncatedRecordIsNotRead) {
  SyntheticBuffer buffer;
  buffer.Append(KernelRecord(1, 2, 7, 1, "a"));
  buffer.Append(KernelRecord(3, 4, 7, 2, "b"));
  Names names;
  for (size_t size = 0; size < buffer.size(); size += 8) {
    Batch batch;
    const DecodeResult counts = Decode(Real(), buffer.data(), size, names, batch);
    EXPECT_EQ(counts.decoded, size < sizeof(CUpti_ActivityKernel10) ? 0 : 1) << size;
  }
}

TEST(Decode, AnUnknownKindEndsTheWalkAndIsSaid) {
  SyntheticBuffer buffer;
  buffer.Append(KernelRecord(1, 2, 7, 1, "a"));
  CUpti_ActivityKernel10 broken = KernelRecord(3, 4, 7, 2, "b");
  broken.kind = static_cast<CUpti_ActivityKind>(9999);
  buffer.Append(broken);
  Names names;
  Batch batch;
  const DecodeResult counts = Decode(Real(), buffer.data(), buffer.size(), names, batch);
  EXPECT_EQ(counts.decoded, 1);
  EXPECT_TRUE(counts.damaged);
}

TEST(Decode, TellsWhatTheCallerHasToFree) {
  SyntheticBuffer buffer;
  CUpti_ActivityOverhead3 overhead = {};
  overhead.kind = CUPTI_ACTIVITY_KIND_OVERHEAD;
  overhead.start = overhead.end = 7;
  buffer.Append(overhead);
  int data = 0;
  overhead.overheadData = &data;
  buffer.Append(overhead);
  Names names;
  Batch batch;
  const DecodeResult done = Decode(Real(), buffer.data(), buffer.size(), names, batch);
  EXPECT_EQ(done.decoded, 2);
  EXPECT_EQ(done.overhead_data, std::vector<void*>{&data});
}

TEST(Demangle, LeavesWhatIsNotMangled) {
  EXPECT_EQ(Demangle("ncclDevKernel_AllGather_RING_LL"), "ncclDevKernel_AllGather_RING_LL");
  EXPECT_EQ(Demangle("_Z"), "_Z");
}

}  // namespace
}  // namespace shardscope::cupti
