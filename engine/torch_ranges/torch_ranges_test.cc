// libshardscope_torch.so beside a fake libc10_cuda.so: when it attaches, what it tells, and what it
// says where there is nothing to attach to. The real library is tested by
// tests/record_torch_test.py.
#include <ATen/record_function.h>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <vector>

#include "tests/fake_torch/fake_c10_cuda.h"
#include "tests/places.h"
#include "trace/record/inject/allocator/allocator_event.h"

namespace {

struct Told {
  int action;
  uint64_t address;
  int64_t bytes;
  int64_t active_bytes;
  std::string owner;  // "category phase unit [range]"
};
std::vector<Told>* told = nullptr;

std::string Text(const char* text) { return text == nullptr ? "-" : text; }

void Sink(const ShardscopeAllocatorEvent* event) {
  EXPECT_GT(event->time_ns, 0);
  EXPECT_EQ(event->device, 0);
  told->push_back({event->action, event->address, event->bytes, event->active_bytes,
                   Text(event->category) + " " + Text(event->phase) + " " + Text(event->unit) +
                       " [" + Text(event->range) + "]"});
}

// Each test is a process of its own: who attaches stays attached.
class AllocatorTracker : public testing::Test {
 protected:
  static void* Open(const char* path, int flags = RTLD_NOW) {
    void* const library = dlopen(path, flags);
    if (library == nullptr) ADD_FAILURE() << dlerror();
    return library;
  }
  template <typename Function>
  static Function Find(void* library, const char* name) {
    const auto found = reinterpret_cast<Function>(dlsym(library, name));
    if (found == nullptr) ADD_FAILURE() << name;
    return found;
  }
  static std::string Attach() {
    void* const module = Open((shardscope::BinDir() + "/libshardscope_torch.so").c_str());
    EXPECT_STREQ(Find<const char* (*)()>(module, "ShardscopeTorchStart")(), "");
    return Find<const char* (*)(ShardscopeAllocatorSink)>(module,
                                                          "ShardscopeTorchAllocator")(&Sink);
  }
  static void* Fake(FakeC10CudaKind kind, bool is_initialised = true) {
    void* const fake = Open(SHARDSCOPE_FAKE_C10_CUDA);
    Find<decltype(&FakeC10CudaReset)>(fake, "FakeC10CudaReset")(kind);
    if (is_initialised) Find<decltype(&FakeC10CudaInit)>(fake, "FakeC10CudaInit")();
    return fake;
  }
  static void ExpectReason(const std::string& reason) {
    told = new std::vector<Told>;
    const std::string said = Attach();
    if (said.find(reason) == std::string::npos || !told->empty()) {
      fprintf(stderr, "said: %s\n", said.c_str());
      _exit(1);
    }
    _exit(0);
  }
};

// A block within FSDP's ranges that another stream still uses when it is given back, and one of
// none.
void TellOfBlocks(void* fake) {
  const auto allocate =
      reinterpret_cast<decltype(&FakeC10CudaAllocate)>(dlsym(fake, "FakeC10CudaAllocate"));
  const auto give = reinterpret_cast<decltype(&FakeC10CudaFree)>(dlsym(fake, "FakeC10CudaFree"));
  const auto complete =
      reinterpret_cast<decltype(&FakeC10CudaComplete)>(dlsym(fake, "FakeC10CudaComplete"));
  const auto run_out =
      reinterpret_cast<decltype(&FakeC10CudaRunOut)>(dlsym(fake, "FakeC10CudaRunOut"));
  void* const block = [&] {
    RECORD_USER_SCOPE("FSDP::pre_forward (layers.0)");
    return [&] {
      RECORD_USER_SCOPE("FSDP::all_gather (layers.0)");
      return allocate(1000, 1024);
    }();
  }();
  void* const activation = allocate(100, 512);
  give(block, 1);
  complete(block);
  give(activation, 0);
  run_out(1 << 30, 1 << 20);
}

TEST_F(AllocatorTracker, TellsEveryEventWithTheRangesOfItsThread) {
  told = new std::vector<Told>;
  void* const fake = Fake(kFakeCaching);
  ASSERT_EQ(Attach(), "");
  ASSERT_TRUE(told->empty());
  TellOfBlocks(fake);
  const std::string nobody = "- - - [-]";
  const std::vector<Told> expected = {
      {kShardscopeAttached, 0, 0, 0, nobody},
      {kShardscopeSegmentGained, 1 << 20, 1024, 0, nobody},
      {kShardscopeAlloc, 1 << 20, 1000, 0,
       "communication_buffer forward layers.0 [FSDP::all_gather (layers.0)]"},
      {kShardscopeSegmentGained, 2 << 20, 512, 1024, nobody},
      {kShardscopeAlloc, 2 << 20, 100, 1024, "activation forward layers.0 [-]"},
      {kShardscopeFreeRequested, 1 << 20, 1000, 1536, nobody},
      {kShardscopeFreeCompleted, 1 << 20, 1000, 1536, nobody},
      {kShardscopeSegmentGiven, 1 << 20, 1024, 512, nobody},
      {kShardscopeFreeRequested, 2 << 20, 100, 512, nobody},
      {kShardscopeFreeCompleted, 2 << 20, 100, 512, nobody},
      {kShardscopeSegmentGiven, 2 << 20, 512, 0, nobody},
      {kShardscopeOutOfMemory, 1 << 20, 1 << 30, 0, "activation forward layers.0 [-]"}};
  ASSERT_EQ(told->size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ((*told)[i].action, expected[i].action) << i;
    EXPECT_EQ((*told)[i].address, expected[i].address) << i;
    EXPECT_EQ((*told)[i].bytes, expected[i].bytes) << i;
    EXPECT_EQ((*told)[i].active_bytes, expected[i].active_bytes) << i;
    EXPECT_EQ((*told)[i].owner, expected[i].owner) << i;
  }
}

using AllocatorTrackerDeathTest = AllocatorTracker;

TEST_F(AllocatorTrackerDeathTest, SaysWhyThereIsNothing) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto ok = testing::ExitedWithCode(0);
  EXPECT_EXIT(ExpectReason("this PyTorch has no CUDA"), ok, "");
  EXPECT_EXIT((Fake(kFakeCaching, false), ExpectReason("not initialised CUDA")), ok, "");
  EXPECT_EXIT((Fake(kFakeUncached), ExpectReason("caching is switched off")), ok, "");
  EXPECT_EXIT((Fake(kFakeAsync), ExpectReason("cudaMallocAsync does not yet support it")), ok, "");
}

}  // namespace
