// What is said where there is no driver, no GPU or too old a driver; which variables are set.
#include "engine/cuda/plugin/probe.h"
#include "tests/places.h"

#include <gmock/gmock.h>

#include <cstdlib>

namespace shardscope::cuda {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// A variable for the length of a test.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    value == nullptr ? unsetenv(name) : setenv(name, value, 1);
  }
  ~Variable() { unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* const name_;
};

const std::string kFakeDriver = BinDir() + "/../tests/libfake_cuda.so";

TEST(CheckDriver, AcceptsADriverWithAGpu) { EXPECT_TRUE(CheckDriver(kFakeDriver).ok()); }

TEST(CheckDriver, SaysThatThereIsNoDriver) {
  EXPECT_THAT(CheckDriver("libcuda-not-there.so.1").message(),
              AllOf(HasSubstr("no NVIDIA driver"), HasSubstr("libcuda-not-there.so.1")));
}

TEST(CheckDriver, SaysThatAnotherLibraryIsNoDriver) {
  EXPECT_THAT(CheckDriver("libc.so.6").message(), HasSubstr("is no NVIDIA driver"));
}

TEST(CheckDriver, SaysThatThereIsNoGpu) {
  {
    const Variable none("FAKE_CUDA_DEVICES", "0");
    EXPECT_THAT(CheckDriver(kFakeDriver).message(), HasSubstr("finds no GPU"));
  }
  const Variable no_device("FAKE_CUDA_INIT", "100");
  const Variable hidden("CUDA_VISIBLE_DEVICES", "-1");
  EXPECT_THAT(CheckDriver(kFakeDriver).message(),
              AllOf(HasSubstr("finds no GPU"), HasSubstr("CUDA_VISIBLE_DEVICES=-1")));
}

TEST(CheckDriver, SaysThatTheDriverDoesNotStart) {
  const Variable unknown("FAKE_CUDA_INIT", "999");
  EXPECT_THAT(CheckDriver(kFakeDriver).message(), HasSubstr("cuInit returns 999"));
}

TEST(CheckDriver, SaysThatItIsAStub) {
  const Variable stub("FAKE_CUDA_INIT", "34");
  EXPECT_THAT(CheckDriver(kFakeDriver).message(), HasSubstr("stub"));
}

TEST(CheckDriver, SaysWhichCudaAnOldDriverHas) {
  const Variable old("FAKE_CUDA_VERSION", "12040");
  EXPECT_THAT(CheckDriver(kFakeDriver).message(),
              AllOf(HasSubstr("CUDA 12.4"), HasSubstr("CUDA 13.0 is needed")));
}

TEST(Environment, IsSetUnlessTheUserDid) {
  const Variable connections("CUDA_DEVICE_MAX_CONNECTIONS", nullptr);
  const Variable loading("CUDA_MODULE_LOADING", nullptr);
  EXPECT_THAT(SetCudaEnvironment(false), IsEmpty());
  EXPECT_STREQ(std::getenv("CUDA_DEVICE_MAX_CONNECTIONS"), "32");
  EXPECT_STREQ(std::getenv("CUDA_MODULE_LOADING"), "LAZY");
  SetCudaEnvironment(true);
  EXPECT_STREQ(std::getenv("CUDA_MODULE_LOADING"), "LAZY");
  const Variable one("CUDA_DEVICE_MAX_CONNECTIONS", "1");
  EXPECT_THAT(SetCudaEnvironment(false), Contains(HasSubstr("CUDA_DEVICE_MAX_CONNECTIONS=1")));
  EXPECT_STREQ(std::getenv("CUDA_DEVICE_MAX_CONNECTIONS"), "1");
}

TEST(Environment, LoadsAllKernelsFirstWhereRanksWaitForEachOther) {
  const Variable loading("CUDA_MODULE_LOADING", nullptr);
  const Variable order("NCCL_LAUNCH_ORDER_IMPLICIT", nullptr);
  SetCudaEnvironment(false);
  EXPECT_EQ(std::getenv("NCCL_LAUNCH_ORDER_IMPLICIT"), nullptr);
  unsetenv("CUDA_MODULE_LOADING");
  SetCudaEnvironment(true);
  EXPECT_STREQ(std::getenv("CUDA_MODULE_LOADING"), "EAGER");
  EXPECT_STREQ(std::getenv("NCCL_LAUNCH_ORDER_IMPLICIT"), "1");
}

TEST(Environment, AllocatorSettingsUnderTheirOldNameStay) {
  const Variable now("PYTORCH_ALLOC_CONF", nullptr);
  {
    const Variable before("PYTORCH_CUDA_ALLOC_CONF", "max_split_size_mb:64");
    SetCudaEnvironment(false);
    EXPECT_EQ(std::getenv("PYTORCH_ALLOC_CONF"), nullptr);
  }
  SetCudaEnvironment(false);
  EXPECT_STREQ(std::getenv("PYTORCH_ALLOC_CONF"), "expandable_segments:False");
}

}  // namespace
}  // namespace shardscope::cuda
