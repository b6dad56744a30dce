// How NCCL's library is opened, and what the real one does on a machine without a GPU.
#include "engine/cuda/transport/nccl/nccl_api.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "engine/cuda/transport/fake_gpu_test_util.h"
#include "engine/cuda/transport/nccl/nccl_transport.h"
#include "trace/base/time.h"

namespace shardscope::cuda {
namespace {

using testing::HasSubstr;
using transport::Call;
using transport::GatherPiece;
using transport::TransportError;

constexpr int64_t kPatienceNs = 60 * kNsPerSecond;

TEST(NcclApi, AMissingLibraryIsNamedWithTheRemedy) {
  const Result<NcclApi> api = LoadNcclApi("libnosuch_nccl.so.2");
  ASSERT_FALSE(api.ok());
  EXPECT_THAT(api.status().message(), HasSubstr("libnosuch_nccl.so.2"));
  EXPECT_THAT(api.status().message(), HasSubstr("nvidia-nccl-cu13"));
}

TEST(NcclApi, ALibraryThatIsNotNcclIsRefused) {
  const Result<NcclApi> api = LoadNcclApi("libm.so.6");
  ASSERT_FALSE(api.ok());
  EXPECT_THAT(api.status().message(), HasSubstr("has no function ncclGetVersion"));
}

TEST(RealNccl, WithoutAGpuTheMessageIsClean) {
  if (!std::filesystem::exists(SHARDSCOPE_NCCL_LIBRARY)) GTEST_SKIP() << "no NCCL in the cache";
  if (std::filesystem::exists("/dev/nvidiactl")) GTEST_SKIP() << "this machine has a GPU";
  const Result<NcclApi> api = LoadNcclApi(SHARDSCOPE_NCCL_LIBRARY);
  ASSERT_TRUE(api.ok()) << api.status().message();
  int version = 0;
  ASSERT_EQ(api->GetVersion(&version), ncclSuccess);
  EXPECT_EQ(NcclVersionText(version), "2.28.9");
  FakeGpu gpu;
  const auto transport = MakeNcclTransport({.num_ranks = 1,
                                            .timeout_ns = kPatienceNs,
                                            .api = gpu.Api(),
                                            .nccl = *api,
                                            .kernels = std::make_shared<FakeKernels>(&gpu)},
                                           transport::MakeSharedMemoryTransport(1, kPatienceNs));
  std::byte memory[16] = {};
  const GatherPiece piece = {memory, memory + 8, 8};
  Call call{.rank = 0, .op_name = "F m0 block1 all_gather"};
  call.device_stream = gpu.NewStream();
  try {
    transport->AllGather(call, {&piece, 1});
    FAIL() << "without a GPU this cannot work";
  } catch (const TransportError& error) {
    EXPECT_THAT(error.what(), HasSubstr("nccl: rank 0: cannot make communicator 0: "));
  }
}

}  // namespace
}  // namespace shardscope::cuda
