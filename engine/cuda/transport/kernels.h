// Kernels: the device code of the transports, put on a stream. Behind an interface, so that the
// transports are tested with a fake GPU.
#pragma once

#include <cstdint>
#include <memory>

#include "engine/cuda/device/runtime_api.h"
#include "engine/cuda/transport/arithmetic.h"
#include "engine/plan/op.h"

namespace shardscope::cuda {

// A part of a paced collective; all zero: as fast as it goes. `window` is on the device and written
// by an earlier kernel.
struct Pace {
  const LinkWindow* window = nullptr;
  double from = 0;  // of the collective's bytes, which part this is
  double to = 0;
  uint64_t limit_ns = 0;  // of every wait
};

// `inputs`, one behind the other, into `output`; one that is in its place already is left alone.
struct CopyTask {
  const void* inputs[kMaxLocalRanks] = {};
  int num_inputs = 0;
  void* output = nullptr;
  uint64_t bytes = 0;  // of each input
};

// The sum of `inputs` in order, times `scale`, into `output`, which is one of them or overlaps
// none.
struct SumTask {
  const void* inputs[kMaxLocalRanks] = {};
  int num_inputs = 0;
  void* output = nullptr;
  uint64_t elements = 0;
  plan::DType dtype = plan::DType::kFp32;
  double scale = 1;
};

// Threads: any. Nothing blocks. Throws RuntimeError if a launch fails.
class Kernels {
 public:
  virtual ~Kernels() = default;
  virtual void Copy(const CopyTask& task, const Pace& pace, Stream stream) = 0;
  virtual void Sum(const SumTask& task, const Pace& pace, Stream stream) = 0;

  // Reserves wires from the moment the kernel runs. Both pointers are on the device.
  virtual void Reserve(LinkWires* wires, LinkWindow* window, const LinkRequest& request,
                       Stream stream) = 0;

  // The smallest step in which the GPU's clock was seen to advance: how finely a link can be paced.
  // 0: it stood still.
  // Blocks.
  virtual int64_t MeasureClockStepNs() = 0;
};

// On the device that is current on the calling thread.
std::unique_ptr<Kernels> MakeKernels();

}  // namespace shardscope::cuda
