#include "trace/import/nsys/nsys.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "trace/base/file_heads.h"
#include "trace/import/nsys/export_file.h"
#include "trace/import/nsys/payload.h"
#include "trace/import/nsys/rank_reader.h"
#include "trace/import/nsys/ranks.h"
#include "trace/schema/ddl.h"

namespace shardscope::imports {
namespace {

namespace fs = std::filesystem;

constexpr size_t kApplicationIdAt = 68;  // sqlite.org/fileformat2.html, 1.3
constexpr int64_t kRowsPerProgress = 1 << 12;

// The file itself, not packed and no member of an archive.
bool IsPlain(const Input& input) {
  std::array<char, kSqliteHead.size()> head{};
  std::ifstream file(input.path, std::ios::binary);
  return file.read(head.data(), head.size()) &&
         std::string_view(head.data(), head.size()) == kSqliteHead;
}

}  // namespace

bool IsNsys(std::string_view head) {
  if (!head.starts_with(kSqliteHead) || head.size() < kApplicationIdAt + 4) return false;
  uint32_t application = 0;
  for (size_t byte = 0; byte < 4; ++byte)
    application = application << 8 | static_cast<unsigned char>(head[kApplicationIdAt + byte]);
  return application != schema::kApplicationId;
}

bool IsNsysFile(const Input& input) {
  // What is packed cannot be looked into; reading it says what to do.
  return !IsPlain(input) || ExportFile::Open(input.path).ok();
}

Status ReadNsys(const Input& input, const ReadProgress& progress, const TakeRecording& take) {
  if (!IsPlain(input)) {
    return Status::Error(fmt::format(
        "{} is a packed SQLite database: unpack it first, so that it can be read in any order",
        input.Title()));
  }
  SHARDSCOPE_ASSIGN_OR_RETURN(ExportFile file, ExportFile::Open(input.path));
  SHARDSCOPE_ASSIGN_OR_RETURN(const PayloadSchemas schemas, PayloadSchemas::Read(&file));
  Result<NsysRanks> ranks = FindRanks(&file, schemas);
  if (!ranks.ok()) return Status::Error(input.Title() + ": " + ranks.message());
  if (ranks->ranks.empty()) {
    return Status::Error(fmt::format(
        "{} holds no work of a GPU and no ranges: record with nsys profile -t cuda,nvtx,osrt",
        input.Title()));
  }
  int64_t all_rows = 1;
  for (const auto& [table, columns] : file.tables()) {
    if (RankReader::Takes(file, table)) all_rows += file.AboutNumRows(table);
  }
  std::error_code ignored;
  const auto bytes = static_cast<double>(fs::file_size(input.path, ignored));
  int64_t rows = 0;
  const RankReader::OnRow on_row = [&] {
    if (++rows % kRowsPerProgress != 0) return true;
    const double share =
        static_cast<double>(std::min(rows, all_rows)) / static_cast<double>(all_rows);
    return progress(static_cast<int64_t>(share * bytes));
  };
  for (const NsysRank& rank : ranks->ranks) {
    RankReader reader(&file, *ranks, rank, schemas, on_row);
    SHARDSCOPE_ASSIGN_OR_RETURN(Recording recording, reader.Read(input.Title()));
    SHARDSCOPE_RETURN_IF_ERROR(take(std::move(recording)));
  }
  return Status::Ok();
}

std::string RemedyForNsysReport(const Input& input, std::string_view head) {
  const std::string name = input.member.empty() ? input.path : input.member;
  const std::string ending = fs::path(name).extension().string();
  const bool is_report = IsNsysReport(head) || ending == ".nsys-rep" || ending == ".qdrep";
  if (!is_report) return "";
  return fmt::format(
      "{} is a report of Nsight Systems, which only that can read: export it first: "
      "nsys export --type sqlite {}",
      input.Title(), name);
}

}  // namespace shardscope::imports
