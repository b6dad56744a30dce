// NVTX ranges around ops, for whatever tool listens (Nsight Systems, or our own injected library).
// Without a tool a range costs one test of a constant.
#pragma once

#include <cstdint>

namespace shardscope::record {

// Whether a tool asked to be loaded: NVTX_INJECTION64_PATH was set when this was first called.
bool NvtxAttached();

// A range in the domain "shardscope" from construction to destruction. Ranges of several threads
// and streams may cross. `name` is read at once.
class NvtxRange {
 public:
  explicit NvtxRange(const char* name) {
    if (NvtxAttached()) Start(name);
  }
  ~NvtxRange() {
    if (started_) End();
  }
  NvtxRange(const NvtxRange&) = delete;
  NvtxRange& operator=(const NvtxRange&) = delete;

 private:
  void Start(const char* name);
  void End();

  uint64_t id_ = 0;
  bool started_ = false;
};

}  // namespace shardscope::record
