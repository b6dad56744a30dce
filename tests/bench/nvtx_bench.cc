// Ranges of NVTX as a program makes them, timed by the program itself: it knows nothing of whoever
// records it. `nvtx_bench DELAY_MS BURSTS`: one range, a pause, then bursts of kRanges ranges with
// a pause between, as long as the trace's writer needs. Prints the nanoseconds of a range in the
// median burst.
#include <fmt/format.h>
#include <nvtx3/nvToolsExt.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <vector>

namespace {

constexpr int kRanges = 2000;
constexpr int kPauseUs = 20000;

// Of this thread: what others do to its core does not count.
int64_t CpuNs() {
  timespec now = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return now.tv_sec * 1'000'000'000 + now.tv_nsec;
}

// As many names as the ops of a model have.
const char* NameOf(int i) {
  static constexpr std::array kNames = {"forward",        "backward",  "all_gather",
                                        "reduce_scatter", "optimizer", "loss"};
  return kNames[static_cast<size_t>(i) % kNames.size()];
}

template <typename Range>
double MedianNs(int bursts, const Range& range) {
  std::vector<double> times;
  for (int burst = 0; burst < bursts; ++burst) {
    const int64_t start_ns = CpuNs();
    for (int i = 0; i < kRanges; ++i) range(NameOf(i));
    times.push_back(static_cast<double>(CpuNs() - start_ns) / kRanges);
    usleep(kPauseUs);
  }
  const auto middle = times.begin() + static_cast<ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

}  // namespace

int main(int argc, char** argv) {
  const int delay_ms = argc > 1 ? std::atoi(argv[1]) : 0;
  const int bursts = std::max(1, argc > 2 ? std::atoi(argv[2]) : 100);
  nvtxRangePushA("first");
  nvtxRangePop();
  usleep(static_cast<useconds_t>(delay_ms) * 1000);
  const double push_ns = MedianNs(bursts, [](const char* name) {
    nvtxRangePushA(name);
    nvtxRangePop();
  });
  const double start_ns =
      MedianNs(bursts, [](const char* name) { nvtxRangeEnd(nvtxRangeStartA(name)); });
  fmt::print("{{\"push_pop_ns\": {:.1f}, \"start_end_ns\": {:.1f}}}\n", push_ns, start_ns);
  return 0;
}
