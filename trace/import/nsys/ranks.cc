#include "trace/import/nsys/ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <set>
#include <utility>

#include "trace/base/collective_names.h"
#include "trace/base/text.h"

namespace shardscope::imports {
namespace {

using Places = std::set<std::pair<GlobalProcess, int64_t>>;  // process, device

constexpr std::array<std::string_view, 4> kTablesOfWork = {
    "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_GRAPH_TRACE", "CUPTI_ACTIVITY_KIND_MEMCPY",
    "CUPTI_ACTIVITY_KIND_MEMSET"};
constexpr size_t kMostRanksOfFile = 4096;

std::optional<int32_t> NumberIn(std::string_view text) {
  int32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 0) return std::nullopt;
  return number;
}

// Of the program that was profiled.
std::optional<int32_t> EnvironmentNumber(std::string_view environment,
                                         std::initializer_list<std::string_view> keys) {
  for (const std::string_view key : keys) {
    for (const std::string_view assignment : Split(environment, ';')) {
      if (!assignment.starts_with(key) || assignment.substr(key.size(), 1) != "=") continue;
      if (const auto number = NumberIn(assignment.substr(key.size() + 1))) return number;
    }
  }
  return std::nullopt;
}

Status AddPlaces(ExportFile* file, std::string_view table, Places* places) {
  if (!file->Has(table)) return Status::Ok();
  SHARDSCOPE_ASSIGN_OR_RETURN(store::Statement rows,
                              file->Select(table, {"globalPid", "deviceId"}, "1 GROUP BY 1, 2"));
  while (true) {
    // What can be read of a damaged file counts.
    const Result<bool> is_row = rows.Step();
    if (!is_row.ok() || !*is_row) return Status::Ok();
    if (places->size() >= kMostRanksOfFile)
      return Status::Error("it tells of more than 4096 processes that use a GPU");
    places->emplace(rows.Integer(0), rows.Integer(1));
  }
}

// Of processes that use no GPU, those that mark ranges.
Status AddHosts(ExportFile* file, Places* places) {
  for (const std::string_view table : {"NVTX_EVENTS", "OSRT_API"}) {
    if (!file->Has(table, "globalTid")) continue;
    SHARDSCOPE_ASSIGN_OR_RETURN(
        store::Statement rows,
        file->Select(table, {"globalTid"},
                     fmt::format("globalTid IS NOT NULL GROUP BY globalTid & {}", ~kThreadBits)));
    while (places->size() < kMostRanksOfFile) {
      const Result<bool> is_row = rows.Step();
      if (!is_row.ok() || !*is_row) break;
      places->emplace(rows.Integer(0) & ~kThreadBits, -1);
    }
    if (!places->empty()) return Status::Ok();
  }
  return Status::Ok();
}

class RankFinder {
 public:
  RankFinder(ExportFile* file, const PayloadSchemas& schemas) : file_(*file), schemas_(schemas) {}

  Result<NsysRanks> Find() {
    SHARDSCOPE_RETURN_IF_ERROR(FindPlaces());
    if (found_.ranks.empty()) return std::move(found_);
    SHARDSCOPE_RETURN_IF_ERROR(ReadCommunicators());
    found_.num_ranks = static_cast<int>(found_.ranks.size());
    if (!NumberByEnvironment() && !NumberByThreads()) NumberByCommunicator();
    FindGroups();
    return std::move(found_);
  }

 private:
  Status FindPlaces() {
    Places places;
    // Copies alone touch devices in passing, but count where nothing computes.
    for (const std::string_view table : kTablesOfWork) {
      if (table == "CUPTI_ACTIVITY_KIND_MEMCPY" && !places.empty()) break;
      SHARDSCOPE_RETURN_IF_ERROR(AddPlaces(&file_, table, &places));
    }
    if (places.empty()) SHARDSCOPE_RETURN_IF_ERROR(AddHosts(&file_, &places));
    std::map<GlobalProcess, int> devices;
    for (const auto& [process, device] : places) ++devices[process];
    for (const auto& [process, device] : places)
      found_.ranks.push_back({process, device, devices[process] > 1, std::nullopt});
    return Status::Ok();
  }

  // Which rank of which communicators each place is.
  Status ReadCommunicators() {
    std::string where;
    for (const std::string_view column : kPayloadColumns) {
      if (!file_.Has("NVTX_EVENTS", column)) continue;
      where += fmt::format("{}{} IS NOT NULL", where.empty() ? "" : " OR ", column);
    }
    if (where.empty()) return Status::Ok();
    SHARDSCOPE_ASSIGN_OR_RETURN(
        store::Statement rows,
        file_.Select("NVTX_EVENTS",
                     {"globalTid", kPayloadColumns[0], kPayloadColumns[1], kPayloadColumns[2]},
                     where));
    while (true) {
      const Result<bool> is_row = rows.Step();
      if (!is_row.ok() || !*is_row) return Status::Ok();
      const auto member = NcclMemberOf(PayloadOf(rows, 1, schemas_, &file_));
      if (!member) continue;
      found_.num_ranks_of[member->communicator] = member->num_ranks;
      for (size_t at = 0; at < found_.ranks.size(); ++at) {
        const NsysRank& rank = found_.ranks[at];
        const bool is_it = rank.process == (rows.Integer(0) & ~kThreadBits) &&
                           (!rank.has_more_devices || rank.device == member->device);
        if (is_it) ranks_in_[member->communicator][at] = static_cast<int32_t>(member->rank);
      }
    }
  }

  // Where each rank was profiled on its own.
  bool NumberByEnvironment() {
    if (found_.ranks.size() != 1) return false;
    const std::string text = file_.ValueOf("TARGET_INFO_SYSTEM_ENV", "DeviceEnvironment");
    found_.ranks.front().rank =
        EnvironmentNumber(text, {"RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"});
    const auto size =
        EnvironmentNumber(text, {"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS"});
    if (found_.ranks.front().rank && size) found_.num_ranks = std::max(*size, 1);
    return found_.ranks.front().rank.has_value();
  }

  // Nsight Systems names main threads of MPI programs "MPI Rank 3".
  bool NumberByThreads() {
    if (!file_.Has("ThreadNames", "nameId")) return false;
    Result<store::Statement> rows = file_.Select("ThreadNames", {"globalTid", "nameId"});
    if (!rows.ok()) return false;
    constexpr std::string_view kPrefix = "MPI Rank ";
    std::map<GlobalProcess, int32_t> rank_of;
    while (true) {
      const Result<bool> is_row = rows->Step();
      if (!is_row.ok() || !*is_row) break;
      const std::string name = file_.TextOf(rows->Integer(1)).value_or("");
      if (!name.starts_with(kPrefix)) continue;
      if (const auto rank = NumberIn(std::string_view(name).substr(kPrefix.size())))
        rank_of[rows->Integer(0) & ~kThreadBits] = *rank;
    }
    std::vector<std::optional<int32_t>> numbers;
    for (const NsysRank& rank : found_.ranks) {
      const auto known = rank_of.find(rank.process);
      if (known == rank_of.end() || rank.has_more_devices) return false;
      numbers.emplace_back(known->second);
    }
    return Number(numbers);
  }

  // By the largest communicator that all are members of.
  void NumberByCommunicator() {
    int64_t most = 0;
    for (const auto& [communicator, rank_of] : ranks_in_) {
      const int64_t size = found_.num_ranks_of[communicator];
      if (rank_of.size() != found_.ranks.size() || size <= most) continue;
      std::vector<std::optional<int32_t>> numbers;
      for (const auto& [place, rank] : rank_of) numbers.emplace_back(rank);
      if (!Number(numbers)) continue;
      most = size;
      found_.num_ranks = static_cast<int>(size);
    }
  }

  bool Number(const std::vector<std::optional<int32_t>>& numbers) {
    if (std::set(numbers.begin(), numbers.end()).size() != numbers.size()) return false;
    for (size_t at = 0; at < numbers.size(); ++at) found_.ranks[at].rank = numbers[at];
    return true;
  }

  // Communicators of which the file tells all members, or that all ranks of the run are in.
  void FindGroups() {
    for (const auto& [communicator, size] : found_.num_ranks_of) {
      RecordedGroup group{.name = NcclGroupName(communicator), .description = "", .members = {}};
      const auto& rank_of = ranks_in_[communicator];
      if (static_cast<int64_t>(rank_of.size()) == size) {
        for (const auto& [place, rank] : rank_of)
          group.members.push_back(found_.ranks[place].rank.value_or(static_cast<int32_t>(place)));
      } else if (size == found_.num_ranks && size <= static_cast<int64_t>(kMostRanksOfFile)) {
        for (int32_t rank = 0; rank < size; ++rank) group.members.push_back(rank);
      }
      std::ranges::sort(group.members);
      if (size == found_.num_ranks && !group.members.empty()) group.description = kDefaultGroup;
      found_.groups.push_back(std::move(group));
    }
  }

  ExportFile& file_;
  const PayloadSchemas& schemas_;
  NsysRanks found_;
  std::map<int64_t, std::map<size_t, int32_t>> ranks_in_;  // by communicator, place
};

}  // namespace

Payload PayloadOf(const store::Statement& row, int column, const PayloadSchemas& schemas,
                  ExportFile* file) {
  using Type = store::Statement::Type;
  if (row.ColumnType(column) != Type::kNull) return schemas.Decode(row.Text(column));
  if (row.ColumnType(column + 1) != Type::kNull) return PayloadOfJson(row.Text(column + 1));
  if (row.ColumnType(column + 2) == Type::kNull) return {};
  return PayloadOfJson(file->TextOf(row.Integer(column + 2)).value_or(""));
}

Result<NsysRanks> FindRanks(ExportFile* file, const PayloadSchemas& schemas) {
  return RankFinder(file, schemas).Find();
}

}  // namespace shardscope::imports
