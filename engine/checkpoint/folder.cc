#include "engine/checkpoint/folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "engine/checkpoint/blocks.h"
#include "engine/checkpoint/checkpoint.h"
#include "trace/base/output_file.h"
#include "trace/base/parse_number.h"

namespace shardscope::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kStep = "step-";
constexpr std::string_view kPartial = ".partial";

// Of "step-40".
std::optional<int64_t> StepOf(const std::string& name) {
  if (!name.starts_with(kStep)) return std::nullopt;
  return ParseInteger<int64_t>(std::string_view(name).substr(kStep.size()));
}

// Newest first.
std::vector<std::string> CheckpointsIn(const std::string& root) {
  std::vector<std::pair<int64_t, std::string>> found;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(root, error)) {
    const auto step = StepOf(entry.path().filename().string());
    if (std::error_code ignored; step && entry.is_directory(ignored)) {
      found.emplace_back(*step, entry.path().string());
    }
  }
  std::ranges::sort(found, std::greater());
  std::vector<std::string> paths;
  for (auto& [step, path] : found) paths.push_back(std::move(path));
  return paths;
}

Status SyncFolder(const std::string& folder) {
  const int descriptor = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const bool is_synced = descriptor >= 0 && (fsync(descriptor) == 0 || errno == EINVAL);
  const int reason = errno;
  if (descriptor >= 0) close(descriptor);
  if (is_synced) return Status::Ok();
  return Status::Error(fmt::format("cannot write {}: {}", folder, std::strerror(reason)));
}

// Hashes what it writes.
class HashedFile {
 public:
  explicit HashedFile(OutputFile file) : file_(std::move(file)) {}

  Status Write(std::span<const std::byte> bytes) {
    // In pieces that stay in the cache between hash and copy.
    while (!bytes.empty()) {
      const auto piece = bytes.subspan(0, std::min(bytes.size(), kBlockBytes / 4));
      hasher_.Add(piece);
      SHARDSCOPE_RETURN_IF_ERROR(
          file_.Write({reinterpret_cast<const char*>(piece.data()), piece.size()}));
      bytes = bytes.subspan(piece.size());
      size_ += std::ssize(piece);
    }
    return Status::Ok();
  }
  Status Write(std::string_view text) {
    return Write(std::as_bytes(std::span(text.data(), text.size())));
  }
  int64_t size() const { return size_; }
  Result<FileEntry> Close(const std::string& path) {
    SHARDSCOPE_RETURN_IF_ERROR(file_.Sync());
    SHARDSCOPE_RETURN_IF_ERROR(file_.Close());
    return FileEntry{fs::path(path).filename().string(), size_, hasher_.Finish()};
  }

 private:
  OutputFile file_;
  BlockHasher hasher_;
  int64_t size_ = 0;
};

}  // namespace

std::string CleanedFolder(const std::string& path) {
  std::error_code error;
  const fs::path cleaned = fs::absolute(path, error).lexically_normal();
  return (cleaned.has_filename() ? cleaned : cleaned.parent_path()).string();
}

std::string StepFolder(const std::string& root, int64_t step) {
  return fmt::format("{}/{}{}", root, kStep, step);
}

std::string PartialFolder(const std::string& root, int64_t step, int64_t number) {
  return fmt::format("{}.{}{}", StepFolder(root, step), number, kPartial);
}

bool IsPartial(const std::string& folder) {
  const fs::path path = fs::path(folder).lexically_normal();
  return (path.has_filename() ? path : path.parent_path()).string().ends_with(kPartial);
}

Result<std::string> FindCheckpoint(const std::string& path, std::vector<std::string>* passed) {
  std::error_code error;
  const std::string absolute = fs::absolute(path, error).lexically_normal().string();
  if (!fs::is_directory(absolute, error)) {
    return Status::Error(path + (fs::exists(absolute, error) ? " is a file" : " is not there") +
                         ": name a run, or the folder of a checkpoint");
  }
  const std::string of_run = absolute + "/checkpoints";
  // A run may be named as checkpoints are.
  const bool is_named_so = !fs::is_directory(of_run, error) &&
                           (StepOf(fs::path(absolute).filename().string()) || IsPartial(absolute));
  if (is_named_so || fs::exists(absolute + "/" + std::string(kIndexName), error)) return absolute;
  std::vector<std::string> candidates = CheckpointsIn(of_run);
  if (candidates.empty()) candidates = CheckpointsIn(absolute);
  for (const std::string& candidate : candidates) {
    const Result<Checkpoint> opened = Checkpoint::Open(candidate);
    if (opened.ok()) return candidate;
    passed->push_back(opened.message());
  }
  if (!passed->empty()) {
    return Status::Error(path + " has no checkpoint that is whole: " + passed->front());
  }
  return Status::Error(
      path +
      " has no checkpoint: a run with checkpoint.every writes them once it has done a "
      "step, and any run when its control socket is told 'checkpoint'");
}

std::optional<int64_t> LastStepBehind(const std::string& root, int64_t step) {
  for (const std::string& newest : CheckpointsIn(root)) {
    const std::optional<int64_t> last = StepOf(fs::path(newest).filename().string());
    if (last <= step) break;
    if (IsWhole(newest)) return last;
  }
  return std::nullopt;
}

bool IsWhole(const std::string& folder) { return Checkpoint::Open(folder).ok(); }

Result<std::string> MoveAside(const std::string& folder) {
  constexpr int kMost = 1000;
  for (int number = 1; number <= kMost; ++number) {
    const std::string aside =
        number == 1 ? folder + ".aside" : fmt::format("{}.aside-{}", folder, number);
    if (renameat2(AT_FDCWD, folder.c_str(), AT_FDCWD, aside.c_str(), RENAME_NOREPLACE) == 0) {
      return aside;
    }
    int reason = errno;
    std::error_code error;
    if (fs::exists(fs::symlink_status(aside, error))) continue;
    if (reason == EINVAL) {  // a file system without that flag
      if (std::rename(folder.c_str(), aside.c_str()) == 0) return aside;
      reason = errno;
    }
    return Status::Error(
        fmt::format("cannot rename {} to {}: {}", folder, aside, std::strerror(reason)));
  }
  return Status::Error(fmt::format("{} has been moved aside {} times: remove some", folder, kMost));
}

std::string WholeBeside(const std::string& folder) {
  const fs::path path = fs::path(folder + "/").lexically_normal().parent_path();
  for (const std::string& candidate : CheckpointsIn(path.parent_path().string())) {
    if (candidate != path && Checkpoint::Open(candidate).ok()) return candidate;
  }
  return "";
}

Result<FileEntry> WriteTensors(const std::string& path, std::span<const TensorBytes> tensors,
                               std::vector<int64_t>* offsets) {
  Result<OutputFile> opened = OutputFile::Create(path);
  if (!opened.ok()) return opened.status();
  HashedFile file(std::move(opened).value());
  std::vector<TensorShape> shapes;
  for (const TensorBytes& tensor : tensors) shapes.push_back(tensor.shape);
  SHARDSCOPE_RETURN_IF_ERROR(file.Write(SafetensorsHead(shapes)));
  const ByteSink sink = [&](std::span<const std::byte> bytes) { return file.Write(bytes); };
  for (const TensorBytes& tensor : tensors) {
    offsets->push_back(file.size());
    SHARDSCOPE_RETURN_IF_ERROR(tensor.make ? tensor.make(sink) : sink(tensor.bytes));
  }
  return file.Close(path);
}

Result<FileEntry> WriteText(const std::string& path, std::string_view text) {
  Result<OutputFile> opened = OutputFile::Create(path);
  if (!opened.ok()) return opened.status();
  HashedFile file(std::move(opened).value());
  SHARDSCOPE_RETURN_IF_ERROR(file.Write(text));
  return file.Close(path);
}

Status CreatePartial(const std::string& partial, std::string_view what) {
  std::error_code error;
  if (fs::create_directory(partial, error)) return Status::Ok();
  if (!error) {
    return Status::Error(fmt::format(
        "{} is there already: {} that was killed has left it, or one is writing it; remove it, "
        "or name another folder",
        partial, what));
  }
  return Status::Error(
      fmt::format("cannot create {}: {}; name another folder", partial, error.message()));
}

Status Publish(const std::string& partial, const std::string& folder) {
  SHARDSCOPE_RETURN_IF_ERROR(SyncFolder(partial));
  const auto rename_with = [&](unsigned flags) {
    return renameat2(AT_FDCWD, partial.c_str(), AT_FDCWD, folder.c_str(), flags) == 0;
  };
  const bool replaces = access(folder.c_str(), F_OK) == 0;
  bool is_renamed = rename_with(replaces ? RENAME_EXCHANGE : RENAME_NOREPLACE);
  if (!is_renamed && errno == EINVAL) {  // a file system without these
    if (replaces) RemoveCheckpoint(folder);
    is_renamed = std::rename(partial.c_str(), folder.c_str()) == 0;
  }
  if (!is_renamed) {
    return Status::Error(
        fmt::format("cannot rename {} to {}: {}", partial, folder, std::strerror(errno)));
  }
  std::error_code ignored;
  if (replaces) fs::remove_all(partial, ignored);
  return SyncFolder(fs::path(folder).parent_path().string());
}

void RemoveCheckpoint(const std::string& folder) {
  std::error_code error;
  const std::string removed = folder + ".old" + std::string(kPartial);
  fs::rename(folder, removed, error);
  if (!error) fs::remove_all(removed, error);
}

int RemovePartials(const std::string& root) {
  std::vector<fs::path> partials;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(root, error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(kStep) && name.ends_with(kPartial)) partials.push_back(entry.path());
  }
  for (const fs::path& partial : partials) fs::remove_all(partial, error);
  return static_cast<int>(partials.size());
}

}  // namespace shardscope::checkpoint
