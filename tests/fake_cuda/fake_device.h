// The fake GPU behind fake_runtime.h.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

#include "tests/fake_cuda/fake_runtime.h"
#include "trace/base/mutex.h"

namespace shardscope::cuda {

struct FakeStream;

// One recording of an event: what waits for it does not see later ones.
struct FakeRecording {
  FakeStream* stream = nullptr;
  bool is_done = false;
  int64_t done_ns = 0;
};

struct FakeEvent {
  std::shared_ptr<FakeRecording> last;  // null: never recorded
  unsigned flags = 0;
  int number = -1;  // once recorded
  bool is_destroyed = false;
};

// A piece of work, the end of a recording, or a wait for one.
struct FakeCommand {
  std::function<void()> work;
  std::shared_ptr<FakeRecording> record;
  std::shared_ptr<FakeRecording> wait;
};

struct FakeStream {
  std::string name;
  int priority = 0;
  bool is_fast = false;
  bool is_destroyed = false;
  std::deque<FakeCommand> queue;
};

// Every method but Instance() is called with `mutex` held.
class FakeDevice {
 public:
  static FakeDevice& Instance();
  ~FakeDevice();

  Mutex mutex;

  void Reset(const FakeOptions& options);
  // What every call does first: 0, or the code that it has to return at once.
  int Enter(const char* call);
  // cudaGetLastError: clears what it says, unless that is a fault.
  int TakeLastCode();

  FakeStream* MakeStream(int priority);
  int DestroyStream(FakeStream* stream);
  FakeEvent* MakeEvent(unsigned flags);
  int DestroyEvent(FakeEvent* event);

  int Record(FakeEvent* event, FakeStream* stream);
  int Wait(FakeStream* stream, FakeEvent* event);
  int Launch(FakeStream* stream, std::function<void()> work);
  int SynchronizeEvent(FakeEvent* event);
  int SynchronizeStream(FakeStream* stream);
  int Query(FakeEvent* event);
  int Elapsed(FakeEvent* start, FakeEvent* end, float* milliseconds);

  size_t LiveBytes() const;
  void* Allocate(size_t bytes);
  int Free(void* memory);
  // Complains unless all of it lies in one live allocation, or in none that this device ever made.
  void CheckRange(const void* memory, size_t bytes, const std::string& what);

  void Violate(const std::string& text);
  FakeCounts counts() const;
  std::string violations() const;
  std::string calls() const;
  const FakeOptions& options() const { return options_; }

 private:
  struct Block {
    size_t bytes = 0;
    bool is_live = false;
  };

  // Whether a stream or event is alive.
  bool IsKnown(const void* handle, const char* call);
  bool RunNext(FakeStream* stream);
  void RunUntil(const std::shared_ptr<FakeRecording>& recording);
  void RunFast();
  void Log(const std::string& text);

  FakeOptions options_;
  std::unordered_set<const void*> alive_;  // streams and events
  std::vector<std::unique_ptr<FakeStream>> streams_;
  std::vector<std::unique_ptr<FakeEvent>> events_;
  std::map<uintptr_t, Block> blocks_;  // freed ones too: their memory is kept, so that misuse shows
  std::map<std::string, int64_t> num_calls_;
  std::vector<std::string> violations_;
  std::vector<std::string> calls_;
  int num_recorded_events_ = 0;
  int64_t num_waits_ = 0;
  int64_t num_works_ = 0;
  int sticky_code_ = 0;
};

// The calling thread.
struct FakeThread {
  int name = 0;
  int num_streams = 0;
  int last_code = 0;  // what cudaGetLastError says: of the last call that did not succeed
};
FakeThread& ThisThread();

}  // namespace shardscope::cuda
