#include "trace/import/import.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include "trace/base/file_heads.h"
#include "trace/base/mutex.h"
#include "trace/base/output_folder.h"
#include "trace/base/parallel.h"
#include "trace/base/time.h"
#include "trace/import/format.h"
#include "trace/import/input.h"
#include "trace/import/nsys/nsys.h"
#include "trace/import/recording_rows.h"
#include "trace/store/trace_file.h"

namespace shardscope::imports {
namespace {

namespace fs = std::filesystem;

// Takes some seconds, compressed or not.
constexpr uintmax_t kSoonImportedBytes = 50'000'000;

// Ranks of one run are recorded at the same time; a recording takes minutes.
constexpr int64_t kMostApartNs = 3600 * kNsPerSecond;
constexpr int64_t kFirstTimeOfDayNs = 1'000'000'000 * kNsPerSecond;  // before: since some boot

// Of the time that a file takes: until all its events are known.
constexpr double kShareOfReading = 0.4;

struct Part {
  Input input;
  const Format* format = nullptr;
  std::optional<int32_t> rank;  // by its name
};

// A number behind "rank" or "worker" in the name of a file: rank-3.json, rank3_trace, worker_12.
std::optional<int32_t> RankOfName(const Input& input) {
  const std::string name =
      fs::path(input.member.empty() ? input.path : input.member).filename().string();
  for (const std::string_view word : {"rank", "Rank", "worker"}) {
    for (size_t at = name.find(word); at != std::string::npos; at = name.find(word, at + 1)) {
      size_t digits = at + word.size();
      while (digits < name.size() &&
             (name[digits] == '-' || name[digits] == '_' || name[digits] == '.'))
        ++digits;
      int32_t rank = 0;
      const auto [end, error] =
          std::from_chars(name.data() + digits, name.data() + name.size(), rank);
      if (error == std::errc() && rank >= 0) return rank;
    }
  }
  return std::nullopt;
}

class Importing {
 public:
  Importing(std::vector<Part> parts, std::string folder, std::string name,
            const ImportOptions& options)
      : parts_(InOrder(std::move(parts))),
        num_primary_(static_cast<size_t>(
            std::count_if(parts_.begin(), parts_.end(),
                          [](const Part& part) { return !part.format->is_addition; }))),
        num_expected_(MostOfOneFormat(parts_)),
        folder_(std::move(folder)),
        name_(std::move(name)),
        options_(options),
        positions_(parts_.size()) {
    for (const Part& part : parts_) {
      std::error_code ignored;
      if (files_.insert(part.input.path).second) {
        all_bytes_ += static_cast<int64_t>(fs::file_size(part.input.path, ignored));
      }
    }
  }

  Status Run() {
    const size_t additions = parts_.size() - num_primary_;
    // What adds to others is there before they are written.
    ForEach(additions, [this](size_t index) { return ImportPart(num_primary_ + index); });
    ForEach(num_primary_, [this](size_t index) { return ImportPart(index); });
    std::vector<int32_t> alone;
    {
      const MutexLock lock(mutex_);
      for (const auto& [rank, additions_of_rank] : additions_) alone.push_back(rank);
    }
    ForEach(alone.size(), [&](size_t index) { return WriteAdditions(alone[index]); });
    const MutexLock lock(mutex_);
    if (status_.ok() && options_.progress) (void)options_.progress(all_bytes_, all_bytes_);
    return status_;
  }

  int num_ranks() {
    const MutexLock lock(mutex_);
    return static_cast<int>(ranks_.size());
  }

 private:
  // Of one rank, read and not yet written.
  struct Addition {
    const Format* format = nullptr;
    Recording recording;
    size_t part = 0;
    int64_t read_bytes = 0;
  };

  // Until one of them fails.
  void ForEach(size_t count, const std::function<Status(size_t)>& import) {
    const auto work = [&](size_t index) {
      if (stopped_) return Status::Ok();
      Status status = import(index);
      if (!status.ok()) stopped_ = true;
      return status;
    };
    const Status status = ForEachIndex(count, static_cast<size_t>(options_.num_threads), work);
    const MutexLock lock(mutex_);
    if (status_.ok()) status_ = status;
  }

  Status ImportPart(size_t index) {
    const Part& part = parts_[index];
    int64_t before = -1;  // of the member, in its archive
    int64_t read_bytes = 0;
    const auto progress = [&](int64_t position) {
      if (before < 0) before = part.input.position == 0 ? 0 : position;
      read_bytes = position - before;
      return Progress(index, kShareOfReading * static_cast<double>(read_bytes));
    };
    return part.format->read(part.input, progress, [&](Recording recording) {
      SHARDSCOPE_ASSIGN_OR_RETURN(const int32_t rank, TakeRank(part, recording));
      if (!part.format->is_addition) {
        return Write(rank, part.format, std::move(recording), GoOnWith(index, read_bytes));
      }
      const MutexLock lock(mutex_);
      additions_[rank].push_back({part.format, std::move(recording), index, read_bytes});
      return Status::Ok();
    });
  }

  // While a part is written of which so many bytes were read.
  GoOn GoOnWith(size_t index, int64_t read_bytes) {
    return [this, index, read_bytes](double share) {
      const double done = kShareOfReading + (1 - kShareOfReading) * share;
      return Progress(index, done * static_cast<double>(read_bytes));
    };
  }

  // false: stop. `done_bytes` of the part.
  bool Progress(size_t index, double done_bytes) {
    positions_[index] = static_cast<int64_t>(done_bytes);
    if (stopped_) return false;
    if (!options_.progress) return true;
    int64_t all_done_bytes = 0;
    for (const std::atomic<int64_t>& of_part : positions_) all_done_bytes += of_part;
    return options_.progress(std::min(all_done_bytes, all_bytes_), all_bytes_);
  }

  // Of a rank of which nothing else tells.
  Status WriteAdditions(int32_t rank) {
    Addition first;
    {
      const MutexLock lock(mutex_);
      std::vector<Addition>& additions = additions_[rank];
      first = std::move(additions.front());
      additions.erase(additions.begin());
    }
    return Write(rank, first.format, std::move(first.recording),
                 GoOnWith(first.part, first.read_bytes));
  }

  // With what adds to it.
  Status Write(int32_t rank, const Format* format, Recording recording, const GoOn& go_on) {
    std::vector<Addition> additions;
    {
      const MutexLock lock(mutex_);
      if (const auto found = additions_.find(rank); found != additions_.end()) {
        additions = std::move(found->second);
        additions_.erase(found);
      }
    }
    std::string formats(format->key);
    for (Addition& addition : additions) {
      formats += fmt::format(", {}", addition.format->key);
      AddRecording(std::move(addition.recording), addition.format->key, &recording);
    }
    const RunFacts facts{.run_id = name_,
                         .name = name_,
                         .format = formats,
                         .rank = rank,
                         .num_ranks = std::max(num_expected_, recording.num_ranks)};
    const store::TraceFile file{fmt::format("{}/trace-rank{:05}", folder_, rank)};
    return WriteRecording(facts, &recording, file, go_on);
  }

  // As the file says, else its name, else the first that is free.
  Result<int32_t> TakeRank(const Part& part, const Recording& recording) {
    const MutexLock lock(mutex_);
    std::optional<int32_t> rank = recording.rank;
    if (!rank && !recording.is_one_of_several) rank = part.rank;
    std::map<int32_t, std::string>& title_of_rank = title_of_rank_[part.format];
    if (!rank) {
      int32_t unused = 0;
      while (title_of_rank.contains(unused)) ++unused;
      rank = unused;
    }
    ranks_.insert(*rank);
    const auto [taken, is_new] = title_of_rank.try_emplace(*rank, recording.title);
    if (!is_new) {
      return Status::Error(
          fmt::format("rank {} is in two files, {} and {}: they are of two runs, or of two "
                      "times of one; put those of one into a folder of their own",
                      *rank, taken->second, recording.title));
    }
    if (!part.format->is_addition) SHARDSCOPE_RETURN_IF_ERROR(CheckTimes(recording));
    return *rank;
  }

  // Ranks that were recorded hours apart never met.
  Status CheckTimes(const Recording& recording) REQUIRES(mutex_) {
    const RecordedTimes times = TimesOf(recording);
    if (times.last_ns < times.first_ns || times.first_ns < kFirstTimeOfDayNs) return Status::Ok();
    if (title_of_first_.empty()) {
      title_of_first_ = recording.title;
      times_ = times;
    }
    const int64_t apart_ns =
        std::max(times.first_ns - times_.last_ns, times_.first_ns - times.last_ns);
    if (apart_ns > kMostApartNs) {
      return Status::Error(fmt::format(
          "{:.0f} hours lie between {} and {}: they are of two runs; put those of one into a "
          "folder of their own",
          static_cast<double>(apart_ns) / kMostApartNs, title_of_first_, recording.title));
    }
    times_.first_ns = std::min(times.first_ns, times_.first_ns);
    times_.last_ns = std::max(times.last_ns, times_.last_ns);
    return Status::Ok();
  }

  // Those that only add to others last.
  static std::vector<Part> InOrder(std::vector<Part> parts) {
    std::stable_partition(parts.begin(), parts.end(),
                          [](const Part& part) { return !part.format->is_addition; });
    return parts;
  }

  // Of the format that has most files.
  static int MostOfOneFormat(const std::vector<Part>& parts) {
    std::map<const Format*, int> counts;
    int most = 0;
    for (const Part& part : parts) most = std::max(most, ++counts[part.format]);
    return most;
  }

  const std::vector<Part> parts_;
  const size_t num_primary_;  // of them
  const int num_expected_;    // ranks
  const std::string folder_;
  const std::string name_;
  const ImportOptions& options_;
  std::set<std::string> files_;
  int64_t all_bytes_ = 0;
  std::vector<std::atomic<int64_t>> positions_;
  std::atomic<bool> stopped_ = false;
  Mutex mutex_;
  Status status_ GUARDED_BY(mutex_);
  std::map<const Format*, std::map<int32_t, std::string>> title_of_rank_ GUARDED_BY(mutex_);
  std::set<int32_t> ranks_ GUARDED_BY(mutex_);
  RecordedTimes times_ GUARDED_BY(mutex_);  // of all of them
  std::string title_of_first_ GUARDED_BY(mutex_);
  std::map<int32_t, std::vector<Addition>> additions_ GUARDED_BY(mutex_);
};

struct Parts {
  std::vector<Part> known;
  std::vector<std::string> unknown;  // titles
  std::string remedy;                // for what only another program can read; empty: none
};

Result<Parts> FindParts(const std::string& path) {
  SHARDSCOPE_ASSIGN_OR_RETURN(const std::vector<Input> inputs, ListInputs(path));
  Parts parts;
  Status failed;
  for (const Input& input : inputs) {
    const Result<std::string> head = ReadHead(input, kHeadBytes);
    const Format* const format = head.ok() ? FormatOf(*head, input) : nullptr;
    if (!head.ok() && failed.ok()) failed = head.status();
    if (format == nullptr && head.ok() && parts.remedy.empty())
      parts.remedy = RemedyForNsysReport(input, *head);
    if (format != nullptr) {
      parts.known.push_back({input, format, RankOfName(input)});
    } else {
      parts.unknown.push_back(input.Title());
    }
  }
  if (parts.known.empty() && parts.remedy.empty() && !failed.ok()) return failed;
  return parts;
}

// Only those of which a beginning is of use.
void KeepBeginnings(const ImportOptions& options, std::vector<Part>* parts) {
  std::erase_if(*parts, [](const Part& part) { return !part.format->reads_beginnings; });
  if (options.most_inputs > 0 && parts->size() > options.most_inputs)
    parts->resize(options.most_inputs);
  for (Part& part : *parts) part.input.most_bytes = options.bytes_of_each;
}

std::string NameOf(const std::string& path) {
  std::string name = fs::path(path).filename().string();
  if (name.empty()) name = fs::path(path).parent_path().filename().string();
  return name.empty() ? path : name;
}

}  // namespace

bool CanImport(const std::string& path) {
  const Result<Parts> parts = FindParts(path);
  return parts.ok() && !(parts->known.empty() && parts->remedy.empty());
}

bool IsWorthAPreview(const std::string& path) {
  const Result<std::vector<Input>> inputs = ListInputs(path);
  if (!inputs.ok()) return false;
  std::set<std::string> files;
  uintmax_t bytes = 0;
  for (const Input& input : *inputs) {
    std::error_code error;
    if (!files.insert(input.path).second) continue;
    const uintmax_t size = fs::file_size(input.path, error);
    if (!error) bytes += size;
  }
  return bytes > kSoonImportedBytes;
}

Result<ImportedRun> ImportRun(const std::string& path, const std::string& to,
                              const ImportOptions& options) {
  SHARDSCOPE_ASSIGN_OR_RETURN(Parts parts, FindParts(path));
  if (options.bytes_of_each > 0) KeepBeginnings(options, &parts.known);
  if (parts.known.empty() && !parts.remedy.empty()) return Status::Error(parts.remedy);
  if (parts.known.empty()) {
    std::string known;
    for (const Format& format : Formats())
      known += fmt::format("{}{}", known.empty() ? "" : ", ", format.title);
    return Status::Error(fmt::format("{} holds nothing that can be imported: {}", path, known));
  }
  if (store::Exists(to)) {
    return Status::Error(fmt::format("{} is already there: give a folder that is not", to));
  }
  ImportedRun run{.folder = to,
                  .format = std::string(parts.known.front().format->key),
                  .num_ranks = 0,
                  .passed_over = std::move(parts.unknown)};
  SHARDSCOPE_ASSIGN_OR_RETURN(OutputFolder folder, OutputFolder::Make(to, kTemporarySuffix));
  Importing importing(std::move(parts.known), folder.path(), NameOf(path), options);
  SHARDSCOPE_RETURN_IF_ERROR(importing.Run());
  run.num_ranks = importing.num_ranks();
  SHARDSCOPE_RETURN_IF_ERROR(folder.Commit());
  return run;
}

}  // namespace shardscope::imports
