// What keeps this library out of the way of the program that it is loaded into: it does not end
// that program, throws nothing into it, and none of its signal handlers runs because of it.
#pragma once

#include <cxxabi.h>
#include <signal.h>

#include <exception>
#include <string_view>
#include <type_traits>

#include "trace/record/inject/process_recording.h"

namespace shardscope::inject {

// While one lives, its thread cannot be cancelled and is not ended by a write of ours: the signal
// of such a write (a pipe without a reader, a file that grew too large) is taken back at the end.
class QuietWrites {
 public:
  QuietWrites();
  ~QuietWrites();
  QuietWrites(const QuietWrites&) = delete;
  QuietWrites& operator=(const QuietWrites&) = delete;

 protected:
  // All signals, not only those.
  void BlockAll();

 private:
  sigset_t before_;
  sigset_t was_pending_;
  int cancel_state_ = 0;
};

// For what takes no time: its thread runs no signal handler at all, and threads that are started
// take no signals: those of the program go to its own threads.
class Undisturbed : public QuietWrites {
 public:
  Undisturbed() { BlockAll(); }
};

// One line on stderr, if stderr is open.
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

// A function as a hook: Hook<&Function>::Call is the same, guarded.
template <auto kFunction>
struct Hook;
template <typename Result, typename... Arguments, Result (*kFunction)(Arguments...)>
struct Hook<kFunction> {
  static Result Call(Arguments... arguments) {
    return Guarded([&] { return kFunction(arguments...); });
  }
};

}  // namespace shardscope::inject
