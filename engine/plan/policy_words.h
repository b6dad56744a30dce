// Words for what a Policy may choose: what keys of engine/config take, and parts of a Schedule's
// name. One table an enum, in the order in which the key lists them: the first is its default.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/plan/policy.h"
#include "trace/base/enum_count.h"

namespace shardscope::plan {

template <typename Choice>
struct PolicyWord {
  std::string_view text;
  Choice value;
};
template <typename Choice, size_t kCount>
using PolicyWords = std::array<PolicyWord<Choice>, kCount>;

// None: no value has that word.
template <typename Choice, size_t kCount>
constexpr std::optional<Choice> ValueOf(const PolicyWords<Choice, kCount>& words,
                                        std::string_view text) {
  const auto found = std::ranges::find(words, text, &PolicyWord<Choice>::text);
  if (found == words.end()) return std::nullopt;
  return found->value;
}

// Empty: the value has no word.
template <typename Choice, size_t kCount>
constexpr std::string_view WordOf(const PolicyWords<Choice, kCount>& words, Choice value) {
  const auto found = std::ranges::find(words, value, &PolicyWord<Choice>::value);
  return found == words.end() ? std::string_view() : found->text;
}

template <typename Choice, size_t kCount>
std::vector<std::string> TextsOf(const PolicyWords<Choice, kCount>& words) {
  std::vector<std::string> texts;
  for (const PolicyWord<Choice>& word : words) texts.emplace_back(word.text);
  return texts;
}

// Whether each value of the enum from `first` on has a word of its own.
template <typename Choice, size_t kCount>
constexpr bool IsComplete(const PolicyWords<Choice, kCount>& words, Choice first = Choice(0)) {
  for (auto at = static_cast<size_t>(first); at < kCountOf<Choice>; ++at) {
    const std::string_view text = WordOf(words, static_cast<Choice>(at));
    if (text.empty() || ValueOf(words, text) != static_cast<Choice>(at)) return false;
  }
  return kCount == kCountOf<Choice> - static_cast<size_t>(first);
}

inline constexpr PolicyWords<Preset, 3> kPresetWords = {{
    {"fsdp2", Preset::kFsdp2},
    {"fsdp1", Preset::kFsdp1},
    {"double_buffer", Preset::kDoubleBuffer},
}};
static_assert(IsComplete(kPresetWords));

inline constexpr PolicyWords<BackwardPrefetch, 3> kBackwardPrefetchWords = {{
    {"pre", BackwardPrefetch::kPre},
    {"post", BackwardPrefetch::kPost},
    {"none", BackwardPrefetch::kNone},
}};
static_assert(IsComplete(kBackwardPrefetchWords));

inline constexpr PolicyWords<GradientSync, 3> kGradientSyncWords = {{
    {"reduce", GradientSync::kReduce},
    {"no_sync", GradientSync::kNoSync},
    {"reduce_scatter_only", GradientSync::kReduceScatterOnly},
}};
static_assert(IsComplete(kGradientSyncWords));

// kOneByOne is what strategies do that overlap no stages, and no choice of the key.
inline constexpr PolicyWords<PipelineSchedule, 3> kPipelineScheduleWords = {{
    {"1f1b", PipelineSchedule::k1F1B},
    {"gpipe", PipelineSchedule::kGpipe},
    {"interleaved", PipelineSchedule::kInterleaved},
}};
static_assert(IsComplete(kPipelineScheduleWords, PipelineSchedule::kGpipe));

inline constexpr PolicyWords<Offload, 3> kOffloadWords = {{
    {"none", Offload::kNone},
    {"optimizer", Offload::kOptimizer},
    {"all", Offload::kAll},
}};
static_assert(IsComplete(kOffloadWords));

}  // namespace shardscope::plan
