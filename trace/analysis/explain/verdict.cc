#include "trace/analysis/explain/verdict.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "trace/base/text.h"
#include "trace/base/units.h"
#include "trace/base/words.h"

namespace shardscope::analysis {
namespace {

// What a loss is called and what helps. `title` and `first` are those of ui/catalogue/verdict.inc,
// too, and short: a line of the app has them. `first` is the short of `remedy`, which is PyTorch's;
// `knob` is this program's own.
struct LossWords {
  LossKind kind;
  Bound bound;
  std::string_view title;
  std::string_view first;
  std::string_view remedy;
  std::string_view knob;
};

constexpr std::array<LossWords, kNumLossKinds> kLossWords = {{
    {LossKind::kSlowRank, Bound::kRanks, "one rank holds up the others",
     "look at what that rank does there: data, clocks, other processes",
     "look at what that rank does there: its data loader, its inputs, clocks and temperature of "
     "its GPU, other processes beside it",
     ""},
    {LossKind::kUnevenRanks, Bound::kRanks, "ranks wait for one another in turn",
     "give all ranks equal work",
     "give ranks equal work: batches by length, one data loader setting, no work of rank 0 alone "
     "between steps",
     ""},
    {LossKind::kLateIssue, Bound::kCommunication, "collectives are issued late",
     "prefetch one unit further ahead",
     "issue them earlier: FSDP2 set_modules_to_forward_prefetch, set_modules_to_backward_prefetch; "
     "FSDP1 forward_prefetch=True, backward_prefetch=BACKWARD_PRE, limit_all_gathers=False; DDP a "
     "smaller bucket_cap_mb",
     "prefetch.forward, prefetch.backward, prefetch.backward_depth, prefetch.limit, "
     "host.run_ahead"},
    {LossKind::kQueued, Bound::kCommunication, "collectives queue up",
     "do not reshard after forward, or prefetch earlier",
     "prefetch earlier, gather less in backward (reshard_after_forward=False), or give gathers and "
     "reductions process groups of their own",
     "comm.communicators, reshard_after_forward"},
    {LossKind::kSlowTransfer, Bound::kCommunication, "transfers outlast compute",
     "send half of it, in bfloat16",
     "send less or compute more beside it: param_dtype=torch.bfloat16, reshard_after_forward=False "
     "(more memory), a 2-D mesh that shards within a node (HSDP), a larger batch per rank, or "
     "gradient accumulation",
     "precision.param, reshard_after_forward, strategy=hybrid"},
    {LossKind::kFirstGather, Bound::kCommunication, "first all-gathers are exposed",
     "keep the first unit small",
     "keep the first unit small, or do not reshard the root after forward (reshard_after_forward="
     "False on it)",
     ""},
    {LossKind::kTail, Bound::kCommunication, "last reductions are exposed",
     "reduce in bfloat16, or make the last units smaller",
     "make the units that backward reaches last smaller, reduce in bfloat16 (reduce_dtype), DDP: a "
     "smaller bucket_cap_mb",
     ""},
    {LossKind::kOnPath, Bound::kCommunication, "tensor parallelism blocks compute",
     "a smaller tensor-parallel degree",
     "a smaller tensor-parallel degree, or asynchronous tensor parallelism "
     "(torch._inductor.config._micro_pipeline_tp)",
     "mesh.tensor"},
    {LossKind::kCommunication, Bound::kCommunication, "communication is exposed",
     "look at what could compute beside it",
     "look at the timeline which compute could run beside it", ""},
    {LossKind::kBubble, Bound::kPipeline, "stages wait for one another", "more micro-batches",
     "more micro-batches (n_microbatches), or an interleaved schedule (ScheduleInterleaved1F1B, "
     "ScheduleZBVZeroBubble)",
     "train.micro_batches"},
    {LossKind::kSlot, Bound::kCores, "more ranks than cores", "fewer ranks on this machine",
     "fewer ranks, or a machine with more cores; GPUs do not share", "run.ranks"},
    {LossKind::kData, Bound::kHost, "steps begin without data", "more workers in the data loader",
     "DataLoader with num_workers, pin_memory=True and prefetch_factor; copies with "
     "non_blocking=True",
     ""},
    {LossKind::kHost, Bound::kHost, "compute is issued late",
     "more work per launch: larger batches, compiled graphs",
     "launch less: torch.compile(mode='reduce-overhead') or CUDA graphs, a larger batch per rank, "
     "no .item() or .cpu() within a step",
     ""},
    {LossKind::kCopy, Bound::kCopies, "copies stand alone", "pinned memory and non_blocking=True",
     "pinned memory and non_blocking=True for copies of data; fewer and larger units where they "
     "are copies of parameters",
     ""},
}};

const LossWords& WordsOf(LossKind kind) { return kLossWords[static_cast<size_t>(kind)]; }

static_assert([] {
  for (size_t i = 0; i < kLossWords.size(); ++i) {
    if (kLossWords[i].kind != LossKind(i)) return false;
  }
  return true;
}());

// Nothing that one can change: not a word, however much it is.
bool HasRemedy(LossKind kind) { return kind != LossKind::kFirstGather; }

// Where nothing is gathered, gradients are all that is sent.
constexpr std::string_view kSendLessOfGradients =
    "send less or compute more beside it: gradients in bfloat16 (DDP: the communication hook "
    "bf16_compress_hook), a larger batch per rank, or gradient accumulation (no_sync)";

// Gradients cannot be prefetched. Without a GPU the thread that computes waits for each reduction
// of FSDP itself (torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py: foreach_reduce()).
constexpr std::string_view kReduceLessOften =
    "on the CPU the thread that computes waits for each reduction itself: fewer and larger units "
    "(several layers in one fully_shard), gradient accumulation "
    "(set_requires_gradient_sync(False)), or GPUs, on which reductions run beside compute";
constexpr std::string_view kReduceEarlier =
    "reduce earlier: smaller units, of which each is reduced once its backward is done; DDP: a "
    "smaller bucket_cap_mb";
constexpr std::string_view kReduceEarlierHere =
    "reduce earlier: smaller buckets, of which each is reduced once it is full (strategy=ddp: "
    "ddp.bucket_cap, strategy=zero1 and zero2: zero.reduce_bucket_size)";

bool IsOfReductions(const Loss& loss) {
  if (loss.kind != LossKind::kLateIssue) return false;
  if (loss.ops.empty()) return false;
  const auto kind = words::ParseOpKind(loss.ops.front().collective_kind);
  return kind && words::TraitsOf(*kind).reduces;
}

constexpr std::string_view kLargerOps = "larger work per op: a larger batch or model, fewer units";

// Of our trainings, where PyTorch's ways are none: waiting for the host on a GPU, the others
// anywhere.
constexpr std::string_view kIssueLessHere =
    "larger work per op (train.batch, model.dim), fewer units, fewer ranks that share this GPU; "
    "record.steps, where recording itself takes the time";
constexpr std::string_view kReadLessHere = "a smaller train.batch, or data.path on a faster disk";
constexpr std::string_view kCopyLessHere =
    "fewer and larger units; reshard_after_forward=false, which copies parameters out once a step";
constexpr std::string_view kFewerUnits = "fewer and larger units";

RemedyCase CaseOf(const Loss& loss, const RunTraits& traits) {
  const bool is_of_size =
      loss.kind == LossKind::kSlowTransfer || (loss.kind == LossKind::kQueued && !traits.imported);
  if (is_of_size && !traits.gathers) return RemedyCase::kOfGradients;
  const bool is_of_buckets = loss.kind == LossKind::kLateIssue || loss.kind == LossKind::kTail;
  if (is_of_buckets && !traits.imported && !traits.gathers) return RemedyCase::kOfReductionsHere;
  if (traits.imported && IsOfReductions(loss)) {
    return traits.on_gpu ? RemedyCase::kOfReductions : RemedyCase::kOfReductionsOnCpu;
  }
  if (loss.kind == LossKind::kHost && !traits.on_gpu) return RemedyCase::kWithoutGpu;
  const bool has_ways_here =
      loss.kind == LossKind::kHost || loss.kind == LossKind::kData || loss.kind == LossKind::kCopy;
  if (has_ways_here && !traits.imported) {
    return loss.kind == LossKind::kCopy && !traits.gathers ? RemedyCase::kHereWhole
                                                           : RemedyCase::kHere;
  }
  return RemedyCase::kUsual;
}

std::string_view RemedyOf(LossKind kind, RemedyCase remedy_case) {
  switch (remedy_case) {
    case RemedyCase::kUsual:
      break;
    case RemedyCase::kOfGradients:
      return kSendLessOfGradients;
    case RemedyCase::kOfReductions:
      return kReduceEarlier;
    case RemedyCase::kOfReductionsOnCpu:
      return kReduceLessOften;
    case RemedyCase::kOfReductionsHere:
      return kReduceEarlierHere;
    case RemedyCase::kWithoutGpu:
      return kLargerOps;
    case RemedyCase::kHere:
      if (kind == LossKind::kHost) return kIssueLessHere;
      return kind == LossKind::kData ? kReadLessHere : kCopyLessHere;
    case RemedyCase::kHereWhole:
      return kFewerUnits;
  }
  return WordsOf(kind).remedy;
}

// Kind, case, remedy and knobs.
Advice AdviceOf(const Loss& loss, const RunTraits& traits) {
  Advice advice;
  advice.kind = loss.kind;
  advice.remedy_case = CaseOf(loss, traits);
  advice.remedy = RemedyOf(loss.kind, advice.remedy_case);
  if (traits.imported || advice.remedy_case != RemedyCase::kUsual) return advice;
  advice.knobs = WordsOf(loss.kind).knob;
  if (!advice.knobs.empty()) advice.remedy += fmt::format(" (here: {})", advice.knobs);
  return advice;
}

std::string FirstTry(const Loss& loss, const RunTraits& traits) {
  switch (CaseOf(loss, traits)) {
    case RemedyCase::kOfReductions:
      return "smaller units";
    case RemedyCase::kOfReductionsOnCpu:
      return "larger units";
    case RemedyCase::kOfReductionsHere:
      return "smaller buckets";
    case RemedyCase::kWithoutGpu:
      return std::string(kLargerOps);
    case RemedyCase::kHere:
      if (loss.kind == LossKind::kHost) return "larger work per op, fewer units";
      return loss.kind == LossKind::kData ? "a smaller batch" : std::string(kFewerUnits);
    case RemedyCase::kHereWhole:
      return std::string(kFewerUnits);
    case RemedyCase::kOfGradients:
      return std::string(WordsOf(LossKind::kSlowTransfer).first);
    case RemedyCase::kUsual:
      break;
  }
  return std::string(WordsOf(loss.kind).first);
}

std::string EvidenceOf(const Loss& loss, const Losses& losses) {
  const std::string per_step = FormatDuration(loss.ns_per_step) + " a step";
  if (loss.kind == LossKind::kSlowRank) {
    const std::string where =
        loss.stage.empty() ? "all over the step" : "most of it in " + loss.stage;
    return fmt::format("{}: rank {}, {}, worst in step {}", per_step, loss.rank, where, loss.step);
  }
  if (const double busy_ns = BusySlotNs(loss, losses); busy_ns > 0) {
    return fmt::format("{}, {} of it with communication or copies beside it", per_step,
                       FormatDuration(busy_ns));
  }
  std::vector<std::string> ops;
  if (loss.kind == LossKind::kSlowTransfer) {
    ops.push_back(fmt::format("{} of communication beside {} of compute",
                              FormatDuration(losses.communication_ns),
                              FormatDuration(losses.compute_ns)));
  }
  for (const StallGroup& group : loss.ops) {
    if (group.cause == StallCause::kSlot) continue;
    ops.push_back(fmt::format("{} ({})", group.title, FormatDuration(group.ns_per_step)));
  }
  if (ops.empty()) return per_step;
  return fmt::format("{}: {}; worst on rank {} in step {}", per_step, Join(ops, ", "), loss.rank,
                     loss.step);
}

// The dearest loss of a bound.
const Loss* DearestOf(const Losses& losses, Bound bound) {
  for (const Loss& loss : losses.losses) {
    if (BoundOf(loss.kind) == bound) return &loss;
  }
  return nullptr;
}

std::string WhatIsLost(Bound bound) {
  switch (bound) {
    case Bound::kCommunication:
      return "waiting for communication";
    case Bound::kRanks:
      return "waiting for other ranks";
    case Bound::kPipeline:
      return "pipeline bubble";
    case Bound::kHost:
      return "the device waiting for the host";
    case Bound::kCopies:
      return "copies that nothing hides";
    case Bound::kCores:
      return "ranks waiting for a core";
    case Bound::kCompute:
    case Bound::kUnknown:
      break;
  }
  return "";
}

// Without what a slow rank costs, which is in the others' waits already.
std::array<double, kNumBounds> LostBy(const Losses& losses) {
  std::array<double, kNumBounds> lost{};
  double slow_rank_ns = 0;
  for (const Loss& loss : losses.losses) {
    if (loss.kind == LossKind::kSlowRank) {
      slow_rank_ns = loss.ns_per_step;
    } else {
      lost[static_cast<size_t>(BoundOf(loss.kind))] += loss.ns_per_step;
    }
  }
  double& ranks_ns = lost[static_cast<size_t>(Bound::kRanks)];
  ranks_ns = std::max(ranks_ns, slow_rank_ns);
  return lost;
}

Verdict NothingToGain(const Losses& losses) {
  Verdict verdict;
  verdict.bound = Bound::kCompute;
  verdict.share = losses.step_ns > 0 ? losses.compute_ns / losses.step_ns : 0;
  if (losses.recomputed >= kLeastLoss) {
    verdict.recomputed = losses.recomputed;
    verdict.sentence = fmt::format(
        "Compute takes {} of the step, and nothing else more than {}; {} of the step computes "
        "again what activation checkpointing has not kept. First try: {}.",
        FormatPercent(verdict.share), FormatPercent(kLeastLoss), FormatPercent(verdict.recomputed),
        kTryRecomputingLess);
    return verdict;
  }
  verdict.sentence = fmt::format(
      "Compute takes {} of the step, and nothing else more than {}: there is nothing "
      "to gain here but faster compute.",
      FormatPercent(verdict.share), FormatPercent(kLeastLoss));
  return verdict;
}

}  // namespace

std::string_view Name(Bound bound) {
  static constexpr auto kNames = std::to_array<std::string_view>(
      {"unknown", "compute", "communication", "ranks", "pipeline", "host", "copies", "cores"});
  static_assert(kNames.size() == kNumBounds);
  return kNames[static_cast<size_t>(bound)];
}

Bound BoundOf(LossKind kind) { return WordsOf(kind).bound; }

double BusySlotNs(const Loss& loss, const Losses& losses) {
  if (loss.kind != LossKind::kSlot) return 0;
  const double busy_ns = loss.ns_per_step - losses.idle_slot_ns;
  return busy_ns < kLeastAdvice * losses.step_ns ? 0 : busy_ns;
}

std::vector<Advice> MakeAdvice(const Losses& losses, const RunTraits& traits) {
  std::vector<Advice> advice;
  double left_ns = losses.lost_ns;
  for (const Loss& loss : losses.losses) {
    if (advice.size() == kMostAdvice) break;
    const bool of_group = loss.kind == LossKind::kSlowRank;  // who waits for it waits for all of it
    const double saving_ns = std::min(loss.ns_per_step, of_group ? losses.most_lost_ns : left_ns);
    if (!HasRemedy(loss.kind) || saving_ns < kLeastAdvice * losses.step_ns) continue;
    // What the others wait for a slow rank is the same time once more.
    const bool told = std::ranges::any_of(advice, [&](const Advice& other) {
      return BoundOf(other.kind) == Bound::kRanks && BoundOf(loss.kind) == Bound::kRanks;
    });
    if (told) continue;
    Advice item = AdviceOf(loss, traits);
    item.title = WordsOf(loss.kind).title;
    if (loss.kind == LossKind::kSlowRank)
      item.title = fmt::format("rank {} holds up the others", loss.rank);
    item.title.front() = static_cast<char>(std::toupper(item.title.front()));
    item.evidence = EvidenceOf(loss, losses);
    item.saving_ns_per_step = saving_ns;
    item.rank = loss.rank;
    item.step = loss.step;
    advice.push_back(std::move(item));
    left_ns = std::max(0.0, left_ns - saving_ns);
  }
  return advice;
}

Verdict MakeVerdict(const Losses& losses, const RunTraits& traits) {
  Verdict verdict;
  if (losses.step_ns <= 0) {
    verdict.sentence = "No step is finished: there is nothing to judge yet.";
    return verdict;
  }
  const std::array<double, kNumBounds> lost = LostBy(losses);
  const auto most = std::max_element(lost.begin(), lost.end());
  if (*most < kLeastLoss * losses.step_ns) return NothingToGain(losses);
  verdict.bound = static_cast<Bound>(most - lost.begin());
  verdict.share = *most / losses.step_ns;
  const Loss* dearest = DearestOf(losses, verdict.bound);
  if (dearest->kind == LossKind::kSlowRank || BoundOf(dearest->kind) == Bound::kRanks) {
    for (const Loss& loss : losses.losses) {
      if (loss.kind == LossKind::kSlowRank) dearest = &loss;
    }
  }
  verdict.cause = dearest->kind;
  verdict.rank = dearest->rank;
  verdict.step = dearest->step;
  std::string reason(WordsOf(dearest->kind).title);
  if (dearest->kind == LossKind::kSlowRank)
    reason = fmt::format("rank {} holds up the others", dearest->rank);
  verdict.sentence = fmt::format("{} of the step is {}: {} ({}). First try: {}.",
                                 FormatPercent(verdict.share), WhatIsLost(verdict.bound), reason,
                                 EvidenceOf(*dearest, losses), FirstTry(*dearest, traits));
  return verdict;
}

}  // namespace shardscope::analysis
