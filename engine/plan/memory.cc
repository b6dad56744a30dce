#include "engine/plan/memory.h"

#include <algorithm>

namespace shardscope::plan {
namespace {

class Ledger {
 public:
  void Add(const Buffer& buffer) {
    Change(buffer, 1);
    const size_t category = Index(buffer);
    peak_.total = std::max(peak_.total, now_.total);
    peak_.by_category[category] = std::max(peak_.by_category[category], now_.by_category[category]);
    peak_.transient = std::max(peak_.transient, now_.transient);
  }
  void Remove(const Buffer& buffer) { Change(buffer, -1); }
  const MemoryPeak& peak() const { return peak_; }

 private:
  static size_t Index(const Buffer& buffer) {
    return static_cast<size_t>(MemoryCategoryOf(buffer.kind));
  }
  void Change(const Buffer& buffer, int64_t sign) {
    const int64_t bytes = sign * buffer.bytes;
    const MemoryCategory category = MemoryCategoryOf(buffer.kind);
    now_.total += bytes;
    now_.by_category[Index(buffer)] += bytes;
    if (category == MemoryCategory::kUnshardedParameter ||
        category == MemoryCategory::kCommunicationBuffer) {
      now_.transient += bytes;
    }
  }

  MemoryPeak now_;
  MemoryPeak peak_;
};

MemoryPeak PeakOf(const Program& program) {
  Ledger ledger;
  for (const Buffer& buffer : program.buffers) {
    if (buffer.persistent) ledger.Add(buffer);
  }
  for (const Op& op : program.ops) {
    for (const BufferId id : op.allocates) ledger.Add(program.buffers[static_cast<size_t>(id)]);
    for (const BufferId id : op.frees) ledger.Remove(program.buffers[static_cast<size_t>(id)]);
  }
  return ledger.peak();
}

}  // namespace

MemoryPeak PredictPeak(const Schedule& schedule, int rank) {
  return PeakOf(schedule.ProgramOf(rank));
}

int64_t PredictLargestPeak(const Schedule& schedule) {
  int64_t largest = 0;
  for (const Program& program : schedule.programs) {
    largest = std::max(largest, PeakOf(program).total);
  }
  return largest;
}

}  // namespace shardscope::plan
