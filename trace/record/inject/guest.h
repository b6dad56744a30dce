// What this library keeps to as a guest in a foreign program: nothing of it ends that program,
// throws into it, or is seen by its signal handlers.
#pragma once

#include <cxxabi.h>
#include <signal.h>

#include <exception>
#include <string_view>
#include <type_traits>

#include "trace/record/inject/process_recording.h"

namespace shardscope::inject {

// While one lives, its thread runs no signal handler and cannot be cancelled, and threads that are
// started take no signals: those of the program go to its own threads. A signal that a write of
// ours caused (nobody reads, the file grew too large) is taken back at the end.
class Undisturbed {
 public:
  Undisturbed();
  ~Undisturbed();
  Undisturbed(const Undisturbed&) = delete;
  Undisturbed& operator=(const Undisturbed&) = delete;

 private:
  sigset_t before_;
  sigset_t was_pending_;
  int cancel_state_ = 0;
};

// One line on stderr, if there is anybody to read it.
void Say(std::string_view text) noexcept;

// Calls `body`, as every function does that the program, CUDA, NVTX or NCCL calls: what it throws
// ends the recording of this process and goes no further. The result is then 0, null or nothing.
template <typename Body>
std::invoke_result_t<Body> Guarded(Body body) {
  try {
    return body();
  } catch (const abi::__forced_unwind&) {
    throw;  // no error: the program ends this thread
  } catch (const std::exception& error) {
    ProcessRecording::Fail(error.what());
  } catch (...) {
    ProcessRecording::Fail("an unknown exception");
  }
  return std::invoke_result_t<Body>();
}

// A function as a door: Door<&Function>::Call is the same, guarded.
template <auto kFunction>
struct Door;
template <typename Result, typename... Arguments, Result (*kFunction)(Arguments...)>
struct Door<kFunction> {
  static Result Call(Arguments... arguments) {
    return Guarded([&] { return kFunction(arguments...); });
  }
};

}  // namespace shardscope::inject
