#include "ui/panels/sql/row_target.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>
#include <string_view>

#include "ui/panel_ids.h"
#include "ui/timeline/link_place.h"

namespace shardscope::panels {
namespace {

// Around what is shown, as a share of it.
constexpr double kMargin = 0.4;
constexpr int64_t kLeastNs = 1000;  // of a moment

class SelectedRow {
 public:
  SelectedRow(const std::vector<std::string>& names, const std::vector<query::Cell>& cells,
              std::optional<int64_t> origin_ns)
      : names_(names), cells_(cells), origin_ns_(origin_ns) {}

  bool Has(std::string_view name) const { return std::ranges::find(names_, name) != names_.end(); }

  std::optional<int64_t> Integer(std::string_view name) const {
    const query::Cell* cell = Find(name);
    const auto* value = cell == nullptr ? nullptr : std::get_if<int64_t>(cell);
    return value == nullptr ? std::nullopt : std::optional(*value);
  }

  // Of the first of these that is there, with _ns or _ms behind it.
  std::optional<int64_t> Moment(std::initializer_list<std::string_view> stems) const {
    for (const std::string_view stem : stems) {
      if (const auto ns = Integer(std::string(stem) + "_ns")) return ns;
      const auto length_ns = Milliseconds(stem);
      if (length_ns && origin_ns_) return *origin_ns_ + *length_ns;
    }
    return std::nullopt;
  }
  std::optional<int64_t> Length(std::initializer_list<std::string_view> stems) const {
    for (const std::string_view stem : stems) {
      if (const auto ns = Integer(std::string(stem) + "_ns")) return ns;
      if (const auto ns = Milliseconds(stem)) return ns;
    }
    return std::nullopt;
  }

 private:
  const query::Cell* Find(std::string_view name) const {
    const auto at = std::ranges::find(names_, name);
    return at == names_.end() ? nullptr : &cells_[static_cast<size_t>(at - names_.begin())];
  }
  // In ns.
  std::optional<int64_t> Milliseconds(std::string_view stem) const {
    constexpr double kMost = 9e12;  // what fits int64 in ns
    const std::string name = std::string(stem) + "_ms";
    std::optional<double> ms;
    if (const auto whole = Integer(name)) ms = static_cast<double>(*whole);
    const query::Cell* cell = Find(name);
    if (cell != nullptr && std::holds_alternative<double>(*cell)) ms = std::get<double>(*cell);
    if (!ms || !(std::abs(*ms) < kMost)) return std::nullopt;
    return std::llround(*ms * 1e6);
  }

  const std::vector<std::string>& names_;
  const std::vector<query::Cell>& cells_;
  const std::optional<int64_t> origin_ns_;
};

std::optional<int32_t> RankOfRun(const query::Snapshot& snapshot, query::OpRunId op_run) {
  for (const query::RankRows& rows : snapshot.ranks) {
    if (std::ranges::find(rows.op_runs, op_run, &query::OpRun::id) != rows.op_runs.end()) {
      return rows.rank;
    }
  }
  return std::nullopt;
}

}  // namespace

ui::Commands CommandsToShow(const query::Snapshot& snapshot, std::optional<int64_t> origin_ns,
                            const std::vector<std::string>& names,
                            const std::vector<query::Cell>& cells) {
  const SelectedRow row(names, cells, origin_ns);
  std::optional<int64_t> id = row.Integer("op_run");
  if (!id && (row.Has("ready_ns") || row.Has("ready_ms"))) id = row.Integer("id");
  if (id) {
    const query::OpRunId op_run(*id);
    if (const auto rank = RankOfRun(snapshot, op_run)) {
      return {ui::ShowOp{op_run, *rank}};
    }
  }
  const auto step = row.Integer("step");
  const bool has_step = step && *step >= 0 && *step <= INT32_MAX;
  if (has_step) {
    const ui::Link link{.step = static_cast<int32_t>(*step)};
    if (timeline::StepInOtherPart(snapshot, link)) return {ui::GoToLink{link}};
  }
  const auto start_ns = row.Moment({"started", "start", "executed", "time", "issued"});
  const int64_t run_start_ns = snapshot.RunStartNs();
  const int64_t run_end_ns = snapshot.RunEndNs();
  if (start_ns && *start_ns >= run_start_ns && *start_ns <= run_end_ns) {
    const auto end_ns = row.Moment({"ended", "end"});
    const int64_t length_ns =
        end_ns ? *end_ns - *start_ns : row.Length({"duration", "step"}).value_or(kLeastNs);
    const int64_t shown_ns =
        std::clamp<int64_t>(length_ns, kLeastNs, run_end_ns - run_start_ns + kLeastNs);
    const int64_t margin_ns = std::llround(static_cast<double>(shown_ns) * kMargin);
    const ui::SetView view{*start_ns - margin_ns, *start_ns + shown_ns + margin_ns};
    const ui::Link link = timeline::LinkOfTimes(snapshot, view.start_ns, view.end_ns);
    if (timeline::StepInOtherPart(snapshot, link)) return {ui::GoToLink{link}};
    return {ui::FocusPanel{ui::panel_ids::kTimeline}, view};
  }
  if (has_step) {
    return {ui::FocusPanel{ui::panel_ids::kTimeline}, ui::ShowStep{static_cast<int32_t>(*step)}};
  }
  return {};
}

}  // namespace shardscope::panels
