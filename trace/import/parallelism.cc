#include "trace/import/parallelism.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "trace/base/collective_names.h"
#include "trace/base/enum_count.h"
#include "trace/base/torch_range_names.h"

namespace shardscope::imports {
namespace {

using words::Category;
using words::OpKind;
using words::Phase;

// What a group is used for, over the whole recording.
struct Use {
  int64_t count = 0;
  int64_t gathers_before = 0;  // all-gathers of forward
  int64_t gathers_after = 0;   // and of the optimizer
  int64_t scatters = 0;        // reduce-scatters, and reductions to one rank
  int64_t reduces_forward = 0;
  int64_t reduces_backward = 0;
  int64_t sends = 0;
  int64_t exchanges = 0;  // all-to-alls
  std::set<std::string> units;
};

std::map<std::string, Use> UsesOf(const Recording& recording, const InferredOps& ops) {
  std::map<std::string, Use> uses;
  for (const InferredRun& run : ops.runs) {
    if (run.collective < 0) continue;
    const RecordedCollective& collective =
        recording.collectives[static_cast<size_t>(run.collective)];
    const InferredOp& op = ops.ops[run.op];
    Use& use = uses[collective.group];
    ++use.count;
    if (!op.unit.empty()) use.units.insert(op.unit);
    const bool is_forward = op.phase == Phase::kForward;
    if (op.kind == Name(OpKind::kAllGather)) {
      ++(op.phase == Phase::kOptimizer ? use.gathers_after : use.gathers_before);
    } else if (op.kind == Name(OpKind::kReduceScatter) || op.kind == Name(OpKind::kReduce)) {
      ++use.scatters;
    } else if (op.kind == Name(OpKind::kAllReduce)) {
      ++(is_forward ? use.reduces_forward : use.reduces_backward);
    } else if (op.kind == Name(OpKind::kSend) || op.kind == Name(OpKind::kReceive)) {
      ++use.sends;
    } else if (op.kind.starts_with(kAllToAll)) {
      ++use.exchanges;
    }
  }
  return uses;
}

// Words of a name: "mesh_dp_shard" has mesh, dp, shard.
std::set<std::string> WordsOf(std::string_view name) {
  std::set<std::string> words;
  std::string word;
  for (const char c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      word += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    } else if (!word.empty()) {
      words.insert(std::exchange(word, {}));
    }
  }
  if (!word.empty()) words.insert(word);
  return words;
}

// torchtitan and Megatron name their groups so; DeviceMesh calls a dimension "mesh_" and its name
// (torch/distributed/device_mesh.py).
std::optional<Parallelism> ByName(std::string_view name) {
  const std::set<std::string> words = WordsOf(name);
  const auto has = [&words](std::initializer_list<const char*> any) {
    return std::ranges::any_of(any, [&](const char* word) { return words.contains(word); });
  };
  if (has({"tp", "tensor"})) return Parallelism::kTensor;
  if (has({"pp", "pipeline", "pipe"})) return Parallelism::kPipeline;
  if (has({"cp", "context", "sp", "sequence", "ulysses"})) return Parallelism::kContext;
  if (has({"ep", "expert", "moe"})) return Parallelism::kExpert;
  return std::nullopt;
}

// What shards parameters or gradients over data-parallel ranks, or only averages them.
std::optional<Parallelism> OfData(const Use& use) {
  const bool shards = use.gathers_before > 0 && use.scatters > 0;
  if (shards) return Parallelism::kSharded;
  if (use.gathers_after > 0 && (use.scatters > 0 || use.reduces_backward > 0))
    return Parallelism::kZero2;
  if (use.reduces_backward > 0 && use.reduces_forward == 0 && use.scatters == 0 &&
      use.gathers_before == 0) {
    return Parallelism::kDdp;
  }
  return std::nullopt;
}

std::optional<Parallelism> ByUse(const Use& use) {
  if (use.sends * 2 > use.count) return Parallelism::kPipeline;
  if (use.exchanges * 2 > use.count) return Parallelism::kExpert;
  // Layers that share their work wait for it in forward and backward alike.
  if (use.reduces_forward > 0 && use.reduces_backward > 0 &&
      use.reduces_forward * 4 >= use.reduces_backward) {
    return Parallelism::kTensor;
  }
  return OfData(use);
}

struct Marks {
  bool fsdp2 = false;
  bool fsdp1 = false;
  bool ddp = false;
  bool deepspeed = false;
};

Marks MarksOf(const Names& names) {
  Marks marks;
  for (Names::Index at = 0; at < names.size(); ++at) {
    const std::string& name = names[at];
    marks.fsdp2 = marks.fsdp2 || name.starts_with(torch_range_names::kFsdp2);
    marks.fsdp1 = marks.fsdp1 || name.starts_with(torch_range_names::kFsdp1);
    marks.ddp = marks.ddp || name.starts_with(torch_range_names::kDdpForward);
    marks.deepspeed = marks.deepspeed || name.find("deepspeed/") != std::string::npos ||
                      name.starts_with("DeepSpeed");
  }
  return marks;
}

std::optional<RecognisedGroup> RecogniseGroup(const std::string& group, std::string_view title,
                                              const Use& use, const Marks& marks) {
  RecognisedGroup found{.group = group};
  if (const std::optional<Parallelism> by_name = ByName(title)) {
    found.parallelism = *by_name;
    found.evidence = Evidence::kName;
    return found;
  }
  const std::optional<Parallelism> by_use = ByUse(use);
  if (!by_use) return std::nullopt;
  found.parallelism = *by_use;
  if (*by_use == Parallelism::kSharded) {
    found.num_units = static_cast<int64_t>(use.units.size());
    if (marks.deepspeed) found.parallelism = Parallelism::kZero3;
    if (marks.fsdp2) found.parallelism = Parallelism::kFsdp2;
    if (marks.fsdp1) found.parallelism = Parallelism::kFsdp1;
    if (marks.fsdp1 || marks.fsdp2 || marks.deepspeed) found.evidence = Evidence::kRanges;
  }
  if (*by_use == Parallelism::kZero2 && marks.deepspeed) found.evidence = Evidence::kRanges;
  if (*by_use == Parallelism::kDdp && marks.ddp) found.evidence = Evidence::kRanges;
  return found;
}

}  // namespace

std::string_view Name(Parallelism parallelism) {
  static constexpr auto kNames = std::to_array<std::string_view>(
      {"FSDP2", "FSDP1", "ZeRO-3", "FSDP or ZeRO-3", "ZeRO-1 or ZeRO-2", "DDP", "tensor parallel",
       "pipeline parallel", "context parallel", "expert parallel"});
  static_assert(kNames.size() == kCountOf<Parallelism>);
  return kNames[static_cast<size_t>(parallelism)];
}

std::string_view Name(Evidence evidence) {
  static constexpr auto kNames = std::to_array<std::string_view>({"ranges", "name", "use"});
  static_assert(kNames.size() == kCountOf<Evidence>);
  return kNames[static_cast<size_t>(evidence)];
}

std::vector<RecognisedGroup> Recognise(const Recording& recording, const InferredOps& ops) {
  const Marks marks = MarksOf(recording.names);
  const std::map<std::string, Use> uses = UsesOf(recording, ops);
  std::vector<std::pair<int64_t, RecognisedGroup>> found;
  for (const auto& [group, use] : uses) {
    std::string title = group;
    for (const RecordedGroup& recorded : recording.groups) {
      if (recorded.name == group) title = recorded.description + " " + group;
    }
    if (auto recognised = RecogniseGroup(group, title, use, marks))
      found.emplace_back(-use.count, std::move(*recognised));
  }
  std::ranges::stable_sort(found, {}, [](const auto& entry) { return entry.first; });
  std::vector<RecognisedGroup> groups;
  for (auto& [count, group] : found) groups.push_back(std::move(group));
  return groups;
}

}  // namespace shardscope::imports
