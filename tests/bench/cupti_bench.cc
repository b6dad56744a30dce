// What CUPTI's records cost to take in, without a GPU: the records of a dump
// (SHARDSCOPE_CUPTI_DUMP) again and again, each round later than the one before, as a training that
// goes on would give them. `cupti_bench DUMP ROUNDS` prints the processor time of a record, by
// stage, in the first and in the last tenth of the rounds.
#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "trace/record/cupti/decode.h"
#include "trace/record/cupti/dump.h"
#include "trace/record/cupti/joiner.h"

namespace {

using shardscope::cupti::Batch;
using shardscope::cupti::HostOp;

int64_t CpuNs() {
  timespec now = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return now.tv_sec * 1'000'000'000 + now.tv_nsec;
}

// By how much a round's records differ from those of the dump.
struct Shift {
  int64_t ns = 0;
  uint32_t correlation = 0;
  uint64_t recording = 0;
};

void MoveTimes(int64_t by, int64_t* start_ns, int64_t* end_ns) {
  *start_ns += by;
  *end_ns += by;
}

Batch Later(Batch batch, const Shift& shift) {
  const auto move = [&](auto& records) {
    for (auto& record : records) {
      MoveTimes(shift.ns, &record.start_ns, &record.end_ns);
      record.correlation += shift.correlation;
    }
  };
  move(batch.kernels);
  move(batch.calls);
  move(batch.copies);
  move(batch.waits);
  for (auto& copy : batch.copies) {
    if (copy.runtime_correlation != 0) copy.runtime_correlation += shift.correlation;
  }
  for (auto& wait : batch.waits) {
    if (wait.recording != shardscope::cupti::kNoRecording) wait.recording += shift.recording;
  }
  for (auto& event : batch.event_records) {
    event.correlation += shift.correlation;
    if (event.recording != shardscope::cupti::kNoRecording) event.recording += shift.recording;
  }
  return batch;
}

// Of the dump's records: by how much the next round has to differ.
struct Extent {
  int64_t first_ns = INT64_MAX;
  int64_t last_ns = 0;
  uint32_t correlation = 0;
  uint64_t recording = 0;

  void Add(const Batch& batch) {
    for (const auto& call : batch.calls) {
      first_ns = std::min(first_ns, call.start_ns);
      last_ns = std::max(last_ns, call.end_ns);
      correlation = std::max(correlation, call.correlation);
    }
    for (const auto& kernel : batch.kernels) last_ns = std::max(last_ns, kernel.end_ns);
    for (const auto& event : batch.event_records) {
      if (event.recording != shardscope::cupti::kNoRecording) {
        recording = std::max(recording, event.recording);
      }
    }
  }
};

// Ops of every eighth call, as a step of a training would have them. Keys are below 2^32.
std::vector<HostOp> OpsOf(const std::vector<Batch>& batches) {
  constexpr size_t kCallsOfAnOp = 8;
  std::map<uint32_t, std::vector<std::pair<int64_t, int64_t>>> calls;  // by thread
  for (const Batch& batch : batches) {
    for (const auto& call : batch.calls) {
      calls[call.thread].emplace_back(call.start_ns, call.end_ns);
    }
  }
  std::vector<HostOp> ops;
  for (auto& [thread, times] : calls) {
    std::sort(times.begin(), times.end());
    for (size_t first = 0; first < times.size(); first += kCallsOfAnOp) {
      const size_t last = std::min(first + kCallsOfAnOp, times.size()) - 1;
      ops.push_back({.key = static_cast<int64_t>(ops.size()),
                     .thread = thread,
                     .start_ns = times[first].first,
                     .end_ns = times[last].first + 1});
    }
  }
  return ops;
}

struct Costs {
  int64_t records = 0;
  int64_t ops = 0;
  int64_t add_ns = 0;
  int64_t take_ns = 0;
  int64_t peek_ns = 0;
};

double Each(int64_t ns, int64_t number) {
  return static_cast<double>(ns) / static_cast<double>(std::max<int64_t>(1, number));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    fmt::print(stderr, "usage: cupti_bench DUMP ROUNDS\n");
    return 2;
  }
  const auto functions = shardscope::cupti::LoadCupti();
  auto dump = shardscope::cupti::ReadBufferDump(argv[1]);
  if (!functions.ok() || !dump.ok()) {
    fmt::print(stderr, "cupti_bench: {}\n", functions.ok() ? dump.message() : functions.message());
    return 1;
  }
  shardscope::cupti::Names names(dump->resolver());
  std::vector<Batch> batches;
  int64_t records = 0;
  const int64_t decode_from_ns = CpuNs();
  for (auto& buffer : dump->buffers) {
    batches.emplace_back();
    const auto done =
        shardscope::cupti::Decode(*functions, buffer.data(), buffer.size, names, batches.back());
    records += done.decoded;
  }
  const int64_t decode_ns = CpuNs() - decode_from_ns;
  Extent extent;
  for (const Batch& batch : batches) extent.Add(batch);

  const int rounds = std::max(10, std::atoi(argv[2]));
  const int64_t round_ns = extent.last_ns - extent.first_ns + 1'000'000;
  const std::vector<HostOp> ops = OpsOf(batches);
  shardscope::cupti::Joiner joiner;
  std::vector<Costs> costs(10);
  int64_t works = 0;
  int64_t op_works = 0;
  for (int round = 0; round < rounds; ++round) {
    Costs& cost = costs[static_cast<size_t>(round) * 10 / static_cast<size_t>(rounds)];
    const auto number = static_cast<uint32_t>(round);
    const Shift shift{round * round_ns, number * (extent.correlation + 1),
                      number * (extent.recording + 1)};
    std::vector<int64_t> keys;
    for (HostOp op : ops) {
      op.key += int64_t{number} << 32;
      MoveTimes(shift.ns, &op.start_ns, &op.end_ns);
      keys.push_back(op.key);
      joiner.Add(op);
    }
    for (const Batch& batch : batches) {
      const Batch later = Later(batch, shift);
      const int64_t from_ns = CpuNs();
      joiner.Add(later);
      const int64_t added_ns = CpuNs();
      works += static_cast<int64_t>(
          joiner.Take(extent.first_ns + round * round_ns - 300'000'000).works.size());
      cost.take_ns += CpuNs() - added_ns;
      cost.add_ns += added_ns - from_ns;
    }
    const int64_t from_ns = CpuNs();
    (void)joiner.AreComplete(keys);  // asked for each time, too
    for (const auto& op : joiner.Peek(keys)) op_works += op.num_works;
    cost.peek_ns += CpuNs() - from_ns;
    cost.records += records;
    cost.ops += static_cast<int64_t>(keys.size());
  }
  const auto of = [&](const Costs& cost) {
    return fmt::format("{{\"add_ns\": {:.1f}, \"take_ns\": {:.1f}, \"peek_op_ns\": {:.1f}}}",
                       Each(cost.add_ns, cost.records), Each(cost.take_ns, cost.records),
                       Each(cost.peek_ns, cost.ops));
  };
  fmt::print(
      "{{\"records\": {}, \"seconds\": {:.1f}, \"works\": {}, \"op_works\": {}, "
      "\"decode_ns\": {:.1f}, \"first\": {}, \"last\": {}}}\n",
      records * rounds, static_cast<double>(rounds * round_ns) / 1e9, works, op_works,
      Each(decode_ns, records), of(costs.front()), of(costs.back()));
  return 0;
}
