// A training on GPUs in virtual time: a Schedule with the log of its ops, and the records that
// CUPTI would have made of it. Written as a trace by the real decoder, joiner, recorder and writer,
// so that figures of the trace can be held against closed forms, and the app has GPU lanes to show.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "engine/executor/execution_sink.h"
#include "engine/plan/policy.h"
#include "trace/record/cupti/functions.h"
#include "trace/record/cupti/joiner.h"

namespace shardscope::golden {

// How long things take. All of a kind take the same.
struct Costs {
  int64_t forward_ns = 4'000'000;  // of a segment; half of it for embedding and head
  int64_t backward_ns = 8'000'000;
  int64_t all_gather_ns = 3'000'000;
  int64_t reduce_scatter_ns = 3'500'000;
  int64_t copy_ns = 40'000;  // copy-in, copy-out, cast, accumulate
  int64_t optimizer_ns = 300'000;
  int64_t call_ns = 2'000;     // a call of the host
  int64_t latency_ns = 3'000;  // from a launch's end to the earliest start
};

struct ScenarioOptions {
  plan::Policy policy;  // num_ranks at most 100
  int blocks = 3;
  bool root_unit = true;
  int64_t steps = 2;
  Costs costs;
};

// An op run as its host and GPU saw it.
struct OpRun {
  int rank = 0;
  int64_t step = 0;
  plan::OpIndex op = 0;
  executor::OpTimes times;
  bool on_gpu = false;  // the GPU did work for it
};

struct StepRun {
  int rank = 0;
  int64_t step = 0;
  int64_t start_ns = 0;
  int64_t end_ns = 0;
};

struct IssuedOp {
  cupti::HostOp op;
  int rank = 0;
};

struct Scenario {
  std::unique_ptr<plan::Schedule> schedule;
  std::vector<OpRun> runs;
  std::vector<StepRun> steps;
  std::vector<IssuedOp> issued;
  std::vector<std::vector<uint64_t>> records;  // each one record of CUPTI, in words
  std::deque<std::string> names;               // of kernels, which records point to
};

// Ranks are symmetric, and threads of one process; every rank has a GPU. Op runs are keyed by
// KeyOf().
Scenario MakeScenario(const ScenarioOptions& options);

// The driver's two segments of each GPU: what the caching allocator divides, and what somebody else
// in the process took; and what of the GPU is in use besides, of which CUPTI says a part is its
// own.
struct DeviceBytes {
  int64_t allocator = 0;
  int64_t others = 0;
  int64_t context = 0;
  int64_t tracer = 0;  // of context
};
DeviceBytes DeviceBytesOf(const plan::Schedule& schedule);

int64_t KeyOf(int rank, int64_t step, plan::OpIndex op);
inline uint32_t ThreadOf(int rank) { return 4000 + static_cast<uint32_t>(rank); }
inline cupti::StreamId StreamOf(int rank, plan::StreamIndex stream) {
  return {1 + static_cast<uint32_t>(rank), 7 + static_cast<uint32_t>(stream)};
}

// How the records reach the decoder: null leaves them in order, in one buffer.
struct Delivery {
  std::mt19937_64* shuffle = nullptr;
  // Changes or loses records; null: none.
  std::function<void(std::vector<std::vector<uint64_t>>&)> damage;
};

// Writes the scenario as a finished trace into the existing `folder`.
Status WriteTrace(const Scenario& scenario, const cupti::CuptiFunctions& functions,
                  const std::string& folder, const Delivery& delivery = {});

}  // namespace shardscope::golden
