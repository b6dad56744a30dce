#include "engine/runtime/measured_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "engine/model/model_config.h"
#include "engine/plan/activation_checkpointing.h"
#include "trace/base/units.h"

namespace shardscope::runtime {

void MeasuredKeys::Enter(const Regime& regime, bool link_changed) {
  if (ranks_.transport().capabilities().has_link) EnterLink(regime, link_changed);
  const bool by_budget =
      config::GetCheckpointing(regime.config).mode == plan::Checkpointing::kBudget;
  const MutexLock lock(segments_mutex_);
  if (!by_budget) {
    segments_.reset();
  } else if (segments_ == nullptr) {
    segments_ = std::make_unique<SegmentTimes>(regime.schedule->segments.size());
  }
}

// Units, and what their all-gathers send, are those of one Schedule.
void MeasuredKeys::EnterLink(const Regime& regime, bool link_changed) {
  const config::LinkBandwidth link = config::GetLinkBandwidth(regime.config);
  const int64_t latency_ns = regime.config.GetInt("link.latency");
  const MutexLock lock(bandwidth_mutex_);
  const bool is_of_other = bandwidth_ != nullptr && bandwidth_schedule_ != regime.schedule;
  if (!link_changed && !is_of_other) return;
  bandwidth_.reset();
  if (link.is_auto) {
    bandwidth_schedule_ = regime.schedule;
    bandwidth_ = std::make_unique<AutoBandwidth>(*regime.schedule,
                                                 AutoBandwidth::Link{link.auto_share, latency_ns});
  } else {
    ranks_.transport().SetLink(link.bytes_per_second, latency_ns);
  }
}

void MeasuredKeys::Add(int64_t step, const StepTimes& times) {
  AddToBandwidth(step, times);
  AddToSegments(step, times);
}

void MeasuredKeys::AddToBandwidth(int64_t step, const StepTimes& times) {
  std::unique_ptr<AutoBandwidth> found;
  {
    const MutexLock lock(bandwidth_mutex_);
    if (bandwidth_ == nullptr) return;
    bandwidth_->Add(step, times);
    if (!bandwidth_->IsReady(ranks_.size())) return;
    found = std::move(bandwidth_);
  }
  const std::optional<double> rate = found->BytesPerSecond();
  if (!rate) {
    listeners_.on_message(
        "link.bandwidth=auto: a block's all-gather sends nothing, or its latency alone is too "
        "long; the rate stays as it is");
    return;
  }
  const config::KeyInfo& key = *config::FindKey("link.bandwidth");
  const double allowed = std::clamp(*rate, key.minimum, key.maximum);
  const std::string text = fmt::format("{:.0f}kB/s", std::max(1.0, allowed / 1e3));
  if (!Take("link.bandwidth", text)) return;
  listeners_.on_message(
      fmt::format("link.bandwidth=auto: a block's forward takes {}, so the link gets {}",
                  FormatDuration(found->forward_ns()), FormatBandwidth(allowed)));
}

void MeasuredKeys::AddToSegments(int64_t step, const StepTimes& times) {
  std::unique_ptr<SegmentTimes> found;
  {
    const MutexLock lock(segments_mutex_);
    if (segments_ == nullptr) return;
    segments_->Add(step, times);
    if (!segments_->IsReady(ranks_.size())) return;
    found = std::move(segments_);
  }
  const plan::Policy policy = config::ToPolicy(listeners_.steering->config());
  // Changed meanwhile, and not taken up yet.
  if (policy.checkpointing.mode != plan::Checkpointing::kBudget) return;
  const Job& job = ranks_.job();
  const Result<std::vector<int32_t>> blocks = plan::BlocksToRecompute(
      model::DescribeModel(job.model, policy.units, job.training.batch), policy, found->Costs());
  if (!blocks.ok()) return listeners_.on_message(blocks.message());
  const std::string text =
      config::CheckpointingText({.mode = plan::Checkpointing::kBlocks, .blocks = *blocks});
  if (!Take("checkpointing", text)) return;
  listeners_.on_message(
      fmt::format("checkpointing=budget: by measured forwards {} of {} blocks are recomputed: {}",
                  blocks->size(), job.model.layers, text));
}

bool MeasuredKeys::Take(const std::string& key, const std::string& value) {
  const Status status = listeners_.steering->Change({{key, value}});
  if (!status.ok()) {
    listeners_.on_message(fmt::format("{}={}: {}", key, value, status.message()));
    return false;
  }
  // run.toml then says what a later run has to be given to be the same.
  const MutexLock lock(found_mutex_);
  found_[key] = value;
  config::Config written = config_;
  Status rewritten = written.SetAll(found_);
  if (rewritten.ok()) rewritten = listeners_.write_config(std::move(written));
  if (!rewritten.ok()) listeners_.on_message(rewritten.message());
  return true;
}

}  // namespace shardscope::runtime
