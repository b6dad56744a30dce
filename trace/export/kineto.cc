#include "trace/export/kineto.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <type_traits>
#include <vector>

#include "trace/base/fsdp_strategies.h"
#include "trace/base/output_file.h"
#include "trace/base/output_folder.h"
#include "trace/base/torch_range_names.h"
#include "trace/base/torch_types.h"
#include "trace/base/words.h"
#include "trace/export/chrome_writer.h"
#include "trace/export/fsdp_ranges.h"
#include "trace/export/row_text.h"
#include "trace/schema/ddl.h"
#include "trace/store/reader.h"
#include "trace/store/run_source.h"

namespace shardscope::exports {
namespace {

using words::Category;
using words::Name;
using words::OpClass;
using words::OpKind;

constexpr int64_t kFirstStream = 7;  // PyTorch's first one of its own
constexpr size_t kRowsAnEvent = 200;
constexpr int64_t kHostThread = 1;  // that issues ops
// Of events that are there for other tools only.
constexpr std::string_view kMadeUp = "shardscope launch";

Result<store::RowBatch> ReadAll(const store::RunFiles& run) {
  SHARDSCOPE_ASSIGN_OR_RETURN(const std::unique_ptr<store::RunSource> source,
                              store::RunSource::Open(run, store::RunSource::Purpose::kReadOnce));
  store::RowBatch all;
  while (true) {
    store::RowBatch batch;
    SHARDSCOPE_ASSIGN_OR_RETURN(const bool more, source->Read(&batch));
    store::AppendRows(&batch, &all);
    if (!more) return all;
  }
}

// Names of collectives as torch.distributed records them
// (torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp).
std::string_view TorchName(std::string_view kind) {
  if (kind == Name(OpKind::kAllGather)) return "_allgather_base";
  if (kind == Name(OpKind::kReduceScatter)) return "_reduce_scatter_base";
  if (kind == Name(OpKind::kAllReduce)) return "allreduce";
  if (kind == Name(OpKind::kReceive)) return "recv";
  return kind;
}

// NCCL sends and receives for whatever goes around no ring: gathers, scatters and all-to-alls too.
std::string_view NcclName(std::string_view kind) {
  const auto known = words::ParseOpKind(kind);
  const bool has_ring = known && TraitsOf(*known).ring_passes > 0;
  std::string_view name =
      TraitsOf(has_ring ? TraitsOf(*known).op_class : OpClass::kSendReceive).nccl_name;
  if (name.ends_with('_')) name.remove_suffix(1);  // which tells "Reduce" from "ReduceScatter"
  return name;
}

// On which side of a collective the payload is, of which the other has a part; kNone where both
// have as much of it, as two peers, or only a root has all.
words::PayloadSide WholeSideOf(std::string_view kind) {
  const auto known = words::ParseOpKind(kind);
  const bool has_sides = known && !TraitsOf(*known).has_peer;
  return has_sides ? TraitsOf(*known).payload : words::PayloadSide::kNone;
}

struct ElementType {
  std::string_view name;
  int64_t bytes = 1;
};
ElementType TypeOf(std::string_view dtype) {
  const std::string_view name = TorchTypeOf(dtype);
  if (name.empty()) return {"Byte", 1};
  return {name, BytesOfTorchType(name)};
}

// The rows of a file, and where to find what others refer to.
struct Run {
  store::RowBatch rows;
  int64_t num_ranks = 0;  // of all files
  std::map<schema::PlanOpId, const schema::PlanOpRow*> plan_ops;
  std::map<schema::TrackId, const schema::TrackRow*> tracks;
  std::map<schema::StringId, const schema::StringRow*> strings;
  std::map<schema::OpRunId, const schema::CollectiveRow*> collectives;
  std::map<schema::SpanId, const schema::GpuWorkRow*> works;
  std::map<schema::TrackId, const schema::GpuStreamRow*> streams;
  std::map<std::string, std::string> meta;

  template <typename Row, typename Id>
  static void Index(const std::vector<Row>& from, std::map<Id, const Row*>* to) {
    for (const Row& row : from) (*to)[row.id] = &row;
  }
  void IndexAll() {
    Index(rows.Get<schema::PlanOpRow>(), &plan_ops);
    Index(rows.Get<schema::TrackRow>(), &tracks);
    Index(rows.Get<schema::StringRow>(), &strings);
    Index(rows.Get<schema::GpuWorkRow>(), &works);
    for (const schema::CollectiveRow& row : rows.Get<schema::CollectiveRow>())
      collectives[row.op_run] = &row;
    for (const schema::GpuStreamRow& row : rows.Get<schema::GpuStreamRow>())
      streams[row.track] = &row;
    for (const schema::MetaRow& row : rows.Get<schema::MetaRow>()) meta[row.key] = row.value;
  }
  std::string Meta(const std::string& key) const {
    const auto found = meta.find(key);
    return found == meta.end() ? "" : found->second;
  }
  bool IsOfFsdp() const {
    const std::vector<schema::ConfigRow>& config = rows.Get<schema::ConfigRow>();
    return std::ranges::any_of(config, [](const schema::ConfigRow& row) {
      return row.key == "strategy" && IsFsdpStrategy(row.value);
    });
  }
};

// One file: what one rank did.
class RankFile {
 public:
  RankFile(const Run& run, const schema::RankRow& rank, OutputFile* file)
      : run_(run), rank_(rank), writer_(file, Head()) {}

  Status Write() {
    WriteNames();
    WriteTables();
    for (const schema::StepRow& row : run_.rows.Get<schema::StepRow>()) {
      if (row.rank == rank_.rank) WriteStep(row);
    }
    for (const schema::OpRunRow& row : run_.rows.Get<schema::OpRunRow>()) {
      if (row.rank == rank_.rank) WriteOpRun(row);
    }
    for (const schema::SpanRow& row : run_.rows.Get<schema::SpanRow>()) {
      if (IsOfRank(row.track)) WriteSpan(row);
    }
    for (const schema::MemoryEventRow& row : run_.rows.Get<schema::MemoryEventRow>()) {
      if (row.rank == rank_.rank) WriteMemory(row);
    }
    WriteRanges();
    return writer_.End();
  }

 private:
  JsonMembers Head() const {
    std::map<std::string, int64_t> groups;  // and their sizes
    for (const schema::CollectiveRow& row : run_.rows.Get<schema::CollectiveRow>())
      groups[std::string(row.communicator)] = row.group_size;
    std::string list;
    for (const auto& [name, size] : groups) {
      list += fmt::format("{}{}", list.empty() ? "" : ", ",
                          JsonMembers()
                              .Add("pg_name", name)
                              .Add("pg_desc", name)
                              .Add("backend_config", run_.Meta("transport"))
                              .Add("pg_size", size)
                              .Object());
    }
    JsonMembers distributed;
    distributed.Add("backend", "shardscope")
        .Add("rank", rank_.rank)
        .Add("world_size", run_.num_ranks)
        .AddJson("pg_config", "[" + list + "]");
    JsonMembers head;
    head.Add("schemaVersion", 1)
        .Add("displayTimeUnit", "ms")
        .Add("traceName", run_.Meta("name"))
        .Add("host_name", rank_.host)
        .AddJson("distributedInfo", distributed.Object())
        .AddJson(
            "deviceProperties",
            "[" + JsonMembers().Add("id", 0).Add("name", std::string_view(rank_.device)).Object() +
                "]");
    return head;
  }

  bool IsOfRank(schema::TrackId track) const {
    const auto found = run_.tracks.find(track);
    return found != run_.tracks.end() && found->second->rank == rank_.rank;
  }

  // Of recorded streams the number is known.
  bool IsOfHost(const schema::TrackRow& track) const {
    return track.role == Name(words::TrackRole::kHost) && !run_.streams.contains(track.id);
  }

  // Streams are of device 0, which is process 0.
  ChromePlace PlaceOf(const schema::TrackRow& track) const {
    if (IsOfHost(track)) return {rank_.pid, 1 + track.position};
    const auto stream = run_.streams.find(track.id);
    if (stream != run_.streams.end()) return {0, stream->second->stream};
    return {0, kFirstStream + track.position};
  }

  void WriteNames() {
    writer_.NameProcess(rank_.pid, fmt::format("rank {}", rank_.rank), 0);
    writer_.NameProcess(0, fmt::format("rank {} device 0", rank_.rank), 1);
    for (const auto& [id, track] : run_.tracks) {
      if (track->rank == rank_.rank)
        writer_.NameThread(PlaceOf(*track), std::string_view(track->name), track->position);
    }
  }

  // Rows that are no events of their own: those of no rank, and of this one.
  void WriteTables() {
    writer_.Instant({0, 0}, "shardscope", "schema", 0,
                    JsonMembers().Add("shardscope schema", schema::kVersion));
    schema::ForEachType(schema::AllRows(), [&]<typename Row>() {
      using Table = schema::TableOf<Row>;
      constexpr bool kIsEvent =
          std::is_same_v<Row, schema::StepRow> || std::is_same_v<Row, schema::OpRunRow> ||
          std::is_same_v<Row, schema::CollectiveRow> || std::is_same_v<Row, schema::SpanRow> ||
          std::is_same_v<Row, schema::GpuWorkRow> || std::is_same_v<Row, schema::MemoryEventRow>;
      if constexpr (!Table::kDerived && !kIsEvent) WriteTable<Row>();
    });
  }

  template <typename Row>
  void WriteTable() {
    std::string list;
    size_t count = 0;
    const auto flush = [&] {
      if (count == 0) return;
      writer_.Instant(
          {0, 0}, "shardscope", schema::TableOf<Row>::kName, 0,
          JsonMembers().AddJson(RowsKey(schema::TableOf<Row>::kName), "[" + list + "]"));
      list.clear();
      count = 0;
    };
    for (const Row& row : run_.rows.template Get<Row>()) {
      if constexpr (requires { row.rank; }) {
        if (row.rank != rank_.rank) continue;
      }
      if constexpr (
          requires { row.track; } && !requires { row.rank; }) {
        if (!IsOfRank(row.track)) continue;
      }
      if constexpr (std::is_same_v<Row, schema::MetaRow>) {
        if (row.key == "state") continue;
      }
      list += (count == 0 ? "" : ", ") + TextOf(row);
      if (++count == kRowsAnEvent) flush();
    }
    flush();
  }

  void WriteStep(const schema::StepRow& row) {
    writer_.Complete({rank_.pid, kHostThread}, "user_annotation",
                     fmt::format("{}{}", torch_range_names::kStep, row.step), row.start_ns,
                     row.end_ns, Rows(row));
  }

  template <typename Row>
  static JsonMembers Rows(const Row& row) {
    return JsonMembers().AddJson(RowsKey(schema::TableOf<Row>::kName), "[" + TextOf(row) + "]");
  }

  void AddCollective(const schema::CollectiveRow& row, JsonMembers* arguments) {
    const ElementType type = TypeOf(row.dtype);
    const int64_t whole = row.payload_bytes / type.bytes;
    const int64_t part = row.group_size > 0 ? whole / row.group_size : whole;
    const words::PayloadSide whole_side = WholeSideOf(row.kind);
    arguments->Add("Collective name", TorchName(row.kind))
        .Add("In msg nelems", whole_side == words::PayloadSide::kWrites ? part : whole)
        .Add("Out msg nelems", whole_side == words::PayloadSide::kReads ? part : whole)
        .Add("Group size", row.group_size)
        .Add("dtype", type.name)
        .Add("Process Group Name", std::string_view(row.communicator))
        .Add("Process Group Description", std::string_view(row.communicator))
        .Add("Seq", row.sequence)
        .AddJson(RowsKey(schema::TableOf<schema::CollectiveRow>::kName), "[" + TextOf(row) + "]");
  }

  // As tools for PyTorch tell by the name what communicates and what copies.
  std::string KernelName(const schema::PlanOpRow& op) const {
    if (op.category == Name(Category::kCommunication))
      return fmt::format("ncclDevKernel_{} ({})", NcclName(op.kind), op.name);
    if (op.category == Name(Category::kCopy)) return fmt::format("Memcpy DtoD ({})", op.name);
    return op.name;
  }

  void WriteOpRun(const schema::OpRunRow& row) {
    const auto op = run_.plan_ops.find(row.plan_op);
    const auto track = run_.tracks.find(row.track);
    if (op == run_.plan_ops.end() || track == run_.tracks.end()) return;
    const ChromePlace place = PlaceOf(*track->second);
    JsonMembers arguments = Rows(row);
    const auto collective = run_.collectives.find(row.id);
    if (collective != run_.collectives.end()) AddCollective(*collective->second, &arguments);
    if (IsOfHost(*track->second)) {
      writer_.Complete(place, "user_annotation", op->second->name, row.started_ns, row.ended_ns,
                       arguments);
      return;
    }
    // Buffers that are freed once a stream comes there: no work of the device.
    if (op->second->category == Name(Category::kHost)) {
      writer_.Complete(place, "gpu_user_annotation", op->second->name, row.started_ns, row.ended_ns,
                       arguments);
      return;
    }
    const int64_t correlation = row.id.value();
    arguments.Add("device", 0).Add("context", 1).Add("stream", place.thread);
    arguments.Add("correlation", correlation);
    const bool copies = op->second->category == Name(Category::kCopy);
    // Where kernels were recorded, ops are what they were launched for.
    const std::string_view category = !run_.works.empty() ? "gpu_user_annotation"
                                      : copies            ? "gpu_memcpy"
                                                          : "kernel";
    writer_.Complete(place, category, KernelName(*op->second), row.started_ns, row.ended_ns,
                     arguments);
    const ChromePlace host{rank_.pid, kHostThread};
    writer_.Complete(host, "cuda_runtime", "cudaLaunchKernel", row.issued_ns, row.issued_ns,
                     JsonMembers().Add("correlation", correlation).Add(kMadeUp, 1));
    writer_.Arrow("ac2g", "ac2g", host, row.issued_ns, place, row.started_ns);
    if (run_.works.empty()) launches_[host.thread].push_back({row.issued_ns, op->second});
  }

  void WriteSpan(const schema::SpanRow& row) {
    const ChromePlace place = PlaceOf(*run_.tracks.at(row.track));
    const auto name = run_.strings.find(row.name_string);
    const std::string text = name == run_.strings.end() ? "" : name->second->text;
    const auto work = run_.works.find(row.id);
    JsonMembers arguments = Rows(row);
    if (work == run_.works.end()) {
      writer_.Complete(place, place.process == 0 ? "gpu_user_annotation" : "user_annotation", text,
                       row.start_ns, row.start_ns + row.duration_ns, arguments);
      return;
    }
    const schema::GpuWorkRow& gpu = *work->second;
    arguments.AddJson(RowsKey(schema::TableOf<schema::GpuWorkRow>::kName), "[" + TextOf(gpu) + "]")
        .Add("device", 0)
        .Add("context", 1)
        .Add("stream", place.thread)
        .Add("correlation", gpu.correlation)
        .Add("bytes", gpu.bytes)
        .AddJson("grid", fmt::format("[{}, {}, {}]", gpu.grid_x, gpu.grid_y, gpu.grid_z))
        .AddJson("block", fmt::format("[{}, {}, {}]", gpu.block_x, gpu.block_y, gpu.block_z));
    const std::string_view category = gpu.kind == Name(words::GpuWorkKind::kKernel) ? "kernel"
                                      : gpu.kind == Name(words::GpuWorkKind::kSet)  ? "gpu_memset"
                                                                                    : "gpu_memcpy";
    writer_.Complete(place, category, text, row.start_ns, row.start_ns + row.duration_ns,
                     arguments);
    const auto launch = run_.tracks.find(gpu.launch_track);
    if (launch == run_.tracks.end()) return;
    const ChromePlace host = PlaceOf(*launch->second);
    writer_.Complete(host, "cuda_runtime", "cudaLaunchKernel", gpu.launch_start_ns,
                     gpu.launch_start_ns + gpu.launch_duration_ns,
                     JsonMembers().Add("correlation", gpu.correlation).Add(kMadeUp, 1));
    const auto op = run_.plan_ops.find(gpu.plan_op);
    if (op == run_.plan_ops.end() || !IsOfHost(*launch->second)) return;
    launches_[host.thread].push_back({gpu.launch_start_ns, op->second});
  }

  // Behind all launches.
  void WriteRanges() {
    if (!run_.IsOfFsdp()) return;
    for (const auto& [thread, launches] : launches_) {
      for (const TorchRange& range : FsdpRanges(launches)) {
        writer_.Complete({rank_.pid, thread}, "user_annotation", range.name, range.start_ns,
                         range.end_ns, JsonMembers().Add(kMadeUp, 1));
      }
    }
  }

  void WriteMemory(const schema::MemoryEventRow& row) {
    const bool is_on_host = row.device == "cpu";
    int64_t& live_bytes = is_on_host ? live_bytes_on_host_ : live_bytes_;
    live_bytes += row.bytes;
    JsonMembers arguments = Rows(row);
    arguments.Add("Bytes", row.bytes)
        .Add("Device Type", is_on_host ? 0 : 1)
        .Add("Device Id", is_on_host ? -1 : 0)
        .Add("Total Allocated", live_bytes);
    writer_.Instant({rank_.pid, kHostThread}, "cpu_instant_event", "[memory]", row.executed_ns,
                    arguments);
  }

  const Run& run_;
  const schema::RankRow& rank_;
  ChromeWriter writer_;
  int64_t live_bytes_ = 0;
  int64_t live_bytes_on_host_ = 0;
  std::map<int64_t, std::vector<Launch>> launches_;  // by thread of the host
};

}  // namespace

Status WriteKineto(const store::RunFiles& run, const std::string& to, const ExportOptions&) {
  SHARDSCOPE_RETURN_IF_ERROR(MakeFolder(to));
  int64_t num_ranks = 0;
  for (const store::TraceFile& trace : run.traces) {
    SHARDSCOPE_ASSIGN_OR_RETURN(store::TraceReader reader, store::TraceReader::OpenNewest(trace));
    SHARDSCOPE_ASSIGN_OR_RETURN(const int64_t count,
                                reader.database().QueryInteger("SELECT count(*) FROM rank"));
    num_ranks += count;
  }
  for (const store::TraceFile& trace : run.traces) {
    // File by file: clocks and ids are put together by what reads them.
    Run rows;
    SHARDSCOPE_ASSIGN_OR_RETURN(rows.rows, ReadAll({run.path, run.name, {trace}, ""}));
    rows.num_ranks = num_ranks;
    rows.IndexAll();
    for (const schema::RankRow& rank : rows.rows.Get<schema::RankRow>()) {
      SHARDSCOPE_ASSIGN_OR_RETURN(OutputFile file,
                                  OutputFile::Create(fmt::format("{}/rank{}.json", to, rank.rank)));
      SHARDSCOPE_RETURN_IF_ERROR(RankFile(rows, rank, &file).Write());
      SHARDSCOPE_RETURN_IF_ERROR(file.Close());
    }
  }
  return Status::Ok();
}

}  // namespace shardscope::exports
