// Verdict: what bounds a run, in one sentence, and advice: what to change, in the words of PyTorch,
// with the most that it can save. Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "trace/analysis/explain/losses.h"
#include "trace/base/enum_count.h"

namespace shardscope::analysis {

// What losses have in common.
enum class Bound : uint8_t {
  kUnknown,  // no step is finished
  kCompute,  // nothing to gain elsewhere
  kCommunication,
  kRanks,  // waiting for one another
  kPipeline,
  kHost,
  kCopies,
  kCores,
};
inline constexpr size_t kNumBounds = kCountOf<Bound>;
// "unknown", "compute", "communication", ...
std::string_view Name(Bound bound);
Bound BoundOf(LossKind kind);

// What to try first where Verdict::recomputed is not 0.
inline constexpr std::string_view kTryRecomputingLess =
    "keep activations where memory allows it: checkpoint fewer blocks, or their products not";

// Below this share of the step nothing but compute bounds a run,
inline constexpr double kLeastLoss = 0.05;
// and what saves less is no advice.
inline constexpr double kLeastAdvice = 0.02;
inline constexpr size_t kMostAdvice = 3;

// What decides how advice is put.
struct RunTraits {
  bool imported = false;  // of another program: no knob of ours
  bool on_gpu = false;
  bool gathers =
      true;  // units before they are used (FSDP, ZeRO-3): gradients are not all that is sent
};

// What helps against a kind of loss, where that is not the usual.
enum class RemedyCase : uint8_t {
  kUsual,
  kOfGradients,   // kSlowTransfer, and kQueued of our trainings, where nothing is gathered
  kOfReductions,  // kLateIssue of reductions on a GPU
  kOfReductionsOnCpu,
  kOfReductionsHere,  // kLateIssue and kTail of our trainings that gather nothing
  kWithoutGpu,        // kHost
  kHere,              // kData, kHost, kCopy of a training of ours
  kHereWhole,         // kCopy of one that gathers nothing
};

struct Advice {
  LossKind kind = LossKind::kHost;
  RemedyCase remedy_case = RemedyCase::kUsual;
  std::string title;     // "All-gathers are issued late"
  std::string remedy;    // what to change
  std::string knobs;     // keys of this program that do it, as in `remedy`; empty: none
  std::string evidence;  // "12.3 ms a step: AG block1 -> F (rank 1, step 7), AG block2 -> F"
  double saving_ns_per_step = 0;  // at most
  int32_t rank = -1;              // of the worst case; -1: none
  int32_t step = -1;
};

struct Verdict {
  Bound bound = Bound::kUnknown;
  LossKind cause = LossKind::kHost;  // the dearest of that bound, unless it is kUnknown or kCompute
  double share = 0;                  // of the step; of kCompute what computes
  double recomputed = 0;  // of kCompute, if it is worth a word: Losses::recomputed; else 0
  int32_t rank = -1;      // of the worst case, or the slow one; -1: none
  int32_t step = -1;
  std::string sentence;  // what, how much, why, what to try first
};

// Of a loss of kSlot what is not idle, as communication or copies run beside it; 0: too little for
// a word.
double BusySlotNs(const Loss& loss, const Losses& losses);

// Dearest first, at most kMostAdvice; what is saved by all of it is at most what is lost. None:
// there is nothing to say.
std::vector<Advice> MakeAdvice(const Losses& losses, const RunTraits& traits);

// The same run gives the same bound: losses of one bound are added up before they are compared.
Verdict MakeVerdict(const Losses& losses, const RunTraits& traits);

}  // namespace shardscope::analysis
