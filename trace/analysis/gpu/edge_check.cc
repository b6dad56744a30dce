#include "trace/analysis/gpu/edge_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <string_view>
#include <tuple>
#include <unordered_set>
#include <utility>

namespace shardscope::analysis {
namespace {

using query::PlanOp;

// One of a Schedule's programs.
using ProgramKey = std::pair<query::ScheduleId, int32_t>;

ProgramKey ProgramOf(const PlanOp& op) { return {op.schedule, op.program}; }

// From one stream to another: a wait of `to` for `from`, as indices of a program's ops.
struct StreamWait {
  std::string_view from_stream;
  std::string_view to_stream;
  int32_t from = 0;
  int32_t to = 0;
  auto operator<=>(const StreamWait&) const = default;
};

// A wait of an earlier op for a later one is as strong: streams keep order on both sides.
bool IsCovered(const StreamWait& wait, const std::set<StreamWait>& others) {
  const StreamWait first{wait.from_stream, wait.to_stream, wait.from,
                         std::numeric_limits<int32_t>::min()};
  for (auto other = others.lower_bound(first); other != others.end(); ++other) {
    if (other->from_stream != wait.from_stream || other->to_stream != wait.to_stream) break;
    if (other->to <= wait.to) return true;
  }
  return false;
}

// What a program plans, of ops that the GPU worked for.
struct Program {
  std::map<int32_t, const PlanOp*> ops;  // by index
  // By stream, ascending: ops with GPU work.
  std::map<std::string_view, std::vector<int32_t>> worked;
  std::set<StreamWait> planned;
};

// The op with work at or before `op` on its stream; -1: none.
int32_t WorkedBefore(const Program& program, const PlanOp& op) {
  const auto stream = program.worked.find(op.stream);
  if (stream == program.worked.end()) return -1;
  const auto after = std::upper_bound(stream->second.begin(), stream->second.end(), op.op);
  return after == stream->second.begin() ? -1 : *(after - 1);
}

int32_t WorkedAfter(const Program& program, const PlanOp& op) {
  const auto stream = program.worked.find(op.stream);
  if (stream == program.worked.end()) return -1;
  const auto at = std::lower_bound(stream->second.begin(), stream->second.end(), op.op);
  return at == stream->second.end() ? -1 : *at;
}

void Plan(const PlanOp& before, const PlanOp& op, Program* program) {
  if (before.stream == op.stream) return;
  const int32_t from = WorkedBefore(*program, before);
  const int32_t to = WorkedAfter(*program, op);
  if (from >= 0 && to >= 0) program->planned.insert({before.stream, op.stream, from, to});
}

// Event and stream dependencies, and the order of each communicator.
void AddPlanned(const query::Snapshot& snapshot, Program* program) {
  std::map<std::string_view, const PlanOp*> last_of_communicator;
  for (const auto& [index, op] : program->ops) {
    for (const query::PlanOpId id : op->predecessors) {
      const auto& of_host = op->host_predecessors;
      if (std::find(of_host.begin(), of_host.end(), id) != of_host.end()) continue;
      if (const PlanOp* before = snapshot.FindPlanOp(id)) Plan(*before, *op, program);
    }
    if (op->communicator.empty()) continue;
    const PlanOp*& last = last_of_communicator[op->communicator];
    if (last != nullptr) Plan(*last, *op, program);
    last = op;
  }
}

std::map<ProgramKey, Program> ProgramsOf(const query::Snapshot& snapshot,
                                         const std::unordered_set<query::PlanOpId>& worked) {
  std::map<ProgramKey, Program> programs;
  for (const auto& [id, op] : snapshot.plan_ops) programs[ProgramOf(op)].ops[op.op] = &op;
  for (auto& [key, program] : programs) {
    for (const auto& [index, op] : program.ops) {
      if (worked.contains(op->id)) program.worked[op->stream].push_back(index);
    }
    AddPlanned(snapshot, &program);
  }
  return programs;
}

// A step of one rank, in which one program ran.
using RunKey = std::pair<int32_t, ProgramKey>;  // step

struct RankRuns {
  std::map<RunKey, std::set<StreamWait>> seen;  // empty sets for what ran without any wait
  int32_t newest_step = -1;
};

// What ran on the GPU, in `worked` too; each launch of an op has the same.
void AddWork(const query::Snapshot& snapshot, const query::RankRows& rows, RankRuns* runs,
             std::unordered_set<query::PlanOpId>* worked) {
  std::pair<query::PlanOpId, int32_t> last{query::PlanOpId::None(), -1};
  for (const query::GpuWork& work : rows.gpu_work) {
    if (work.plan_op.is_none() || last == std::pair(work.plan_op, work.step)) continue;
    last = {work.plan_op, work.step};
    const PlanOp* op = snapshot.FindPlanOp(work.plan_op);
    if (op == nullptr) continue;
    worked->insert(op->id);
    runs->seen[{work.step, ProgramOf(*op)}];
    runs->newest_step = std::max(runs->newest_step, work.step);
  }
}

void AddSeen(const query::Snapshot& snapshot, const query::RankRows& rows, RankRuns* runs) {
  for (const query::EventEdge& edge : rows.event_edges) {
    if (edge.from_step != edge.step) continue;  // over the end of a step
    const PlanOp* from = snapshot.FindPlanOp(edge.from_plan_op);
    const PlanOp* to = snapshot.FindPlanOp(edge.to_plan_op);
    if (from == nullptr || to == nullptr || ProgramOf(*from) != ProgramOf(*to)) continue;
    if (from->stream == to->stream) continue;
    runs->seen[{edge.step, ProgramOf(*to)}].insert({from->stream, to->stream, from->op, to->op});
  }
}

void Compare(int32_t rank, int32_t step, const Program& program, const std::set<StreamWait>& seen,
             EdgeCheck* check) {
  check->planned += static_cast<int64_t>(program.planned.size());
  const auto add = [&](const StreamWait& wait, bool missing) {
    ++(missing ? check->missing : check->extra);
    if (check->differences.size() >= kMostDifferences) return;
    check->differences.push_back(
        {rank, step, program.ops.at(wait.from)->id, program.ops.at(wait.to)->id, missing});
  };
  for (const StreamWait& wait : program.planned) {
    if (!IsCovered(wait, seen)) add(wait, true);
  }
  for (const StreamWait& wait : seen) {
    if (!IsCovered(wait, program.planned)) add(wait, false);
  }
}

void MakeGroups(const query::Snapshot& snapshot, EdgeCheck* check) {
  std::map<std::tuple<query::PlanOpId, query::PlanOpId, bool>, size_t> places;
  for (const EdgeDifference& difference : check->differences) {
    const auto [place, is_new] = places.try_emplace(
        {difference.from_plan_op, difference.to_plan_op, difference.missing}, check->groups.size());
    if (is_new) {
      check->groups.push_back({snapshot.FindPlanOp(difference.from_plan_op)->name,
                               snapshot.FindPlanOp(difference.to_plan_op)->name, difference.missing,
                               0, difference});
    }
    ++check->groups[place->second].count;
  }
  std::stable_sort(check->groups.begin(), check->groups.end(),
                   [](const EdgeGroup& a, const EdgeGroup& b) { return a.count > b.count; });
}

}  // namespace

const EdgeDifference* EdgeCheck::Find(int32_t rank, int32_t step, query::PlanOpId from_plan_op,
                                      query::PlanOpId to_plan_op) const {
  for (const EdgeDifference& difference : differences) {
    if (difference.rank == rank && difference.step == step &&
        difference.from_plan_op == from_plan_op && difference.to_plan_op == to_plan_op) {
      return &difference;
    }
  }
  return nullptr;
}

EdgeCheck CheckEdges(const query::Snapshot& snapshot) {
  EdgeCheck check;
  if (snapshot.IsImported()) return check;  // nothing was planned
  std::unordered_set<query::PlanOpId> worked;
  std::vector<RankRuns> ranks(snapshot.ranks.size());
  for (size_t at = 0; at < ranks.size(); ++at) {
    AddWork(snapshot, snapshot.ranks[at], &ranks[at], &worked);
    AddSeen(snapshot, snapshot.ranks[at], &ranks[at]);
    check.seen += static_cast<int64_t>(snapshot.ranks[at].event_edges.size());
  }
  if (worked.empty() || snapshot.loading) return check;
  const std::map<ProgramKey, Program> programs = ProgramsOf(snapshot, worked);
  for (size_t at = 0; at < ranks.size(); ++at) {
    for (const auto& [run, seen] : ranks[at].seen) {
      if (query::MayGrow(snapshot.state) && run.first >= ranks[at].newest_step) continue;
      Compare(snapshot.ranks[at].rank, run.first, programs.at(run.second), seen, &check);
    }
  }
  MakeGroups(snapshot, &check);
  return check;
}

std::string PrintEdges(const EdgeCheck& check) {
  if (check.seen == 0 && !check.compared()) return "";
  std::string text =
      fmt::format("\nWaits between streams, as CUPTI saw them\n  {} seen", check.seen);
  if (!check.compared()) return text + "; no Schedule to hold them against\n";
  if (check.missing == 0 && check.extra == 0) {
    return text + "; they are those of the Schedule, none is missing and none is extra\n";
  }
  text += fmt::format(
      "; {} of {} planned ones missing (the op may have run too early, or the record was lost), {} "
      "that nothing plans (they may take overlap away)\n",
      check.missing, check.planned, check.extra);
  constexpr size_t kListed = 10;
  for (size_t at = 0; at < std::min(kListed, check.groups.size()); ++at) {
    const EdgeGroup& group = check.groups[at];
    text += fmt::format("  {} {} -> {}: {} time{}, first on rank {} in step {}\n",
                        group.missing ? "missing" : "extra  ", group.from, group.to, group.count,
                        group.count == 1 ? "" : "s", group.first.rank, group.first.step);
  }
  if (check.groups.size() > kListed) {
    text +=
        fmt::format("  and {} more: SELECT * FROM v_edge_check\n", check.groups.size() - kListed);
  }
  return text;
}

}  // namespace shardscope::analysis
