// libFuzzer's way in; SHARDSCOPE_FUZZ_TARGET is one of targets.h.
#include <cstddef>

#include "tests/fuzz/targets.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  shardscope::fuzz::SHARDSCOPE_FUZZ_TARGET({data, size});
  return 0;
}
