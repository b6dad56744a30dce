#include "ui/panels/details/details_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "trace/analysis/from_start.h"
#include "trace/analysis/names.h"
#include "trace/base/enum_count.h"
#include "trace/base/not_ended.h"
#include "trace/base/units.h"
#include "ui/panels/details/detail_terms.h"
#include "ui/panels/details/stall_texts.h"
#include "ui/values.h"

namespace shardscope::panels {
namespace {

using analysis::StallCause;
using query::OpClass;
using timeline::OpFacts;
using ui::Text;

class RowList {
 public:
  RowList(const OpFacts& facts, ui::Language language) : facts_(facts), language_(language) {}

  // A moment, in ms since the start of the op's step.
  void Moment(const char* id, ui::Term label, int64_t time_ns, const std::string& suffix = "") {
    const int64_t since_ns = time_ns - facts_.step_start_ns;
    rows_.push_back({id, label, analysis::ExactMs(since_ns) + " ms" + suffix, since_ns, "ns"});
  }
  void Duration(const char* id, ui::Term label, int64_t duration_ns) {
    rows_.push_back({id, label, ui::FormatDuration(duration_ns), duration_ns, "ns"});
  }
  void Plain(const std::string& id, ui::Term label, const std::string& value) {
    rows_.push_back({id, label, value, {}, ""});
  }
  DetailRow& last() { return rows_.back(); }
  ui::Language language() const { return language_; }
  std::vector<DetailRow> Take() { return std::move(rows_); }

 private:
  const OpFacts& facts_;
  ui::Language language_;
  std::vector<DetailRow> rows_;
};

void AddSlack(const OpFacts& facts, RowList* rows) {
  if (!facts.slack.found) return;
  // Not when it was used: where compute waited for it, that is after it came.
  rows->Moment("first_use", kTermFirstWanted, facts.slack.first_use_ns);
  rows->Duration("slack", kTermSlack, facts.slack.slack_ns);
  DetailRow& row = rows->last();
  if (facts.slack.slack_ns > 0) row.value = "+" + row.value;
  row.tone = facts.slack.slack_ns < 0 ? DetailRow::Tone::kBad : DetailRow::Tone::kGood;
}

void AddArrival(const OpFacts& facts, const analysis::Arrival& arrival, ui::Term label,
                RowList* rows) {
  std::string value = ui::TrFormat(rows->language(), Text::kRankN, arrival.rank);
  if (arrival.after_first_ns > 0) value += " +" + ui::FormatDuration(arrival.after_first_ns);
  rows->Plain(fmt::format("arrival:{}", arrival.rank), label, value);
  rows->last().number = arrival.after_first_ns;
  rows->last().unit = "ns";
  if (arrival.op_run == facts.run.id) return;
  rows->last().link = ui::SelectOp{arrival.op_run, arrival.rank, false, true};
}

// Who came when, the latest first: they are what the others wait for. Of many only these, how many
// came between, and the first.
void AddArrivals(const OpFacts& facts, RowList* rows) {
  constexpr size_t kMostArrivals = 8;
  const std::vector<analysis::Arrival>& arrivals = facts.arrivals;
  if (arrivals.size() < 2) return;
  const size_t last = arrivals.size() - 1;
  const size_t listed = std::min(kMostArrivals - 1, last);  // beside the first
  for (size_t i = 0; i < listed; ++i) {
    AddArrival(facts, arrivals[last - i], i == 0 ? kTermCameLast : kTermCameBefore, rows);
  }
  if (listed < last) {
    rows->Plain("arrivals_more", kTermCameBefore,
                ui::TrFormat(rows->language(), Text::kDetailsMoreArrivals, last - listed));
  }
  AddArrival(facts, arrivals.front(), kTermFirstArrived, rows);
}

void AddCollective(const OpFacts& facts, RowList* rows) {
  const analysis::CollectiveRun& run = *facts.collective;
  const std::string last_rank =
      run.last_rank < 0 ? "" : " " + ui::TrFormat(rows->language(), Text::kRankN, run.last_rank);
  rows->Moment("last_arrived", kTermLastArrived, run.last_arrival_ns, last_rank);
  rows->Moment("ended", kTermEnded, facts.run.ended_ns);
  AddSlack(facts, rows);
  rows->Duration("wait", kTermWait, run.wait_ns);
  rows->Duration("transfer", kTermTransfer, run.transfer_ns);
  // Some traces do not tell how much (Gloo's collectives in a torch.profiler's).
  rows->Plain("payload_wire", kTermPayloadWire,
              run.payload_bytes <= 0
                  ? "\u2013"
                  : FormatBytes(run.payload_bytes) + " / " + FormatBytes(run.wire_bytes));
  if (run.bus_bandwidth > 0) {
    rows->Plain("bus_bandwidth", kTermBusBandwidth, FormatBandwidth(run.bus_bandwidth));
    rows->last().number = run.bus_bandwidth;
    rows->last().unit = "B/s";
  }
  if (!facts.hidden_under.empty()) {
    rows->Plain("hidden_under", kTermHiddenUnder, facts.hidden_under);
  }
  rows->Plain("sequence", kTermSequence, fmt::format("{} · #{}", facts.communicator, run.sequence));
  AddArrivals(facts, rows);
}

void AddCompute(const OpFacts& facts, RowList* rows) {
  rows->Moment("ended", kTermEnded, facts.run.ended_ns);
  rows->Duration("duration", kTermDuration, facts.run.ended_ns - facts.run.started_ns);
  if (!facts.waited_for.empty()) {
    rows->Plain("waited_for", kTermBlockedBy, facts.waited_for);
  }
  if (facts.stall) {
    rows->Duration("stall", kTermStall, facts.stall->stall_ns);
    rows->last().tone = DetailRow::Tone::kBad;
  }
  // Programs that are not ours tell neither.
  if (facts.run.slot_wait_ns == 0 && facts.run.cpu_ns == 0) return;
  rows->Duration("slot_wait", kTermSlotWait, facts.run.slot_wait_ns);
  rows->Duration("cpu", kTermCpuTime, facts.run.cpu_ns);
}

Text RemedyOf(const OpFacts& facts) {
  const analysis::Stall& stall = *facts.stall;
  // No op that it waited for: then no knob makes the host earlier.
  if (stall.cause == StallCause::kIssuedLate && stall.cause_object.empty()) {
    return Text::kRemedyHostLate;
  }
  if (stall.cause == StallCause::kSlowTransfer && facts.has_half_parameters) {
    return Text::kRemedySlowHalfTransfer;
  }
  return StallTextsOf(stall.cause).remedy;
}

// "B block1.mlp" from the recorded name of the op that waited.
std::string WaitingName(const OpFacts& facts) {
  return facts.first_use.empty() ? facts.stall->op_name : facts.first_use;
}

std::string StallMeaning(const OpFacts& facts, ui::Language language) {
  const std::string sentence = ui::StallSentence(language, *facts.stall);
  const std::string duration = ui::FormatDuration(facts.stall->stall_ns);
  const std::string fact =
      facts.is_collective()
          ? ui::TrFormat(language, Text::kDetailsStalled, WaitingName(facts), duration, sentence)
          : ui::TrFormat(language, Text::kDetailsOpStalled, duration, sentence);
  return fact + " " + ui::Tr(language, RemedyOf(facts));
}

// Copies between compute ops leave gaps of some microseconds; they are not what exposes anything.
constexpr double kFullyHidden = 0.95;

double HiddenShare(const OpFacts& facts) {
  const int64_t duration_ns = std::max<int64_t>(facts.run.ended_ns - facts.run.started_ns, 1);
  return std::min(static_cast<double>(facts.hidden_ns) / static_cast<double>(duration_ns), 1.0);
}

std::string CollectiveMeaning(const OpFacts& facts, ui::Language language) {
  if (facts.slack.found && facts.slack.slack_ns >= 0) {
    const double factor = timeline::LinkHeadroom(facts);
    const std::string slack = ui::FormatDuration(facts.slack.slack_ns);
    if (HiddenShare(facts) < kFullyHidden) {
      return ui::TrFormat(language, Text::kDetailsEarlyExposed, slack,
                          FormatPercent(HiddenShare(facts)));
    }
    if (facts.hidden_under.empty() || factor <= 0) {
      return ui::TrFormat(language, Text::kDetailsHidden, slack);
    }
    return ui::TrFormat(language, Text::kDetailsHiddenFactor, facts.hidden_under, slack,
                        fmt::format("{:.1f}", factor));
  }
  if (facts.hidden_ns <= 0) return ui::Tr(language, Text::kDetailsNotHidden);
  return ui::TrFormat(language, Text::kDetailsPartlyHidden, FormatPercent(HiddenShare(facts)),
                      facts.hidden_under);
}

using timeline::StreamWait;
using ui::Text;

constexpr size_t kMostRows = 4;

DetailRow RowOf(const StreamWait& wait, ui::Language language) {
  const timeline::WaitEnd& other = wait.incoming ? wait.from : wait.to;
  DetailRow row{wait.incoming ? "waited_event" : "awaited_event",
                wait.incoming ? kTermWaitIncoming : kTermWaitOutgoing,
                other.name,
                {},
                ""};
  if (wait.differs()) {
    const bool extra = wait.verdict == StreamWait::Verdict::kExtra;
    row.value = ui::TrFormat(language, extra ? Text::kWaitExtra : Text::kWaitMissing, other.name);
    row.tone = DetailRow::Tone::kBad;
  }
  if (!other.was_recorded()) return row;
  if (other.is_op) {
    row.link = ui::SelectOp{other.op_run, other.rank};
  } else {
    row.link = ui::SelectSpan{other.span, other.rank};
  }
  return row;
}

using query::GpuTimes;
using query::GpuWorkKind;
using timeline::WorkFacts;
using ui::Text;

DetailRow Plain(const char* id, ui::Term label, std::string value) {
  return {id, label, std::move(value), {}, ""};
}

DetailRow NumberRow(const char* id, ui::Term label, std::string value, int64_t number,
                    const char* unit) {
  return {id, label, std::move(value), number, unit};
}

DetailRow Duration(const char* id, ui::Term label, int64_t duration_ns) {
  return NumberRow(id, label, ui::FormatDuration(duration_ns), duration_ns, "ns");
}

// In ms since the start of its step, of the run if it is of no step.
DetailRow Moment(const WorkFacts& facts, const char* id, ui::Term label, int64_t time_ns) {
  const int64_t since_ns = time_ns - facts.step_start_ns;
  return NumberRow(id, label, analysis::ExactMs(since_ns) + " ms", since_ns, "ns");
}

std::string Size(const std::array<int32_t, 3>& size) {
  return fmt::format("{} × {} × {}", size[0], size[1], size[2]);
}

void AddShape(const WorkFacts& facts, std::vector<DetailRow>* rows) {
  const query::GpuWork& work = facts.work;
  if (work.grid[0] == 0) return;  // an import whose profiler has recorded none
  rows->push_back(Plain("grid", kTermGrid, Size(work.grid)));
  rows->push_back(Plain("block", kTermBlock, Size(work.block)));
  if (work.cluster[0] > 0) {
    rows->push_back(Plain("cluster", kTermCluster, Size(work.cluster)));
  }
  rows->push_back(
      NumberRow("registers", kTermRegisters, std::to_string(work.registers), work.registers, ""));
  const int64_t shared = int64_t{work.static_shared_bytes} + work.dynamic_shared_bytes;
  rows->push_back(NumberRow("shared_bytes", kTermShared, FormatBytes(shared), shared, "B"));
}

void AddRange(const WorkFacts& facts, ui::Language language, std::vector<DetailRow>* rows) {
  constexpr ui::Term kTermAskedFor = {Text::kDetailsAskedFor, Text::kDetailsAskedForTip};
  if (facts.is_not_begun) {
    DetailRow row = Moment(facts, "asked_for", kTermAskedFor, facts.range.start_ns);
    row.value = ui::TrFormat(language, Text::kDetailsNotBegun, row.value);
    rows->push_back(std::move(row));
    return;
  }
  rows->push_back(Moment(facts, "started", kTermStarted, facts.range.start_ns));
  if (IsNotEnded(facts.name)) {
    rows->push_back(Plain("ended", kTermEnded, ui::Tr(language, Text::kDetailsEndNotSeen)));
  } else {
    rows->push_back(Moment(facts, "ended", kTermEnded, facts.range.end_ns));
    rows->push_back(Duration("duration", kTermDuration, facts.range.end_ns - facts.range.start_ns));
  }
}

void AddWork(const WorkFacts& facts, std::vector<DetailRow>* rows) {
  const query::GpuWork& work = facts.work;
  if (!facts.op.empty()) {
    rows->push_back(Plain("op", kTermOp, facts.op));
    if (!facts.op_run.is_none()) rows->back().link = ui::SelectOp{facts.op_run, facts.rank};
  }
  if (!facts.launched_by.empty()) {
    rows->push_back(Moment(facts, "launched", kTermLaunched, work.launch_start_ns));
    rows->push_back(Plain("launched_by", kTermLaunchedBy, facts.launched_by));
  }
  rows->push_back(Moment(facts, "started", kTermStarted, work.start_ns));
  rows->push_back(Duration("duration", kTermDuration, work.end_ns - work.start_ns));
  if (!facts.launched_by.empty()) {
    rows->push_back(Duration("launch_delay", kTermDelay, work.start_ns - work.launch_start_ns));
  }
  if (facts.has_arrival) {
    rows->push_back(Duration("wait", kTermWait, facts.wait_ns));
    rows->push_back(Duration("transfer", kTermTransfer, facts.transfer_ns));
  }
  if (!facts.nccl.empty()) rows->push_back(Plain("nccl", kTermNccl, facts.nccl));
  if (work.kind == GpuWorkKind::kKernel) {
    AddShape(facts, rows);
  } else {
    rows->push_back(NumberRow("bytes", kTermBytes, FormatBytes(work.bytes), work.bytes, "B"));
  }
  rows->push_back(Plain("stream", kTermStream, facts.track));
  if (work.channel_kind != query::ChannelKind::kUnknown) {
    rows->push_back(
        NumberRow("channel", kTermChannel, std::to_string(work.channel), work.channel, ""));
    if (!facts.shares_channel_with.empty()) rows->back().tone = DetailRow::Tone::kBad;
  }
}

std::string Meaning(const OpFacts& facts, ui::Language language) {
  if (!facts.found) return "";
  if (facts.stall) return StallMeaning(facts, language);
  if (facts.is_collective()) return CollectiveMeaning(facts, language);
  if (facts.run.slot_wait_ns > 0) {
    return ui::TrFormat(language, Text::kDetailsSlotWaited,
                        ui::FormatDuration(facts.run.slot_wait_ns)) +
           " " + ui::Tr(language, Text::kRemedySlot);
  }
  return ui::Tr(language, Text::kDetailsNoStall);
}

// What a bucket, or another unit, holds.
std::string Carried(const std::vector<std::string>& parameters, ui::Language language) {
  if (parameters.empty()) return "";
  if (parameters.size() == 1) {
    return " " + ui::TrFormat(language, Text::kDetailsCarriesOne, parameters.front());
  }
  return " " + ui::TrFormat(language, Text::kDetailsCarries, parameters.size(), parameters.front(),
                            parameters.back());
}

}  // namespace

std::vector<DetailRow> DetailRows(const OpFacts& facts, ui::Language language) {
  RowList rows(facts, language);
  rows.Moment("issued", kTermIssued, facts.run.issued_ns);
  rows.Moment("ready", kTermReady, facts.run.ready_ns);
  rows.Moment("started", kTermStarted, facts.run.started_ns);
  if (facts.is_collective()) {
    AddCollective(facts, &rows);
  } else {
    AddCompute(facts, &rows);
  }
  return rows.Take();
}

std::string DetailTitle(const query::PlanOp& op) {
  std::string title = op.kind;
  const std::string& object = op.segment.empty() ? op.unit : op.segment;
  if (!object.empty()) title += " " + object;
  const std::string_view letter = analysis::PhaseLetter(op);
  if (!letter.empty()) title += " " + std::string(letter);
  if (op.micro_batch > 0) title += " m" + std::to_string(op.micro_batch);
  return title;
}

std::string DetailMeaning(const OpFacts& facts, ui::Language language) {
  return Meaning(facts, language) + Carried(facts.parameters, language);
}

std::vector<DetailRow> WaitRows(const std::vector<StreamWait>& waits, ui::Language language) {
  std::vector<StreamWait> ordered = waits;
  std::stable_sort(ordered.begin(), ordered.end(), [](const StreamWait& a, const StreamWait& b) {
    return std::pair(!a.differs(), !a.incoming) < std::pair(!b.differs(), !b.incoming);
  });
  std::vector<DetailRow> rows;
  for (size_t at = 0; at < std::min(kMostRows, ordered.size()); ++at) {
    rows.push_back(RowOf(ordered[at], language));
  }
  return rows;
}

std::string WaitMeaning(const std::vector<StreamWait>& waits, ui::Language language) {
  const auto differs = std::find_if(waits.begin(), waits.end(),
                                    [](const StreamWait& wait) { return wait.differs(); });
  if (differs == waits.end()) return "";
  const bool extra = differs->verdict == StreamWait::Verdict::kExtra;
  return ui::TrFormat(language, extra ? Text::kWaitExtraMeaning : Text::kWaitMissingMeaning,
                      differs->to.name, differs->from.name);
}

std::vector<DetailRow> WorkRows(const WorkFacts& facts, ui::Language language) {
  std::vector<DetailRow> rows;
  if (facts.kind == WorkFacts::Kind::kWork) AddWork(facts, &rows);
  if (facts.kind == WorkFacts::Kind::kRange) {
    AddRange(facts, language, &rows);
    rows.push_back(Plain("thread", kTermThread, ui::TrackText(language, facts.track)));
  }
  return rows;
}

std::string WorkMeaning(const WorkFacts& facts, ui::Language language) {
  if (facts.is_not_begun) return ui::Tr(language, Text::kRangeNotBegun);
  if (facts.kind == WorkFacts::Kind::kRange && IsNotEnded(facts.name)) {
    return ui::Tr(language, Text::kRangeNotEnded);
  }
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
  constexpr std::array kNames = {Text::kWorkKernel,     Text::kWorkCopyToDevice,
                                 Text::kWorkCopyToHost, Text::kWorkCopyOnDevice,
                                 Text::kWorkCopyToPeer, Text::kWorkCopy,
                                 Text::kWorkSet};
  static_assert(kNames.size() == kCountOf<query::GpuWorkKind>);
  return ui::Tr(language, kNames[static_cast<size_t>(facts.work.kind)]);
}

}  // namespace shardscope::panels
