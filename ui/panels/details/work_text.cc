#include "ui/panels/details/work_text.h"

#include <fmt/format.h>

#include <array>

#include "trace/base/time.h"
#include "trace/base/units.h"
#include "ui/values.h"

namespace shardscope::panels {
namespace {

using query::GpuTimes;
using query::GpuWorkKind;
using timeline::WorkFacts;
using ui::Text;

DetailRow Plain(const char* id, Text label, std::string value) {
  return {id, label, std::move(value), {}, ""};
}

DetailRow Number(const char* id, Text label, std::string value, int64_t number, const char* unit) {
  return {id, label, std::move(value), number, unit};
}

DetailRow Duration(const char* id, Text label, int64_t duration_ns) {
  return Number(id, label, ui::FormatDuration(duration_ns), duration_ns, "ns");
}

// In ms since the start of its step, of the run if it is of no step.
DetailRow Moment(const WorkFacts& facts, const char* id, Text label, int64_t time_ns) {
  const int64_t since_ns = time_ns - facts.step_start_ns;
  const double ms = static_cast<double>(since_ns) / static_cast<double>(kNsPerMs);
  return Number(id, label, fmt::format("{:.3f} ms", ms), since_ns, "ns");
}

std::string Size(const std::array<int32_t, 3>& size) {
  return fmt::format("{} × {} × {}", size[0], size[1], size[2]);
}

void AddShape(const WorkFacts& facts, std::vector<DetailRow>* rows) {
  const query::GpuWork& work = facts.work;
  rows->push_back(Plain("grid", Text::kWorkGrid, Size(work.grid)));
  rows->push_back(Plain("block", Text::kWorkBlock, Size(work.block)));
  if (work.cluster[0] > 0) {
    rows->push_back(Plain("cluster", Text::kWorkCluster, Size(work.cluster)));
  }
  rows->push_back(Number("registers", Text::kWorkRegisters, std::to_string(work.registers),
                         work.registers, ""));
  const int64_t shared = int64_t{work.static_shared_bytes} + work.dynamic_shared_bytes;
  rows->push_back(Number("shared_bytes", Text::kWorkShared, FormatBytes(shared), shared, "B"));
}

void AddWork(const WorkFacts& facts, std::vector<DetailRow>* rows) {
  const query::GpuWork& work = facts.work;
  if (!facts.op.empty()) {
    rows->push_back(Plain("op", Text::kWorkOp, facts.op));
    if (facts.op_run >= 0) rows->back().link = ui::SelectOp{facts.op_run, facts.rank};
  }
  if (!facts.launched_by.empty()) {
    rows->push_back(Moment(facts, "launched", Text::kWorkLaunched, work.launch_start_ns));
    rows->push_back(Plain("launched_by", Text::kWorkLaunchedBy, facts.launched_by));
  }
  rows->push_back(Moment(facts, "started", Text::kDetailsStarted, work.start_ns));
  rows->push_back(Duration("duration", Text::kDetailsDuration, work.end_ns - work.start_ns));
  if (!facts.launched_by.empty()) {
    rows->push_back(
        Duration("launch_delay", Text::kWorkDelay, work.start_ns - work.launch_start_ns));
  }
  if (facts.has_arrival) {
    rows->push_back(Duration("wait", Text::kWait, facts.wait_ns));
    rows->push_back(Duration("transfer", Text::kTransfer, facts.transfer_ns));
  }
  if (!facts.nccl.empty()) rows->push_back(Plain("nccl", Text::kWorkNccl, facts.nccl));
  if (work.kind == GpuWorkKind::kKernel) {
    AddShape(facts, rows);
  } else {
    rows->push_back(Number("bytes", Text::kWorkBytes, FormatBytes(work.bytes), work.bytes, "B"));
  }
  rows->push_back(Plain("stream", Text::kWorkStream, facts.track));
  if (work.channel_kind != query::ChannelKind::kUnknown) {
    rows->push_back(
        Number("channel", Text::kWorkChannel, std::to_string(work.channel), work.channel, ""));
    if (!facts.shares_channel_with.empty()) rows->back().tone = DetailRow::Tone::kBad;
  }
}

}  // namespace

std::vector<DetailRow> WorkRows(const WorkFacts& facts, ui::Language language) {
  static_cast<void>(language);  // values are numbers and names; labels are translated where drawn
  std::vector<DetailRow> rows;
  if (facts.kind == WorkFacts::Kind::kWork) AddWork(facts, &rows);
  if (facts.kind == WorkFacts::Kind::kRange) {
    rows.push_back(Moment(facts, "started", Text::kDetailsStarted, facts.range.start_ns));
    rows.push_back(Moment(facts, "ended", Text::kDetailsEnded, facts.range.end_ns));
    rows.push_back(
        Duration("duration", Text::kDetailsDuration, facts.range.end_ns - facts.range.start_ns));
    rows.push_back(Plain("thread", Text::kWorkThread, facts.track));
  }
  return rows;
}

std::string WorkMeaning(const WorkFacts& facts, ui::Language language) {
  if (facts.kind != WorkFacts::Kind::kWork) return "";
  const query::GpuWork& work = facts.work;
  if (work.times == GpuTimes::kLost) return ui::Tr(language, Text::kWorkTimesLost);
  if (work.times == GpuTimes::kUnfinished) return ui::Tr(language, Text::kWorkUnfinished);
  if (!facts.shares_channel_with.empty()) {
    return ui::TrFormat(language, Text::kWorkShares, facts.shares_channel_with);
  }
  if (facts.has_arrival && facts.wait_ns > facts.transfer_ns) {
    return ui::TrFormat(language, Text::kWorkWaited, ui::FormatDuration(facts.wait_ns),
                        facts.last_rank);
  }
  if (facts.launched_by.empty()) return ui::Tr(language, Text::kWorkNoLaunch);
  const int64_t delay_ns = work.start_ns - (work.launch_start_ns + work.launch_duration_ns);
  if (delay_ns > work.end_ns - work.start_ns) {
    return ui::TrFormat(language, Text::kWorkQueued, ui::FormatDuration(delay_ns));
  }
  return ui::Tr(language, Text::kWorkPrompt);
}

std::string WorkKindName(const WorkFacts& facts, ui::Language language) {
  if (facts.kind == WorkFacts::Kind::kRange) return ui::Tr(language, Text::kWorkRange);
  constexpr std::array<Text, 7> kNames = {Text::kWorkKernel,     Text::kWorkCopyToDevice,
                                          Text::kWorkCopyToHost, Text::kWorkCopyOnDevice,
                                          Text::kWorkCopyToPeer, Text::kWorkCopy,
                                          Text::kWorkSet};
  return ui::Tr(language, kNames[static_cast<size_t>(facts.work.kind)]);
}

}  // namespace shardscope::panels
