// limit: a field for each kind of thing that a file tells of
// Recording: what one process of an imported run did, as importers find it and before it becomes
// rows (recording_rows.h). Times are nanoseconds of the clock of its file. Importers may give
// everything in any order.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "trace/base/words.h"
#include "trace/store/row_batch.h"

namespace shardscope::imports {

// Texts, each kept once.
class Names {
 public:
  using Index = uint32_t;

  Names() { (void)Add(""); }
  Names(const Names&) = delete;
  Names& operator=(const Names&) = delete;
  Names(Names&&) = default;
  Names& operator=(Names&&) = default;

  Index Add(std::string_view text);
  const std::string& operator[](Index index) const { return texts_[index]; }
  size_t size() const { return texts_.size(); }
  bool Has(std::string_view text) const { return index_of_.contains(text); }

 private:
  std::deque<std::string> texts_;  // never move: keys of the map
  std::unordered_map<std::string_view, Index> index_of_;
};

// A thread of the host, or a stream of a device. What programs marked on a stream has a track of
// its own, as have waits that are told of on a stream.
enum class TrackKind : uint8_t { kThread, kStream, kStreamRanges, kStreamWaits };

struct RecordedTrack {
  TrackKind kind = TrackKind::kThread;
  int64_t process = 0;  // of a thread
  int64_t thread = 0;
  int64_t device = 0;  // of a stream
  int64_t context = 0;
  int64_t stream = 0;
  int64_t priority = 0;
  std::string name;  // as the file says; may be empty

  bool IsOfDevice() const { return kind != TrackKind::kThread; }
};

// An interval on any track that is no work of a device.
struct RecordedSpan {
  int64_t start_ns = 0;
  int64_t duration_ns = 0;
  Names::Index name = 0;
  uint32_t track = 0;
  words::SpanCategory category = words::SpanCategory::kHost;
  bool is_operator = false;  // of the framework, on a thread: without a device it is what computes
};

// A call of the host that asked for work of a device.
struct RecordedLaunch {
  int64_t correlation = 0;
  int64_t start_ns = 0;
  int64_t duration_ns = 0;
  uint32_t track = 0;
};

struct KernelShape {
  std::array<int32_t, 3> grid{};
  std::array<int32_t, 3> block{};
  int32_t registers = 0;
  int32_t shared_bytes = 0;

  friend auto operator<=>(const KernelShape&, const KernelShape&) = default;
};

// What the file says of a collective that a kernel carries out. Bytes are of the whole payload, the
// side that all ranks have together.
struct RecordedCollective {
  std::string kind;   // all_gather, reduce_scatter, ... or what it is called
  std::string group;  // a name of the group of ranks; equal on all of them
  std::string dtype;
  int64_t payload_bytes = -1;  // -1: not told
  int64_t sequence = -1;       // in its group; -1: not told
  int32_t group_size = 0;      // 0: not told
};

// A kernel, copy or memset.
struct RecordedWork {
  int64_t start_ns = 0;
  int64_t duration_ns = 0;
  int64_t correlation = -1;  // of its launch; -1: not told
  int64_t bytes = 0;         // of a copy
  Names::Index name = 0;
  uint32_t track = 0;
  uint32_t shape = 0;       // index into Recording::shapes
  int32_t collective = -1;  // index into Recording::collectives
  int32_t graph = 0;
  int32_t graph_node = 0;
  int32_t channel = 0;
  words::GpuWorkKind kind = words::GpuWorkKind::kKernel;
  words::SpanCategory category = words::SpanCategory::kCompute;
};

// A stream waited for an event of another.
struct RecordedWait {
  int64_t time_ns = 0;
  uint32_t track = 0;               // of the stream that waited
  int64_t waited_stream = -1;       // whose event it was
  int64_t record_correlation = -1;  // of the call that recorded the event
};

struct RecordedMemory {
  int64_t time_ns = 0;  // when the host issued it
  int64_t bytes = 0;    // signed
  bool on_device = false;
  int32_t device = 0;
  int64_t held_ns = 0;       // after that it took effect
  Names::Index unit = 0;     // whose it is
  int64_t total_bytes = -1;  // of the device, with this; -1: not told
};

// A block of an allocator's memory, as a history of all of them tells.
struct RecordedAllocation {
  int64_t allocated_ns = 0;
  int64_t free_requested_ns = 0;
  int64_t free_completed_ns = 0;
  int64_t address = 0;
  int64_t requested_bytes = 0;
  int64_t block_bytes = 0;
  int64_t stream = 0;
  int32_t device = 0;
  uint32_t track = 0;        // of what asked for it
  Names::Index stack = 0;    // a line each frame
  Names::Index context = 0;  // what else is said of it
  Names::Index range = 0;    // innermost one that was open
  Names::Index unit = 0;
  std::optional<words::Phase> phase;
  words::AllocationState state = words::AllocationState::kFreed;
};

// Memory that an allocator took from the driver (positive) or gave back.
struct RecordedSegment {
  int64_t time_ns = 0;
  int64_t address = 0;
  int64_t bytes = 0;
  int32_t device = 0;
};

struct AllocatorHistory {
  std::vector<RecordedAllocation> blocks;
  std::vector<RecordedSegment> segments;
};

// Threads and streams of a file; what has more is damaged or made to break something.
inline constexpr size_t kMostTracks = 4096;
inline constexpr std::string_view kTooManyTracks =
    "events of more threads and streams than 4096, shown together";
inline constexpr int64_t kOtherTracks = -1000;  // their number

struct RecordedMarker {
  int64_t time_ns = 0;
  words::MarkerKind kind = words::MarkerKind::kError;
  std::string text;
};

struct RecordedCounter {
  int64_t time_ns = 0;
  double value = 0;
  Names::Index name = 0;
  uint32_t track = 0;
};

// A step as the file marks it, by the host.
struct RecordedStep {
  int64_t number = 0;
  int64_t start_ns = 0;
  int64_t duration_ns = 0;
};

// A group of ranks that meet.
struct RecordedGroup {
  std::string name;
  std::string description;
  std::vector<int32_t> members;  // ascending
};

// A collective, send or receive that a flight recorder remembers (flight_entry).
struct RecordedFlight {
  std::string group;  // its name
  int64_t sequence = -1;
  int64_t record = -1;
  int64_t operation = -1;
  int64_t created_ns = 0;
  int64_t started_after_ns = -1;
  int64_t completed_after_ns = -1;
  int64_t timeout_ns = -1;
  Names::Index name = 0;
  Names::Index input = 0;
  Names::Index output = 0;
  Names::Index stack = 0;
  words::FlightState state = words::FlightState::kScheduled;
  bool is_p2p = false;
  bool is_retired = false;
};

// What a flight recorder says of a group; sequences are -1 if they are not told.
struct RecordedFlightGroup {
  std::string name;
  std::string description;
  std::vector<int32_t> members;  // ascending
  int64_t last_enqueued = -1;
  int64_t last_started = -1;
  int64_t last_completed = -1;
};

struct FlightLog {
  std::vector<RecordedFlight> entries;
  std::vector<RecordedFlightGroup> groups;
};

struct Recording {
  std::string title;            // of the input, for people
  std::optional<int32_t> rank;  // as the file says
  int num_ranks = 1;            // of the run, as far as the file says
  // The file tells of other processes, too: its name says of none which rank it is.
  bool is_one_of_several = false;
  std::string host;
  int64_t process = 0;
  std::string device;                       // name of the GPU; empty: none
  std::map<std::string, std::string> meta;  // what else the file says of the run
  // What other tools take from the file as it is written: of each rank another. By constants of
  // trace/base/trace_keys.h.
  std::map<std::string_view, std::string> file_facts;
  Names names;
  std::vector<RecordedTrack> tracks;
  std::vector<RecordedSpan> spans;
  std::vector<RecordedLaunch> launches;
  std::vector<RecordedWork> works;
  std::vector<KernelShape> shapes;
  std::vector<RecordedCollective> collectives;
  std::vector<RecordedWait> waits;
  std::vector<RecordedMemory> memory;
  std::vector<RecordedCounter> counters;
  std::vector<RecordedStep> steps;
  std::vector<RecordedGroup> groups;
  AllocatorHistory allocator;
  std::vector<RecordedMarker> markers;
  FlightLog flight;
  // false: without marks of steps there are none.
  bool has_unmarked_step = true;
  // Of an export of ours: the rows themselves; nothing above counts then.
  std::unique_ptr<store::RowBatch> rows;
  // What was not taken, in words, and how often; what was mended likewise.
  std::map<std::string, int64_t> not_understood;
  // Why the file is not whole; empty: it is.
  std::string cut;
};

struct RecordedTimes {
  int64_t first_ns = 0;
  int64_t last_ns = -1;  // before the first: nothing has a time
};
// Of spans, work and what flight recorders remember.
RecordedTimes TimesOf(const Recording& recording);

// Adds what another file tells of the same process, on the same clock: tracks, spans, counters,
// steps, memory, markers and flights, but no work of a device. What it tells of memory takes the
// place of what `to` has, and ranges of the host that `to` names, too, are left out. `format`: a
// key, for what was not understood of it.
void AddRecording(Recording addition, std::string_view format, Recording* to);

}  // namespace shardscope::imports
