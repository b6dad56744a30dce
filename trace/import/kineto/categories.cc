#include "trace/import/kineto/categories.h"

#include <algorithm>
#include <utility>

#include "trace/base/text.h"

namespace shardscope::imports {
namespace {

using Classes = std::pair<std::string_view, EventClass>;

constexpr Classes kClasses[] = {
    {"cpu_op", EventClass::kHost},
    {"Operator", EventClass::kHost},
    {"user_annotation", EventClass::kHost},
    {"python_function", EventClass::kHost},
    {"overhead", EventClass::kHost},
    {"cuda_runtime", EventClass::kLaunch},
    {"cuda_driver", EventClass::kLaunch},
    {"Runtime", EventClass::kLaunch},
    {"hip_runtime", EventClass::kLaunch},
    {"xpu_runtime", EventClass::kLaunch},
    {"xpu_driver", EventClass::kLaunch},
    {"mtia_runtime", EventClass::kLaunch},
    {"glow_runtime", EventClass::kLaunch},
    {"privateuse1_runtime", EventClass::kLaunch},
    {"privateuse1_driver", EventClass::kLaunch},
    {"kernel", EventClass::kKernel},
    {"Kernel", EventClass::kKernel},
    {"mtia_ccp_events", EventClass::kKernel},
    {"mtia_workloadd", EventClass::kKernel},
    {"collective_comm", EventClass::kKernel},
    {"gpu_memcpy", EventClass::kCopy},
    {"Memcpy", EventClass::kCopy},
    {"gpu_memset", EventClass::kSet},
    {"Memset", EventClass::kSet},
    {"gpu_user_annotation", EventClass::kDeviceRange},
    {"mtia_insight", EventClass::kDeviceRange},
    {"cuda_profiler_range", EventClass::kDeviceRange},
    {"cuda_sync", EventClass::kSync},
    {"cuda_event", EventClass::kSync},
    {"xpu_sync", EventClass::kSync},
    {"Trace", EventClass::kNothing},
};

const Classes* Find(std::string_view category) {
  const auto* const found =
      std::find_if(std::begin(kClasses), std::end(kClasses),
                   [&](const Classes& known) { return known.first == category; });
  return found == std::end(kClasses) ? nullptr : found;
}

}  // namespace

EventClass ClassOf(std::string_view category) {
  const Classes* const known = Find(category);
  return known == nullptr ? EventClass::kHost : known->second;
}

bool IsKnownCategory(std::string_view category) { return Find(category) != nullptr; }

words::GpuWorkKind CopyKindOf(std::string_view name) {
  using words::GpuWorkKind;
  if (Contains(name, "HtoD") || Contains(name, "HostToDevice") || Contains(name, "M2D"))
    return GpuWorkKind::kCopyToDevice;
  if (Contains(name, "DtoH") || Contains(name, "DeviceToHost") || Contains(name, "D2M"))
    return GpuWorkKind::kCopyToHost;
  if (Contains(name, "DtoD") || Contains(name, "DeviceToDevice") || Contains(name, "D2D"))
    return GpuWorkKind::kCopyOnDevice;
  if (Contains(name, "PtoP") || Contains(name, "PeerToPeer")) return GpuWorkKind::kCopyToPeer;
  return GpuWorkKind::kCopy;
}

}  // namespace shardscope::imports
