// The memory of a thread's own variables.
#pragma once

#include <exception>

namespace shardscope {

// Takes what an exception needs of it now. The C library takes it at the first use, and where there
// is none then it ends the process, instead of letting the exception say that memory ran out.
inline void ReserveForExceptions() {
  [[maybe_unused]] const volatile int used = std::uncaught_exceptions();
}

}  // namespace shardscope
