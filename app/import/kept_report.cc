#include "app/import/kept_report.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <functional>
#include <string_view>
#include <vector>

#include "trace/analysis/report/report.h"
#include "trace/base/output_file.h"
#include "trace/base/parallel.h"
#include "trace/query/live_trace.h"
#include "trace/store/run_files.h"

namespace shardscope::app {
namespace {

constexpr std::string_view kFileName = "reports.kept";
// All rows of the trace files have to be in memory once.
constexpr int64_t kMostTraceBytes = int64_t{256} << 20;
constexpr size_t kPieceBytes = 256 << 10;

// Parts of the file, behind its first two lines: whose they are, and how long each is.
enum Part : uint8_t {
  kJsonBeforeFolder,  // up to the value of run_folder, which depends on how the run is named
  kJsonBehindFolder,  // up to the times of the GPU
  kJsonExact,
  kJsonHta,
  kTextExact,
  kTextHta,
  kNumParts
};
using Parts = std::array<std::string, kNumParts>;

std::string FactsOf(const std::string& path) {
  struct stat file = {};
  if (stat(path.c_str(), &file) != 0) return "?";
  return fmt::format("{} {}.{:09}", file.st_size, file.st_mtim.tv_sec, file.st_mtim.tv_nsec);
}

// Equal while the program and the run's files are the same.
std::string IdentityOf(const std::string& run) {
  std::string identity = "shardscope reports, program " + FactsOf("/proc/self/exe");
  for (const store::TraceFile& trace : store::ListTraces(run)) {
    const std::string path = trace.FinishedPath();
    identity += fmt::format(", {} {}", path.substr(path.rfind('/') + 1), FactsOf(path));
  }
  return identity;
}

std::string PathIn(const std::string& run) { return fmt::format("{}/{}", run, kFileName); }

// As JSON has it, without its quotes.
std::string JsonFolder(const std::string& run) {
  analysis::Report report;
  report.run_folder = run;
  const std::string json = analysis::PrintReportJson(report);
  constexpr std::string_view kKey = "\"run_folder\": \"";
  const size_t start = json.find(kKey) + kKey.size();
  return json.substr(start, json.find("\",\n", start) - start);
}

// Up to the value of run_folder, from there to the times of the GPU, and these.
std::array<std::string, 3> PartsOfJson(const std::string& json) {
  constexpr std::string_view kFolder = "\n  \"run_folder\": \"";
  const size_t folder = json.find(kFolder) + kFolder.size();
  // The last member of the outermost object.
  const size_t gpu = std::min(json.rfind("\n  \"gpu\": "), json.size());
  return {json.substr(0, folder), json.substr(folder, gpu - folder), json.substr(gpu)};
}

// On two threads.
Parts MakeParts(const query::Snapshot& snapshot) {
  Parts parts;
  const auto make_report = [&] {
    analysis::Report report = analysis::MakeReport(snapshot);
    report.run_folder.clear();
    const analysis::GpuTime gpu = analysis::MeasureGpu(snapshot, analysis::GpuDefinition::kExact);
    auto [head, rest, times] = PartsOfJson(analysis::PrintReportJson(report, &gpu));
    parts[kJsonBeforeFolder] = std::move(head);
    parts[kJsonBehindFolder] = std::move(rest);
    parts[kJsonExact] = std::move(times);
    parts[kTextExact] = analysis::PrintReportText(report);
    parts[kTextHta] = parts[kTextExact];
    parts[kTextExact] += analysis::PrintGpuTime(gpu);
  };
  std::string hta_text;
  const auto measure_hta = [&] {
    const analysis::GpuTime gpu = analysis::MeasureGpu(snapshot, analysis::GpuDefinition::kHta);
    parts[kJsonHta] = PartsOfJson(analysis::PrintReportJson({}, &gpu))[2];
    hta_text = analysis::PrintGpuTime(gpu);
  };
  (void)ForEachIndex(2, 2, [&](size_t index) {
    index == 0 ? make_report() : measure_hta();
    return Status::Ok();
  });
  parts[kTextHta] += hta_text;
  return parts;
}

// Reads parts of the file.
class KeptFile {
 public:
  explicit KeptFile(const std::string& run) : file_(PathIn(run), std::ios::binary | std::ios::ate) {
    auto left = static_cast<uint64_t>(std::max<std::streamoff>(file_.tellg(), 0));
    file_.seekg(0);
    std::string line;
    if (!std::getline(file_, line) || line != IdentityOf(run)) return;
    std::array<uint64_t, kNumParts> sizes = {};
    for (uint64_t& size : sizes) file_ >> size;
    std::getline(file_, line);
    if (!file_) return;
    auto offset = static_cast<uint64_t>(file_.tellg());
    left -= offset;
    for (size_t at = 0; at < sizes.size(); ++at) {
      if (sizes[at] > left) return;
      places_[at] = {offset, sizes[at]};
      offset += sizes[at];
      left -= sizes[at];
    }
    is_whole_ = left == 0;
  }

  // All parts are there.
  bool is_whole() const { return is_whole_; }

  // In pieces that end with a line.
  void Print(Part part, const std::function<void(std::string_view)>& print) {
    std::string piece;
    auto [offset, left] = places_[part];
    while (left > 0 && file_) {
      piece.resize(std::min<uint64_t>(left, kPieceBytes));
      file_.seekg(static_cast<std::streamoff>(offset));
      file_.read(piece.data(), static_cast<std::streamsize>(piece.size()));
      const size_t line_end = piece.rfind('\n');
      if (piece.size() < left && line_end != std::string::npos) piece.resize(line_end + 1);
      print(piece);
      offset += piece.size();
      left -= piece.size();
    }
  }

 private:
  struct Place {
    uint64_t offset = 0;
    uint64_t size = 0;
  };

  std::ifstream file_;
  std::array<Place, kNumParts> places_ = {};
  bool is_whole_ = false;
};

// All forms.
Status Keep(const std::string& run, const query::Snapshot& snapshot) {
  const std::string identity = IdentityOf(run);
  const Parts parts = MakeParts(snapshot);
  SHARDSCOPE_ASSIGN_OR_RETURN(OutputFile file, OutputFile::Create(PathIn(run)));
  std::string sizes;
  for (const std::string& part : parts) sizes += fmt::format("{} ", part.size());
  SHARDSCOPE_RETURN_IF_ERROR(file.Write(identity + "\n" + sizes + "\n"));
  for (const std::string& part : parts) SHARDSCOPE_RETURN_IF_ERROR(file.Write(part));
  return file.Close();
}

}  // namespace

bool PrintKeptReport(const std::string& run, const ReportForm& form,
                     const std::function<void(std::string_view)>& print) {
  KeptFile file(run);
  if (!file.is_whole()) return false;
  const bool is_hta = form.definition == analysis::GpuDefinition::kHta;
  if (!form.json) {
    file.Print(is_hta ? kTextHta : kTextExact, print);
    return true;
  }
  const Result<store::RunFiles> files = store::FindRun(run);
  if (!files.ok()) return false;
  file.Print(kJsonBeforeFolder, print);
  print(JsonFolder(files->path));
  file.Print(kJsonBehindFolder, print);
  file.Print(is_hta ? kJsonHta : kJsonExact, print);
  return true;
}

Status KeepReportsOf(const std::string& run) {
  if (KeptFile(run).is_whole()) return Status::Ok();
  int64_t bytes = 0;
  for (const store::TraceFile& trace : store::ListTraces(run)) {
    struct stat file = {};
    if (stat(trace.FinishedPath().c_str(), &file) == 0) bytes += file.st_size;
  }
  if (bytes > kMostTraceBytes) return Status::Ok();
  SHARDSCOPE_ASSIGN_OR_RETURN(const query::SnapshotPtr snapshot, query::ReadSnapshot(run));
  return Keep(run, *snapshot);
}

}  // namespace shardscope::app
