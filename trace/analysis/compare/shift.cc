#include "trace/analysis/compare/shift.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>

namespace shardscope::analysis {
namespace {

constexpr double kTail = 0.025;         // outside of the interval, on each side
constexpr double kTailNormal = 1.96;    // of a normal distribution
constexpr double kExactWays = 1 << 30;  // up to so many orders of the values are counted
constexpr int64_t kExactPairs = 100'000;

// How many of the differences b - a are at most `difference_ns`. Both are sorted.
int64_t CountUpTo(const std::vector<int64_t>& a, const std::vector<int64_t>& b,
                  int64_t difference_ns) {
  int64_t count = 0;
  size_t below = 0;  // values of b that are at most a + difference_ns
  for (const int64_t value : a) {
    while (below < b.size() && b[below] - value <= difference_ns) ++below;
    count += static_cast<int64_t>(below);
  }
  return count;
}

// The difference with `rank - 1` others before it, of which there may be 10^10: none is stored.
int64_t DifferenceAt(const std::vector<int64_t>& a, const std::vector<int64_t>& b, int64_t rank) {
  int64_t low = b.front() - a.back();
  int64_t high = b.back() - a.front();
  while (low < high) {
    const int64_t middle = std::midpoint(low, high);
    if (CountUpTo(a, b, middle) >= rank) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

// In how many ways n + m values of two kinds can stand in order.
double Ways(int64_t n, int64_t m) {
  double ways = 1;
  for (int64_t i = 1; i <= std::min(n, m); ++i) {
    ways *= static_cast<double>(std::max(n, m) + i) / static_cast<double>(i);
    if (ways > kExactWays) break;
  }
  return ways;
}

// How many of those ways have u pairs in the wrong order, for each u: the coefficients of the
// Gaussian binomial.
std::vector<double> WaysByPairs(int64_t n, int64_t m) {
  const auto size = static_cast<size_t>(n * m + 1);
  std::vector<double> ways(size);
  ways[0] = 1;
  for (int64_t i = 1; i <= n; ++i) {
    const auto factor = static_cast<size_t>(m + i);
    for (size_t u = size; u-- > factor;) ways[u] -= ways[u - factor];
    for (auto u = static_cast<size_t>(i); u < size; ++u)
      ways[u] += ways[u - static_cast<size_t>(i)];
  }
  return ways;
}

struct Ends {
  int64_t rank =
      1;  // of the lower end among the differences; the upper one is as far from the last
  double confidence = 0;
};

Ends ExactEnds(int64_t n, int64_t m) {
  const std::vector<double> ways = WaysByPairs(n, m);
  const double all = std::accumulate(ways.begin(), ways.end(), 0.0);
  Ends ends;
  double outside = ways[0];
  ends.confidence = 1 - 2 * outside / all;
  for (size_t u = 1; u < ways.size() && (outside + ways[u]) / all <= kTail; ++u) {
    outside += ways[u];
    ends.rank = static_cast<int64_t>(u) + 1;
    ends.confidence = 1 - 2 * outside / all;
  }
  return ends;
}

Ends NormalEnds(int64_t n, int64_t m) {
  const double pairs = static_cast<double>(n) * static_cast<double>(m);
  const double deviation = std::sqrt(pairs * static_cast<double>(n + m + 1) / 12);
  const auto rank = static_cast<int64_t>(std::floor(pairs / 2 - kTailNormal * deviation));
  return {.rank = std::max<int64_t>(rank, 1), .confidence = 1 - 2 * kTail};
}

}  // namespace

void Shift::Include(double difference_ns) {
  if (!known) return;
  low_ns = std::min(low_ns, static_cast<int64_t>(std::floor(difference_ns)));
  high_ns = std::max(high_ns, static_cast<int64_t>(std::ceil(difference_ns)));
}

Shift ShiftBetween(std::vector<int64_t> a, std::vector<int64_t> b) {
  Shift shift;
  if (a.size() < kLeastNoiseSteps || b.size() < kLeastNoiseSteps) return shift;
  std::sort(a.begin(), a.end());
  std::sort(b.begin(), b.end());
  const auto n = static_cast<int64_t>(a.size());
  const auto m = static_cast<int64_t>(b.size());
  const int64_t pairs = n * m;
  const bool exact = pairs <= kExactPairs && Ways(n, m) <= kExactWays;
  const Ends ends = exact ? ExactEnds(n, m) : NormalEnds(n, m);
  shift.known = true;
  shift.confidence = ends.confidence;
  shift.low_ns = DifferenceAt(a, b, ends.rank);
  shift.high_ns = DifferenceAt(a, b, pairs + 1 - ends.rank);
  shift.estimate_ns =
      std::midpoint(DifferenceAt(a, b, (pairs + 1) / 2), DifferenceAt(a, b, pairs / 2 + 1));
  return shift;
}

}  // namespace shardscope::analysis
