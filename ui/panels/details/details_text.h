// The text of the details panel for an op, a wait between GPU streams, a kernel, a copy or a range:
// its rows and the sentence under them. No ImGui.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "ui/commands.h"
#include "ui/terms.h"
#include "ui/text.h"
#include "ui/timeline/facts.h"
#include "ui/timeline/gpu/stream_waits.h"
#include "ui/timeline/gpu/work_facts.h"

namespace shardscope::panels {

struct DetailRow {
  std::string id;  // "slack": of the draw log
  ui::Term label = {};
  std::string value;
  std::variant<std::monostate, int64_t, double> number;  // unrounded
  std::string unit;                                      // of number
  enum class Tone : uint8_t { kPlain, kGood, kBad } tone = Tone::kPlain;
  std::optional<ui::Command> link{};  // what a click on the value does
};
std::vector<DetailRow> DetailRows(const timeline::OpFacts& facts, ui::Language language);

// "all_gather block1 B": kind, object, phase, micro-batch if it is not the first.
std::string DetailTitle(const query::PlanOp& op);

// What it means and what would change it; one or two sentences.
std::string DetailMeaning(const timeline::OpFacts& facts, ui::Language language);

// A row a wait, those that differ from the Schedule first; not more than fit.
std::vector<DetailRow> WaitRows(const std::vector<timeline::StreamWait>& waits,
                                ui::Language language);

// What a difference from the Schedule means; empty if there is none.
std::string WaitMeaning(const std::vector<timeline::StreamWait>& waits, ui::Language language);

std::vector<DetailRow> WorkRows(const timeline::WorkFacts& facts, ui::Language language);
std::string WorkMeaning(const timeline::WorkFacts& facts, ui::Language language);

// "kernel", "copy to the device", "range".
std::string WorkKindName(const timeline::WorkFacts& facts, ui::Language language);

}  // namespace shardscope::panels
