#include "trace/record/inject/allocator_door.h"

#include <algorithm>
#include <atomic>
#include <mutex>

#include "trace/base/time.h"
#include "trace/record/inject/allocator_rows.h"
#include "trace/record/inject/process_recording.h"

namespace shardscope::inject {
namespace {

class Target final : public AllocatorTarget {
 public:
  explicit Target(ProcessRecording* recording) : recording_(recording) {}
  record::Recorder& recorder() override { return recording_->recorder(); }
  int64_t rank() const override { return recording_->rank(); }
  int64_t Name(std::string_view text) override { return recording_->Name(text); }
  int64_t ThreadTrack() override { return recording_->ThreadTrack(); }
  int64_t CounterTrack() override { return recording_->AddTrack("memory", "host"); }

 private:
  ProcessRecording* const recording_;
};

struct Allocator {
  explicit Allocator(ProcessRecording* to) : recording(to), target(to), rows(&target) {}
  ProcessRecording* recording;
  Target target;
  AllocatorRows rows;
};
// Set once, never destroyed: events may come until the process is gone.
std::atomic<Allocator*> allocator = nullptr;

void FinishRows() {
  Allocator* const one = allocator.load();
  one->rows.Finish(std::min(MonotonicNs(), one->recording->until_ns()));
  one->recording->CountLost("memory", "changes of PyTorch's allocator without an event of it",
                            one->rows.unexplained());
}

}  // namespace

void AddAllocatorEvent(const ShardscopeAllocatorEvent& event) {
  Allocator* to = allocator.load(std::memory_order_acquire);
  if (to == nullptr) {
    static std::once_flag once;
    std::call_once(once, [&] {
      ProcessRecording* const recording = ProcessRecording::Open();
      if (recording == nullptr) return;
      recording->SetAllocatorSince(event.time_ns);
      recording->AddAtEnd(&FinishRows);
      allocator.store(new Allocator(recording), std::memory_order_release);
    });
    to = allocator.load(std::memory_order_acquire);
  }
  // Null: this is a forked child, or the process ends.
  if (to == nullptr || ProcessRecording::Active() == nullptr) return;
  if (event.time_ns >= to->recording->until_ns()) return;
  to->rows.Add(event);
}

}  // namespace shardscope::inject
