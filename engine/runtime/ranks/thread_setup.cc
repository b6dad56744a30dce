#include "engine/runtime/ranks/thread_setup.h"

#include <ATen/Parallel.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

namespace shardscope::runtime {
namespace {

constexpr uint64_t kShortSliceNs = 100'000;  // the smallest that Linux grants

// The kernel's struct sched_attr, version 0 (linux/sched/types.h clashes with sched.h).
struct SchedAttr {
  uint32_t size = 48;
  uint32_t policy = SCHED_OTHER;
  uint64_t flags = 0;
  int32_t nice = 0;
  uint32_t priority = 0;
  uint64_t runtime = 0;
  uint64_t deadline = 0;
  uint64_t period = 0;
};
static_assert(sizeof(SchedAttr) == 48);

}  // namespace

void ComputeOnOneThread() {
  thread_local bool is_set = false;
  if (is_set) return;
  at::set_num_threads(1);
  is_set = true;
}

void AskForShortSlices() {
  thread_local bool is_asked = false;
  if (is_asked) return;
  is_asked = true;
  SchedAttr attributes;
  attributes.nice = getpriority(PRIO_PROCESS, 0);
  attributes.runtime = kShortSliceNs;
  // Refused or ignored, it only costs speed.
  static_cast<void>(syscall(SYS_sched_setattr, 0, &attributes, 0));
}

}  // namespace shardscope::runtime
