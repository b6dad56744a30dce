#include "trace/query/names.h"

#include <algorithm>
#include <array>

namespace shardscope::query {
namespace {

// In the order of the enums.
constexpr std::array<std::string_view, 5> kCategories = {"compute", "communication", "copy", "host",
                                                         "optimizer"};
constexpr std::array<std::string_view, 6> kTrackRoles = {
    "host", "compute", "copy", "all_gather", "reduce_scatter", "all_reduce"};
constexpr std::array<std::string_view, 3> kTruths = {"measured", "emulated", "projected"};
constexpr std::array<std::string_view, 7> kBlockingKinds = {
    "none", "event", "stream", "host", "stream_order", "communicator_order", "slot"};
constexpr std::array<std::string_view, kNumMemoryCategories> kMemoryCategories = {
    "parameter_shard", "unsharded_parameter", "gradient",  "gradient_shard", "communication_buffer",
    "optimizer",       "activation",          "temporary", "other"};
constexpr std::array<std::string_view, 3> kPauseCauses = {"user", "checkpoint", "change"};
constexpr std::array<std::string_view, 9> kOpClasses = {
    "forward",   "backward", "all_gather", "reduce_scatter", "all_reduce",
    "optimizer", "copy",     "host",       "bookkeeping"};

constexpr std::array<std::string_view, 4> kClockMethods = {"reference", "collectives",
                                                           "time_of_day", "unknown"};

constexpr std::array<std::string_view, 6> kSpanCategories = {"compute", "communication", "copy",
                                                             "host",    "optimizer",     "wait"};
constexpr std::array<std::string_view, 7> kGpuWorkKinds = {
    "kernel", "copy_to_device", "copy_to_host", "copy_on_device", "copy_to_peer", "copy", "set"};
constexpr std::array<std::string_view, 3> kGpuTimes = {"measured", "lost", "unfinished"};
constexpr std::array<std::string_view, 4> kChannelKinds = {"compute", "copy", "decompression", ""};

template <typename Enum, size_t N>
std::optional<Enum> Parse(const std::array<std::string_view, N>& words, std::string_view text) {
  const auto found = std::find(words.begin(), words.end(), text);
  if (found == words.end()) return std::nullopt;
  return static_cast<Enum>(found - words.begin());
}

}  // namespace

std::optional<Category> ParseCategory(std::string_view text) {
  return Parse<Category>(kCategories, text);
}
std::optional<TrackRole> ParseTrackRole(std::string_view text) {
  return Parse<TrackRole>(kTrackRoles, text);
}
std::optional<Truth> ParseTruth(std::string_view text) { return Parse<Truth>(kTruths, text); }
std::optional<BlockingKind> ParseBlockingKind(std::string_view text) {
  return Parse<BlockingKind>(kBlockingKinds, text);
}
std::optional<MemoryCategory> ParseMemoryCategory(std::string_view text) {
  if (text == "unattributed") return MemoryCategory::kOther;
  return Parse<MemoryCategory>(kMemoryCategories, text);
}
std::optional<PauseCause> ParsePauseCause(std::string_view text) {
  return Parse<PauseCause>(kPauseCauses, text);
}

std::optional<SpanCategory> ParseSpanCategory(std::string_view text) {
  return Parse<SpanCategory>(kSpanCategories, text);
}
std::optional<GpuWorkKind> ParseGpuWorkKind(std::string_view text) {
  return Parse<GpuWorkKind>(kGpuWorkKinds, text);
}
std::optional<GpuTimes> ParseGpuTimes(std::string_view text) {
  return Parse<GpuTimes>(kGpuTimes, text);
}
std::optional<ChannelKind> ParseChannelKind(std::string_view text) {
  return Parse<ChannelKind>(kChannelKinds, text);
}

OpClass OpClassOf(std::string_view kind, Category category) {
  if (kind == "reshard" || kind == "release" || kind == "control") return OpClass::kBookkeeping;
  switch (category) {
    case Category::kCompute:
      return kind == "backward" ? OpClass::kBackward : OpClass::kForward;
    case Category::kCommunication:
      if (kind == "reduce_scatter") return OpClass::kReduceScatter;
      return kind == "all_gather" ? OpClass::kAllGather : OpClass::kAllReduce;
    case Category::kCopy:
      return OpClass::kCopy;
    case Category::kOptimizer:
      return OpClass::kOptimizer;
    case Category::kHost:
      break;
  }
  return OpClass::kHost;
}

std::string_view Name(Category category) { return kCategories[static_cast<size_t>(category)]; }
std::string_view Name(TrackRole role) { return kTrackRoles[static_cast<size_t>(role)]; }
std::string_view Name(Truth truth) { return kTruths[static_cast<size_t>(truth)]; }
std::string_view Name(BlockingKind kind) { return kBlockingKinds[static_cast<size_t>(kind)]; }
std::string_view Name(MemoryCategory category) {
  return kMemoryCategories[static_cast<size_t>(category)];
}
std::string_view Name(PauseCause cause) { return kPauseCauses[static_cast<size_t>(cause)]; }
std::string_view Name(OpClass op_class) { return kOpClasses[static_cast<size_t>(op_class)]; }
std::string_view Name(GpuWorkKind kind) { return kGpuWorkKinds[static_cast<size_t>(kind)]; }
std::string_view Name(ClockMethod method) { return kClockMethods[static_cast<size_t>(method)]; }

}  // namespace shardscope::query
