#include "trace/record/inject/allocator/allocator_door.h"

#include <atomic>
#include <memory>
#include <mutex>

#include "trace/record/inject/allocator/allocator_rows.h"
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
  explicit Allocator(ProcessRecording* to) : target(to), rows(&target) {}
  Target target;
  AllocatorRows rows;
};
// Set once, never destroyed: events may come until the process is gone.
std::atomic<Allocator*> allocator = nullptr;

void FinishRows(ProcessRecording& recording) {
  Allocator* const one = allocator.load();
  if (one == nullptr) return;  // the process ends just as the first event comes
  one->rows.Finish(recording.EndNs());
  recording.CountLost("memory", "changes of PyTorch's allocator without an event of it",
                      one->rows.unexplained());
}

}  // namespace

void AddAllocatorEvent(const ShardscopeAllocatorEvent& event) {
  // Null: this is a forked child, or the process ends.
  ProcessRecording* const recording = ProcessRecording::Open();
  if (recording == nullptr || event.time_ns >= recording->until_ns()) return;
  Allocator* to = allocator.load(std::memory_order_acquire);
  if (to == nullptr) {
    static std::once_flag once;
    std::call_once(once, [&] {
      auto added = std::make_unique<Allocator>(recording);
      recording->AddAtEnd(&FinishRows);
      recording->SetAllocatorSince(event.time_ns);
      allocator.store(added.release(), std::memory_order_release);
    });
    to = allocator.load(std::memory_order_acquire);
  }
  to->rows.Add(event);
}

}  // namespace shardscope::inject
