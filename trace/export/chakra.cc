#include "trace/export/chakra.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "trace/base/collective_names.h"
#include "trace/base/output_file.h"
#include "trace/base/output_folder.h"
#include "trace/base/words.h"
#include "trace/query/live_trace.h"
#include "trace/query/snapshot.h"

namespace shardscope::exports {
namespace {

// Fields and enumerators of et_def.proto.
enum NodeField : uint32_t {
  kId = 1,
  kName,
  kType,
  kControl,
  kData,
  kStart,
  kDuration,
  kAttribute = 10
};
enum AttributeField : uint32_t { kAttributeName = 1, kInt64 = 9, kBool = 27, kString = 29 };
enum NodeType : uint64_t { kComputeNode = 4, kSendNode = 5, kReceiveNode = 6, kCollectiveNode = 7 };

// The wire format of protobuf: key and value, numbers as varints.
class Message {
 public:
  void Number(uint32_t field, uint64_t value) {
    Varint(uint64_t{field} << 3);
    Varint(value);
  }
  void Text(uint32_t field, std::string_view text) {
    Varint(uint64_t{field} << 3 | 2);
    Varint(text.size());
    bytes_ += text;
  }
  void Attribute(std::string_view name, uint32_t field, uint64_t value) {
    Message attribute;
    attribute.Text(kAttributeName, name);
    attribute.Number(field, value);
    Text(kNodeAttributes, attribute.bytes_);
  }
  void Attribute(std::string_view name, std::string_view value) {
    Message attribute;
    attribute.Text(kAttributeName, name);
    attribute.Text(kString, value);
    Text(kNodeAttributes, attribute.bytes_);
  }
  // With its length in front, as messages stand in a file.
  std::string Delimited() const {
    Message length;
    length.Varint(bytes_.size());
    return length.bytes_ + bytes_;
  }

 private:
  static constexpr uint32_t kNodeAttributes = kAttribute;

  void Varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
    bytes_ += static_cast<char>(value);
  }

  std::string bytes_;
};

NodeType TypeOfNode(const query::PlanOp& op) {
  if (op.op_class == query::OpClass::kSendReceive)
    return op.kind == Name(words::OpKind::kReceive) ? kReceiveNode : kSendNode;
  return query::IsCommunication(op.op_class) ? kCollectiveNode : kComputeNode;
}

// CollectiveCommType; nullopt: what it is is not known, or no such type stands for it.
std::optional<uint64_t> CollectiveType(std::string_view kind) {
  if (kind == kAllToAll) return 6;
  if (kind == kBarrier) return 9;
  const std::optional<words::OpKind> known = words::ParseOpKind(kind);
  if (!known) return std::nullopt;
  const words::OpKindTraits& traits = words::TraitsOf(*known);
  switch (traits.op_class) {
    case words::OpClass::kAllReduce:
      return 0;
    case words::OpClass::kReduce:
      return traits.reduces ? 1 : 3;  // GATHER
    case words::OpClass::kAllGather:
      return 2;
    case words::OpClass::kBroadcast:
      return traits.ring_passes > 0 ? 5 : 4;  // SCATTER
    case words::OpClass::kReduceScatter:
      return 7;
    case words::OpClass::kSendReceive:
    case words::OpClass::kForward:
    case words::OpClass::kBackward:
    case words::OpClass::kRecompute:
    case words::OpClass::kOptimizer:
    case words::OpClass::kCopy:
    case words::OpClass::kHost:
    case words::OpClass::kBookkeeping:
      return std::nullopt;
  }
  return std::nullopt;
}

class RankTrace {
 public:
  RankTrace(const query::Snapshot& snapshot, const query::RankRows& rows) : snapshot_(snapshot) {
    for (const query::Collective& row : rows.collectives) collectives_[row.op_run] = row;
    for (const query::OpRun& run : rows.op_runs) {
      if (snapshot.FindPlanOp(run.plan_op) != nullptr) runs_.push_back(run);
    }
    std::ranges::stable_sort(runs_, {}, &query::OpRun::started_ns);
    for (const query::OpRun& run : runs_) run_of_[{run.step, run.plan_op}] = &run;
  }

  Status Write(OutputFile* file) {
    Message metadata;
    metadata.Text(1, "0.0.4");
    std::string text = metadata.Delimited();
    for (const query::OpRun& run : runs_) {
      text += NodeOf(run).Delimited();
      if (text.size() < kBuffer) continue;
      SHARDSCOPE_RETURN_IF_ERROR(file->Write(text));
      text.clear();
    }
    return file->Write(text);
  }

 private:
  static constexpr size_t kBuffer = 1 << 20;

  static uint64_t NodeId(const query::OpRun& run) { return static_cast<uint64_t>(run.id.value()); }

  Message NodeOf(const query::OpRun& run) {
    const query::PlanOp& op = *snapshot_.FindPlanOp(run.plan_op);
    const NodeType type = TypeOfNode(op);
    Message node;
    node.Number(kId, NodeId(run));
    node.Text(kName, op.name);
    node.Number(kType, type);
    const auto before = last_on_.find(run.track);
    if (before != last_on_.end()) node.Number(kControl, NodeId(*before->second));
    last_on_[run.track] = &run;
    for (const query::PlanOpId predecessor : op.predecessors) {
      const auto found = run_of_.find({run.step, predecessor});
      if (found != run_of_.end() && found->second->started_ns <= run.started_ns &&
          found->second != &run) {
        node.Number(kData, NodeId(*found->second));
      }
    }
    const int64_t length_ns = run.ended_ns - run.started_ns;
    node.Number(kStart, static_cast<uint64_t>(run.started_ns / 1000));
    node.Number(kDuration, static_cast<uint64_t>(length_ns / 1000));
    node.Attribute("is_cpu_op", kBool, op.op_class == query::OpClass::kHost ? 1 : 0);
    if (type != kComputeNode) AddCommunication(run, op, &node);
    node.Attribute("start_ns", kInt64, static_cast<uint64_t>(run.started_ns));
    node.Attribute("duration_ns", kInt64, static_cast<uint64_t>(length_ns));
    node.Attribute("step", kInt64, static_cast<uint64_t>(run.step));
    node.Attribute("kind", op.kind);
    node.Attribute("unit", op.unit);
    node.Attribute("phase", op.phase);
    return node;
  }

  void AddCommunication(const query::OpRun& run, const query::PlanOp& op, Message* node) const {
    const auto found = collectives_.find(run.id);
    const int64_t bytes =
        found == collectives_.end() ? op.payload_bytes : found->second.payload_bytes;
    if (const std::optional<uint64_t> collective = CollectiveType(op.kind))
      node->Attribute("comm_type", kInt64, *collective);
    node->Attribute("comm_size", kInt64, static_cast<uint64_t>(bytes));
    if (found == collectives_.end()) return;
    node->Attribute("pg_name",
                    snapshot_.communicators[static_cast<size_t>(found->second.communicator)]);
    node->Attribute("comm_tag", kInt64, static_cast<uint64_t>(found->second.sequence));
  }

  const query::Snapshot& snapshot_;
  std::vector<query::OpRun> runs_;  // by start; the others point into it
  std::map<std::pair<int32_t, query::PlanOpId>, const query::OpRun*> run_of_;
  std::map<query::OpRunId, query::Collective> collectives_;
  std::map<query::TrackId, const query::OpRun*> last_on_;
};

}  // namespace

Status WriteChakra(const store::RunFiles& run, const std::string& to, const ExportOptions&) {
  SHARDSCOPE_ASSIGN_OR_RETURN(const query::SnapshotPtr snapshot, query::ReadSnapshotOf(run));
  SHARDSCOPE_RETURN_IF_ERROR(MakeFolder(to));
  for (const query::RankRows& rows : snapshot->ranks) {
    SHARDSCOPE_ASSIGN_OR_RETURN(OutputFile file,
                                OutputFile::Create(fmt::format("{}/trace.{}.et", to, rows.rank)));
    SHARDSCOPE_RETURN_IF_ERROR(RankTrace(*snapshot, rows).Write(&file));
    SHARDSCOPE_RETURN_IF_ERROR(file.Close());
  }
  return Status::Ok();
}

}  // namespace shardscope::exports
