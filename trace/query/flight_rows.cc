// Rows of flight recorders in Snapshots.
#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>
#include <vector>

#include "trace/base/text.h"
#include "trace/base/words.h"
#include "trace/query/sane.h"
#include "trace/query/snapshot_builder.h"

namespace shardscope::query {
namespace {

// "0,1,2"; what is no rank is left out.
std::vector<int32_t> ParseMembers(std::string_view text) {
  std::vector<int32_t> members;
  for (const std::string_view part : Split(text, ',')) {
    int32_t rank = -1;
    std::from_chars(part.data(), part.data() + part.size(), rank);
    if (rank >= 0 && rank <= kMaxRank) members.push_back(rank);
  }
  std::sort(members.begin(), members.end());
  members.erase(std::unique(members.begin(), members.end()), members.end());
  return members;
}

bool SaneSequence(int64_t sequence) { return sequence >= -1 && sequence <= store::kMaxSequence; }

}  // namespace

void SnapshotBuilder::AddFlights(const store::RowBatch& batch) {
  for (const schema::FlightGroupRow& row : batch.Get<schema::FlightGroupRow>()) {
    if (RowsOfRank(row.rank) == nullptr || !SaneSequence(row.last_enqueued) ||
        !SaneSequence(row.last_started) || !SaneSequence(row.last_completed)) {
      Refuse();
      continue;
    }
    current_.flight_groups.Append({.rank = static_cast<int32_t>(row.rank),
                                   .name = row.name,
                                   .description = row.description,
                                   .members = ParseMembers(row.members),
                                   .last_enqueued = row.last_enqueued,
                                   .last_started = row.last_started,
                                   .last_completed = row.last_completed});
  }
  for (const schema::FlightEntryRow& row : batch.Get<schema::FlightEntryRow>()) {
    const std::optional<FlightState> state = words::ParseFlightState(row.state);
    if (RowsOfRank(row.rank) == nullptr || !state || !SaneSequence(row.sequence) ||
        !SaneTime(row.created_ns)) {
      Refuse();
      continue;
    }
    current_.flight_entries.Append({.rank = static_cast<int32_t>(row.rank),
                                    .stack = gpu_builder_.NameOf(row.stack_string),
                                    .sequence = row.sequence,
                                    .record = row.record,
                                    .created_ns = row.created_ns,
                                    .state = *state,
                                    .is_p2p = row.is_p2p != 0,
                                    .group = row.group_name,
                                    .name = row.name,
                                    .input = row.input,
                                    .output = row.output});
    Extend(row.created_ns, row.created_ns);
  }
}

}  // namespace shardscope::query
