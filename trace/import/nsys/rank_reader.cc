#include "trace/import/nsys/rank_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <set>

#include "trace/base/collective_names.h"
#include "trace/base/sane_time.h"
#include "trace/base/text.h"
#include "trace/import/format.h"
#include "trace/import/nsys/step_marks.h"

namespace shardscope::imports {
namespace {

using words::GpuWorkKind;
using words::SpanCategory;
using Type = store::Statement::Type;

constexpr std::string_view kKernels = "CUPTI_ACTIVITY_KIND_KERNEL";
constexpr std::string_view kGraphs = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE";
constexpr std::string_view kCopies = "CUPTI_ACTIVITY_KIND_MEMCPY";
constexpr std::string_view kSets = "CUPTI_ACTIVITY_KIND_MEMSET";
constexpr std::string_view kCalls = "CUPTI_ACTIVITY_KIND_RUNTIME";
constexpr std::string_view kSyncs = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION";
constexpr std::string_view kEvents = "CUPTI_ACTIVITY_KIND_CUDA_EVENT";
constexpr std::string_view kMemory = "CUDA_GPU_MEMORY_USAGE_EVENTS";
constexpr std::string_view kNvtx = "NVTX_EVENTS";

// Read for what they say of other rows.
constexpr std::array<std::string_view, 21> kFacts = {"DIAGNOSTIC_EVENT",
                                                     "StringIds",
                                                     "ThreadNames",
                                                     "PROCESSES",
                                                     "ProcessStreams",
                                                     "ANALYSIS_DETAILS",
                                                     "ANALYSIS_FILE",
                                                     "EXPORT_META_DATA",
                                                     "META_DATA_EXPORT",
                                                     "META_DATA_CAPTURE",
                                                     "UnwindMethodType",
                                                     "sqlite_sequence",
                                                     "CUDA_CALLCHAINS",
                                                     "OSRT_CALLCHAINS",
                                                     "CUPTI_ACTIVITY_KIND_CUDA_EVENT",
                                                     "NVTX_PAYLOAD_SCHEMAS",
                                                     "NVTX_PAYLOAD_SCHEMA_ENTRIES",
                                                     "NVTX_PAYLOAD_ENUMS",
                                                     "NVTX_PAYLOAD_ENUM_ENTRIES",
                                                     "NVTX_SCOPES",
                                                     "CUDA_GRAPH_NODE_EVENTS"};

// NVTX_EVENTS.eventType (ENUM_NSYS_EVENT_TYPE); those of text files lie 11 and 31 higher.
enum NvtxType : int64_t {
  kCategoryName = 33,
  kMark = 34,
  kThreadName = 39,
  kPushPop = 59,
  kStartEnd = 60,
  kTextMark = 65,
  kTextPushPop = 70,
  kTextStartEnd = 71,
  kDomainCreated = 75,
  kDomainGone = 76
};

// Names of threads that mark ranges which begin and end anywhere.
constexpr int64_t kFirstRangesThread = -1000;

// CUPTI_ACTIVITY_KIND_MEMCPY.copyKind (ENUM_CUDA_MEMCPY_OPER).
std::pair<std::string_view, GpuWorkKind> CopyOf(int64_t kind) {
  switch (kind) {
    case 1:
    case 3:
    case 11:
      return {"HtoD", GpuWorkKind::kCopyToDevice};
    case 2:
    case 4:
    case 12:
      return {"DtoH", GpuWorkKind::kCopyToHost};
    case 5:
    case 6:
    case 7:
    case 8:
    case 13:
      return {"DtoD", GpuWorkKind::kCopyOnDevice};
    case 9:
      return {"HtoH", GpuWorkKind::kCopy};
    case 10:
      return {"PtoP", GpuWorkKind::kCopyToPeer};
    default:
      return {"", GpuWorkKind::kCopy};
  }
}

// ENUM_CUDA_MEM_KIND, in the words of Kineto.
std::string_view MemoryWord(int64_t kind) {
  constexpr std::array<std::string_view, 7> kWords = {
      "Pageable", "Pinned", "Device", "Array", "Managed", "Device Static", "Managed Static"};
  return kind >= 0 && kind < static_cast<int64_t>(kWords.size()) ? kWords[static_cast<size_t>(kind)]
                                                                 : std::string_view("Unknown");
}

int32_t Narrow(int64_t value) {
  return static_cast<int32_t>(std::clamp<int64_t>(value, 0, INT32_MAX));
}

// "cudaLaunchKernel_ptsz_v7000": the call, without its version.
std::string_view WithoutVersion(std::string_view call) {
  const size_t at = call.rfind("_v");
  if (at == std::string_view::npos || at + 2 == call.size()) return call;
  const std::string_view version = call.substr(at + 2);
  return version.find_first_not_of("0123456789") == std::string_view::npos ? call.substr(0, at)
                                                                           : call;
}

// torch.autograd.profiler.emit_nvtx() writes "aten::add, seq = 3, op_id = 17, sizes = [...]"
// (torch/csrc/autograd/profiler_legacy.cpp: getNvtxStr()).
std::string_view WithoutIds(std::string_view name) {
  size_t end = name.size();
  for (const std::string_view key : {", seq = ", ", op_id = ", ", sizes = ", ", input_op_ids = "})
    end = std::min(end, name.find(key));
  return name.substr(0, end);
}

bool IsHostTable(const ExportFile& file, std::string_view table) {
  return table != kCalls && table != kNvtx && file.Has(table, "start") && file.Has(table, "end") &&
         file.Has(table, "globalTid") && (file.Has(table, "nameId") || file.Has(table, "textId"));
}

}  // namespace

RankReader::RankReader(ExportFile* file, const NsysRanks& ranks, const NsysRank& rank,
                       const PayloadSchemas& schemas, const OnRow& on_row)
    : file_(*file), ranks_(ranks), rank_(rank), schemas_(schemas), on_row_(on_row) {}

bool RankReader::Takes(const ExportFile& file, std::string_view table) {
  return table == kKernels || table == kGraphs || table == kCopies || table == kSets ||
         table == kCalls || table == kSyncs || table == kMemory || table == kNvtx ||
         IsHostTable(file, table);
}

Result<Recording> RankReader::Read(std::string title) {
  recording_.title = std::move(title);
  recording_.rank = rank_.rank;
  recording_.process = ProcessOf(rank_.process);
  recording_.num_ranks = ranks_.num_ranks;
  recording_.is_one_of_several = ranks_.ranks.size() > 1;
  recording_.groups = ranks_.groups;
  SHARDSCOPE_RETURN_IF_ERROR(ReadCalls());
  SHARDSCOPE_RETURN_IF_ERROR(ReadKernels());
  SHARDSCOPE_RETURN_IF_ERROR(ReadGraphs());
  SHARDSCOPE_RETURN_IF_ERROR(ReadCopies());
  SHARDSCOPE_RETURN_IF_ERROR(ReadSets());
  SHARDSCOPE_RETURN_IF_ERROR(ReadSyncs());
  SHARDSCOPE_RETURN_IF_ERROR(ReadRanges());
  SHARDSCOPE_RETURN_IF_ERROR(ReadHostTables());
  SHARDSCOPE_RETURN_IF_ERROR(ReadMemory());
  ReadFacts();
  nccl_.Join(ranks_.num_ranks_of, &recording_);
  recording_.steps = FindSteps(recording_);
  CountLeftOut();
  return std::move(recording_);
}

Status RankReader::Each(std::string_view table, std::initializer_list<std::string_view> columns,
                        const std::string& where, const std::function<void(const Row&)>& take) {
  if (!file_.Has(table)) return Status::Ok();
  Result<store::Statement> rows = file_.Select(table, columns, where);
  if (!rows.ok()) {
    recording_.cut = rows.message();
    return Status::Ok();
  }
  while (true) {
    const Result<bool> is_row = rows->Step();
    if (!is_row.ok()) {
      recording_.cut = fmt::format("of {} not all can be read: {}", table, is_row.message());
      return Status::Ok();
    }
    if (!*is_row) return Status::Ok();
    take(*rows);
    if (!on_row_()) return Status::Error(kCancelled);
  }
}

std::string RankReader::OfDevice(std::string_view table) const {
  std::string where;
  if (rank_.process != 0 && file_.Has(table, "globalPid"))
    where = fmt::format("globalPid = {}", rank_.process);
  if (rank_.has_more_devices && file_.Has(table, "deviceId"))
    where += fmt::format("{}deviceId = {}", where.empty() ? "" : " AND ", rank_.device);
  return where;
}

std::string RankReader::OfThreads(std::string_view table) const {
  if (rank_.process == 0 || !file_.Has(table, "globalTid")) return "";
  return fmt::format("(globalTid & {}) = {}", ~kThreadBits, rank_.process);
}

bool RankReader::HasStart(const Row& row) {
  const int64_t from = row.Integer(0);
  const bool has_start = row.ColumnType(0) == Type::kInteger && from > -kLatestSaneNs &&
                         from < kLatestSaneNs - file_.start_ns();
  if (!has_start) Miss("rows without a time that can be read");
  return has_start;
}

bool RankReader::TimesOf(const Row& row, int64_t* start_ns, int64_t* duration_ns) {
  if (!HasStart(row)) return false;
  const int64_t from = row.Integer(0);
  *start_ns = from + file_.start_ns();
  const int64_t to = std::clamp(row.Integer(1), from - 1, kLatestSaneNs);
  if (to < from) Miss("rows that end before they begin, taken as moments");
  *duration_ns = std::max<int64_t>(to - from, 0);
  return true;
}

Names::Index RankReader::AddName(std::string_view text) {
  const std::string printable = Printable(text);
  if (printable != text) Miss("names with bytes that are no UTF-8 or no text, shown as ?");
  return recording_.names.Add(printable);
}

// The first of these columns that has an id with a text.
Names::Index RankReader::NameOf(const Row& row, std::initializer_list<int> columns) {
  for (const int column : columns) {
    if (row.ColumnType(column) != Type::kInteger) continue;
    const auto [name, is_new] = name_of_.try_emplace(row.Integer(column), 0);
    if (is_new) {
      const auto text = file_.TextOf(name->first);
      if (text) name->second = AddName(*text);
    }
    if (name->second != 0) return name->second;
  }
  Miss("names that the file lacks");
  return AddName("(no name)");
}

uint32_t RankReader::ThreadTrack(int64_t global_thread) {
  const int64_t thread = ThreadOf(global_thread);
  return tracks_.Of(
      {TrackKind::kThread, thread, 0, 0},
      {.kind = TrackKind::kThread, .process = recording_.process, .thread = thread, .name = ""});
}

// Ranges that need not end on the thread on which they began, nor one within another.
uint32_t RankReader::RangesTrack(int64_t domain) {
  const int64_t thread = kFirstRangesThread - std::clamp<int64_t>(domain, 0, 1 << 20);
  const auto name = domains_.find(domain);
  return tracks_.Of(
      {TrackKind::kThread, thread, 0, 0},
      {.kind = TrackKind::kThread,
       .process = recording_.process,
       .thread = thread,
       .name = name == domains_.end() ? "NVTX ranges" : "NVTX ranges of " + name->second});
}

uint32_t RankReader::StreamTrack(TrackKind kind, int64_t device, int64_t context, int64_t stream) {
  return tracks_.Of(
      {kind, device, context, stream},
      {.kind = kind, .device = device, .context = context, .stream = stream, .name = ""});
}

uint32_t RankReader::ShapeOf(const Row& row, int first_column) {
  KernelShape shape;
  for (int axis = 0; axis < 3; ++axis) {
    shape.grid[static_cast<size_t>(axis)] = Narrow(row.Integer(first_column + axis));
    shape.block[static_cast<size_t>(axis)] = Narrow(row.Integer(first_column + 3 + axis));
  }
  shape.registers = Narrow(row.Integer(first_column + 6));
  shape.shared_bytes = Narrow(int64_t{Narrow(row.Integer(first_column + 7))} +
                              Narrow(row.Integer(first_column + 8)));
  return shapes_.Of(shape);
}

// Columns: start, end, device, context, stream, correlation.
void RankReader::AddWork(const Row& row, RecordedWork work) {
  if (!TimesOf(row, &work.start_ns, &work.duration_ns)) return;
  work.track = StreamTrack(TrackKind::kStream, row.Integer(2), row.Integer(3), row.Integer(4));
  work.correlation = row.ColumnType(5) == Type::kInteger ? row.Integer(5) : -1;
  if (work.kind == GpuWorkKind::kKernel) {
    const std::string& name = recording_.names[work.name];
    if (IsCommunicationKernel(name)) {
      work.category = SpanCategory::kCommunication;
      work.collective = static_cast<int32_t>(recording_.collectives.size());
      RecordedCollective collective;
      collective.kind = CollectiveKindOfKernel(name);
      recording_.collectives.push_back(std::move(collective));
      if (Contains(name, "nccl")) recording_.meta["backend"] = "nccl";
    }
  } else {
    work.category = SpanCategory::kCopy;
    work.shape = shapes_.Of({});
  }
  recording_.works.push_back(work);
}

Status RankReader::ReadKernels() {
  return Each(kKernels,
              {"start",
               "end",
               "deviceId",
               "contextId",
               "streamId",
               "correlationId",
               "demangledName",
               "shortName",
               "mangledName",
               "gridX",
               "gridY",
               "gridZ",
               "blockX",
               "blockY",
               "blockZ",
               "registersPerThread",
               "staticSharedMemory",
               "dynamicSharedMemory",
               "graphId",
               "graphNodeId"},
              OfDevice(kKernels), [this](const Row& row) {
                RecordedWork work;
                work.name = NameOf(row, {6, 7, 8});
                work.shape = ShapeOf(row, 9);
                work.graph = Narrow(row.Integer(18));
                // The id of the graph stands above that of its node.
                work.graph_node = Narrow(row.Integer(19) & INT32_MAX);
                AddWork(row, work);
              });
}

// Launches of graphs whose kernels were not traced one by one.
Status RankReader::ReadGraphs() {
  return Each(kGraphs,
              {"start", "end", "deviceId", "contextId", "streamId", "correlationId", "graphId"},
              OfDevice(kGraphs), [this](const Row& row) {
                RecordedWork work;
                work.graph = Narrow(row.Integer(6));
                work.name = AddName(fmt::format("CUDA graph {}", work.graph));
                work.shape = shapes_.Of({});
                AddWork(row, work);
              });
}

Status RankReader::ReadCopies() {
  return Each(kCopies,
              {"start", "end", "deviceId", "contextId", "streamId", "correlationId", "bytes",
               "copyKind", "srcKind", "dstKind", "graphNodeId"},
              OfDevice(kCopies), [this](const Row& row) {
                RecordedWork work;
                const auto [word, kind] = CopyOf(row.Integer(7));
                work.kind = kind;
                work.bytes = std::max<int64_t>(row.Integer(6), 0);
                work.graph_node = Narrow(row.Integer(10) & INT32_MAX);
                work.name =
                    AddName(fmt::format("Memcpy {}{}({} -> {})", word, word.empty() ? "" : " ",
                                        MemoryWord(row.Integer(8)), MemoryWord(row.Integer(9))));
                AddWork(row, work);
              });
}

Status RankReader::ReadSets() {
  return Each(kSets,
              {"start", "end", "deviceId", "contextId", "streamId", "correlationId", "bytes",
               "memKind", "graphNodeId"},
              OfDevice(kSets), [this](const Row& row) {
                RecordedWork work;
                work.kind = GpuWorkKind::kSet;
                work.bytes = std::max<int64_t>(row.Integer(6), 0);
                work.graph_node = Narrow(row.Integer(8) & INT32_MAX);
                work.name = AddName(fmt::format("Memset ({})", MemoryWord(row.Integer(7))));
                AddWork(row, work);
              });
}

Status RankReader::ReadCalls() {
  return Each(kCalls, {"start", "end", "globalTid", "correlationId", "nameId"}, OfThreads(kCalls),
              [this](const Row& row) {
                RecordedSpan span;
                if (!TimesOf(row, &span.start_ns, &span.duration_ns)) return;
                span.track = ThreadTrack(row.Integer(2));
                const Names::Index name = NameOf(row, {4});
                span.name =
                    recording_.names.Add(std::string(WithoutVersion(recording_.names[name])));
                if (row.ColumnType(3) == Type::kInteger) {
                  recording_.launches.push_back(
                      {row.Integer(3), span.start_ns, span.duration_ns, span.track});
                }
                recording_.spans.push_back(span);
              });
}

// Waits, as Kineto names them (ENUM_CUPTI_SYNC_TYPE).
Status RankReader::ReadSyncs() {
  struct Recorded {
    int64_t stream = -1;
    int64_t correlation = -1;
  };
  std::unordered_map<int64_t, Recorded> events;  // by eventSyncId
  if (file_.Has(kEvents, "eventSyncId")) {
    SHARDSCOPE_RETURN_IF_ERROR(Each(kEvents, {"eventSyncId", "streamId", "correlationId"},
                                    OfDevice(kEvents), [&events](const Row& row) {
                                      events[row.Integer(0)] = {row.Integer(1), row.Integer(2)};
                                    }));
  }
  return Each(kSyncs,
              {"start", "end", "deviceId", "contextId", "streamId", "syncType", "eventSyncId"},
              OfDevice(kSyncs), [&](const Row& row) {
                constexpr std::array<std::string_view, 5> kNames = {
                    "Sync", "Event Sync", "Stream Wait Event", "Stream Sync", "Context Sync"};
                const int64_t type = row.Integer(5);
                const bool is_known = type >= 0 && type < static_cast<int64_t>(kNames.size());
                const bool is_of_stream = type == 2 || type == 3;
                RecordedSpan span;
                if (!TimesOf(row, &span.start_ns, &span.duration_ns)) return;
                span.category = SpanCategory::kWait;
                span.name = AddName(is_known ? kNames[static_cast<size_t>(type)] : kNames[0]);
                span.track = StreamTrack(TrackKind::kStreamWaits, row.Integer(2), row.Integer(3),
                                         is_of_stream ? row.Integer(4) : -1);
                recording_.spans.push_back(span);
                if (type != 2) return;
                RecordedWait wait{.time_ns = span.start_ns, .track = span.track};
                if (const auto event = events.find(row.Integer(6)); event != events.end()) {
                  wait.waited_stream = event->second.stream;
                  wait.record_correlation = event->second.correlation;
                }
                recording_.waits.push_back(wait);
              });
}

void RankReader::TakePayload(const Row& row, std::string_view name, const RecordedSpan& span) {
  constexpr int kFirstNumber = 6;  // columns: six typed values, of which one is there
  constexpr int kNumNumbers = 6;
  const Payload payload = PayloadOf(row, kFirstNumber + kNumNumbers, schemas_, &file_);
  if (name.starts_with("nccl")) return nccl_.Take(name, payload, span);
  const auto add = [&](std::string_view what, double value) {
    recording_.counters.push_back(
        {span.start_ns, value, AddName(fmt::format("{}: {}", name, what)), span.track});
  };
  for (const Payload::Field& field : payload.fields()) add(field.name, field.value);
  for (int column = kFirstNumber; column < kFirstNumber + kNumNumbers; ++column) {
    const Type type = row.ColumnType(column);
    if (type == Type::kInteger || type == Type::kReal) return add("payload", row.Real(column));
  }
}

// Columns: start, end, eventType, globalTid, text, textId, values, payload, domainId.
void RankReader::TakeNvtx(const Row& row) {
  const int64_t type = row.Integer(2);
  const int64_t domain = row.Integer(15);
  std::string text(row.Text(4));
  if (row.ColumnType(4) == Type::kNull) text = file_.TextOf(row.Integer(5)).value_or("");
  if (type == kThreadName) {
    RecordedTrack& track = recording_.tracks[ThreadTrack(row.Integer(3))];
    if (track.thread != kOtherTracks) track.name = Printable(text);
    return;
  }
  if (type == kDomainCreated || type == kDomainGone || type == kCategoryName) return;
  const bool is_mark = type == kMark || type == kTextMark;
  const bool is_range = type == kStartEnd || type == kTextStartEnd;
  if (!is_mark && !is_range && type != kPushPop && type != kTextPushPop)
    return Miss(fmt::format("NVTX events of type {}", type));
  if (!is_mark && row.ColumnType(1) != Type::kInteger) return Miss("NVTX ranges that never end");
  RecordedSpan span;
  if (is_mark && row.ColumnType(1) != Type::kInteger) {
    if (!HasStart(row)) return;
    span.start_ns = row.Integer(0) + file_.start_ns();
  } else if (!TimesOf(row, &span.start_ns, &span.duration_ns)) {
    return;
  }
  span.track = is_range ? RangesTrack(domain) : ThreadTrack(row.Integer(3));
  const std::string_view name = WithoutIds(text);
  span.is_operator = name.size() < text.size();
  const auto domain_name = domains_.find(domain);
  // Libraries name their ranges after themselves.
  const bool is_plain = domain_name == domains_.end() || domain == 0 || Contains(name, "nccl") ||
                        name.starts_with(domain_name->second);
  span.name =
      AddName(is_plain ? std::string(name) : fmt::format("{}: {}", domain_name->second, name));
  recording_.spans.push_back(span);
  TakePayload(row, name, span);
}

Status RankReader::ReadRanges() {
  SHARDSCOPE_RETURN_IF_ERROR(
      Each(kNvtx, {"domainId", "text", "textId"},
           fmt::format("eventType = {}{}{}", static_cast<int64_t>(kDomainCreated),
                       OfThreads(kNvtx).empty() ? "" : " AND ", OfThreads(kNvtx)),
           [this](const Row& row) {
             std::string name(row.Text(1));
             if (name.empty()) name = file_.TextOf(row.Integer(2)).value_or("");
             if (!name.empty()) domains_[row.Integer(0)] = Printable(name);
           }));
  return Each(kNvtx,
              {"start", "end", "eventType", "globalTid", "text", "textId", "uint64Value",
               "int64Value", "doubleValue", "uint32Value", "int32Value", "floatValue",
               kPayloadColumns[0], kPayloadColumns[1], kPayloadColumns[2], "domainId"},
              OfThreads(kNvtx), [this](const Row& row) { TakeNvtx(row); });
}

// Calls of the system, MPI, cuDNN, cuBLAS and others; what the profiler itself took.
Status RankReader::ReadHostTables() {
  for (const auto& [table, columns] : file_.tables()) {
    if (!IsHostTable(file_, table)) continue;
    const bool is_overhead = Contains(table, "OVERHEAD");
    SHARDSCOPE_RETURN_IF_ERROR(Each(table, {"start", "end", "globalTid", "nameId", "textId"},
                                    OfThreads(table), [this, is_overhead](const Row& row) {
                                      RecordedSpan span;
                                      if (row.ColumnType(2) != Type::kInteger)
                                        return Miss("rows of no thread");
                                      if (!TimesOf(row, &span.start_ns, &span.duration_ns)) return;
                                      span.track = ThreadTrack(row.Integer(2));
                                      span.name = NameOf(row, {3, 4});
                                      if (is_overhead)
                                        span.name =
                                            AddName("profiler: " + recording_.names[span.name]);
                                      recording_.spans.push_back(span);
                                    }));
  }
  return Status::Ok();
}

Status RankReader::ReadMemory() {
  return Each(kMemory, {"start", "bytes", "memKind", "memoryOperationType", "deviceId"},
              OfDevice(kMemory), [this](const Row& row) {
                constexpr int64_t kFirstOfDevice = 2;  // ENUM_CUDA_MEM_KIND
                constexpr int64_t kLastOfDevice = 6;
                constexpr int64_t kLargest = int64_t{1} << 61;
                if (!HasStart(row)) return;
                const int64_t at = row.Integer(0);
                const int64_t bytes = row.Integer(1);
                if (bytes < 0 || bytes > kLargest) {
                  return Miss("rows of memory of a size that cannot be");
                }
                const int64_t kind = row.Integer(2);
                recording_.memory.push_back(
                    {at + file_.start_ns(), row.Integer(3) == 0 ? bytes : -bytes,
                     kind >= kFirstOfDevice && kind <= kLastOfDevice, Narrow(row.Integer(4))});
              });
}

// What tables say of processes, threads, streams and the machine.
void RankReader::ReadFacts() {
  const std::string pid = std::to_string(recording_.process);
  (void)Each("ThreadNames", {"globalTid", "nameId"}, OfThreads("ThreadNames"),
             [this](const Row& row) {
               RecordedTrack* const track =
                   tracks_.Find({TrackKind::kThread, ThreadOf(row.Integer(0)), 0, 0});
               if (track == nullptr || !track->name.empty()) return;
               track->name = Printable(file_.TextOf(row.Integer(1)).value_or(""));
             });
  const std::string_view streams = "TARGET_INFO_CUDA_STREAM";
  (void)Each(streams, {"contextId", "streamId", "priority"},
             file_.Has(streams, "processId") ? "processId = " + pid : "", [this](const Row& row) {
               for (RecordedTrack& track : recording_.tracks) {
                 if (track.IsOfDevice() && track.context == row.Integer(0) &&
                     track.stream == row.Integer(1)) {
                   track.priority = std::clamp<int64_t>(row.Integer(2), -1000, 1000);
                 }
               }
             });
  if (rank_.device >= 0) {
    int64_t gpu = rank_.device;
    (void)Each("TARGET_INFO_CUDA_DEVICE", {"gpuId", "cudaId"},
               file_.Has("TARGET_INFO_CUDA_DEVICE", "pid") ? "pid = " + pid : "",
               [&](const Row& row) {
                 if (row.Integer(1) == rank_.device) gpu = row.Integer(0);
               });
    (void)Each("TARGET_INFO_GPU", {"id", "name"}, "", [&](const Row& row) {
      if (row.Integer(0) == gpu || recording_.device.empty())
        recording_.device = Printable(row.Text(1));
    });
    if (recording_.device.empty()) recording_.device = fmt::format("GPU {}", rank_.device);
  }
  // "Not all CUDA events might have been collected."
  (void)Each("DIAGNOSTIC_EVENT", {"text"}, "", [this](const Row& row) {
    constexpr size_t kLongest = 120;
    const std::string text = Printable(row.Text(0));
    const bool is_loss = Contains(text, "Not all") || Contains(text, "dropped") ||
                         Contains(text, "lost") || Contains(text, "might have been");
    if (is_loss && recording_.cut.empty())
      recording_.cut = "nsys says: " + Shortened(text, kLongest);
  });
  recording_.host = Printable(file_.ValueOf("TARGET_INFO_SYSTEM_ENV", "Hostname"));
  for (const auto& [key, name] : {std::pair("EXPORT_PRODUCT_VERSION", "nsys_version"),
                                  std::pair("EXPORT_SCHEMA_VERSION", "nsys_schema")}) {
    std::string value = file_.ValueOf("META_DATA_EXPORT", key);
    if (value.empty()) value = file_.ValueOf("EXPORT_META_DATA", key);
    if (!value.empty()) recording_.meta[name] = Printable(value);
  }
}

// Of the whole file, so once.
void RankReader::CountLeftOut() {
  if (&rank_ != &ranks_.ranks.front()) return;
  for (const auto& [table, columns] : file_.tables()) {
    const bool is_known = Takes(file_, table) || table.starts_with("ENUM_") ||
                          table.starts_with("TARGET_INFO_") ||
                          std::ranges::find(kFacts, table) != kFacts.end();
    if (is_known) continue;
    const int64_t rows = file_.AboutNumRows(table);
    if (rows > 0) Miss(fmt::format("table {}", Printable(table)), rows);
  }
}

}  // namespace shardscope::imports
