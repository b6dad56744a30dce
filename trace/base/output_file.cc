#include "trace/base/output_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "trace/base/left_over.h"
#include "trace/base/parse_number.h"

namespace shardscope {
namespace {

namespace fs = std::filesystem;

constexpr int kMaxLinks = 40;  // as the kernel
// Around the number of the process and of the file.
constexpr std::string_view kTemporary = ".shardscope-";
constexpr std::string_view kPartial = ".partial";
constexpr int kReaderWaitMs = 5000;

Status CannotWrite(const std::string& path, const std::string& reason, const std::string& remedy) {
  return Status::Error(fmt::format("cannot write {}: {}; {}", path, reason, remedy));
}

std::string RemedyFor(int error) {
  switch (error) {
    case ENOSPC:
    case EDQUOT:
      return "make room on its disk";
    case EPIPE:
      return "its reader has ended";
    case ENXIO:
      return "nobody reads this pipe: start its reader first";
    default:
      return "name another file";
  }
}

// Links of procfs lead to open files, which have no name or one that others write to.
bool IsInProcfs(const fs::path& link) {
  struct statfs system = {};
  const fs::path folder = link.has_parent_path() ? link.parent_path() : fs::path(".");
  return statfs(folder.c_str(), &system) == 0 && system.f_type == PROC_SUPER_MAGIC;
}

// Our own standard output or error, if `file` is it: another descriptor of it would overwrite what
// is printed there.
int StandardDescriptor(const struct stat& file) {
  for (const int descriptor : {STDOUT_FILENO, STDERR_FILENO}) {
    struct stat open = {};
    if (fstat(descriptor, &open) == 0 && open.st_dev == file.st_dev && open.st_ino == file.st_ino) {
      return descriptor;
    }
  }
  return -1;
}

}  // namespace

struct OutputFile::Target {
  fs::path path;            // behind all links
  bool is_through = false;  // written through
  bool is_new = false;
  int standard = -1;  // descriptor
  // Of a file that is there.
  mode_t mode = 0;
  uid_t owner = 0;
  gid_t group = 0;

  fs::path folder() const { return path.has_parent_path() ? path.parent_path() : fs::path("."); }

  static Result<Target> Find(const std::string& given) {
    Target target;
    target.path = given;
    bool in_procfs = false;
    std::error_code error;
    for (int links = 0; fs::is_symlink(fs::symlink_status(target.path, error)); ++links) {
      in_procfs = in_procfs || IsInProcfs(target.path);
      const fs::path next = fs::read_symlink(target.path, error);
      if (in_procfs || error) break;
      if (links == kMaxLinks) {
        return CannotWrite(given, "its links lead in a circle", "name another file");
      }
      target.path = target.folder() / next;  // an absolute one replaces it all
    }
    struct stat file = {};
    if (stat(target.path.c_str(), &file) != 0) {
      if (errno != ENOENT || in_procfs || given.empty() || given.back() == '/') {
        return CannotWrite(given, std::strerror(errno), RemedyFor(errno));
      }
      target.is_new = true;
      return target;
    }
    if (S_ISDIR(file.st_mode)) {
      return CannotWrite(given, "it is a folder", "name a file");
    }
    target.mode = file.st_mode & 0777;
    target.owner = file.st_uid;
    target.group = file.st_gid;
    target.standard = StandardDescriptor(file);
    target.is_through = in_procfs || target.standard >= 0 || !S_ISREG(file.st_mode);
    return target;
  }
};

Status OutputFile::Check(const std::string& path) {
  SHARDSCOPE_ASSIGN_OR_RETURN(const Target target, Target::Find(path));
  const bool is_writable = target.is_new || access(target.path.c_str(), W_OK) == 0;
  if (!is_writable) return CannotWrite(path, std::strerror(errno), RemedyFor(errno));
  if (target.is_through || access(target.folder().c_str(), W_OK | X_OK) == 0) {
    return Status::Ok();
  }
  return CannotWrite(path,
                     fmt::format("folder {}: {}", target.folder().string(), std::strerror(errno)),
                     "name a file in a folder that can be written to");
}

void OutputFile::RemoveLeft(const std::string& folder) {
  RemoveLeftOver(folder, [](std::string_view name) -> std::optional<pid_t> {
    if (!name.starts_with(kTemporary) || !name.ends_with(kPartial)) return std::nullopt;
    const std::string_view number = name.substr(kTemporary.size());
    return ParseInteger<pid_t>(number.substr(0, number.find('-')));
  });
}

Result<OutputFile> OutputFile::Create(const std::string& path) {
  SHARDSCOPE_RETURN_IF_ERROR(Check(path));
  SHARDSCOPE_ASSIGN_OR_RETURN(const Target target, Target::Find(path));
  OutputFile file(path);
  file.destination_ = target.path;
  SHARDSCOPE_RETURN_IF_ERROR(target.is_through ? file.OpenThrough(target)
                                               : file.OpenTemporary(target));
  return file;
}

// In the same folder, as a file can be renamed on one disk only. The name does not grow with the
// file's, which may have the longest that there is.
Status OutputFile::OpenTemporary(const Target& target) {
  static std::atomic<int64_t> number = 0;
  do {
    temporary_ =
        target.folder() / fmt::format("{}{}-{}{}", kTemporary, getpid(), ++number, kPartial);
    descriptor_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  } while (descriptor_ < 0 && errno == EEXIST);  // left by a process of this number
  if (descriptor_ < 0) {
    temporary_.clear();
    return Fail();
  }
  if (target.is_new) return Status::Ok();
  // Only root can give the file to the owner of the old one.
  const int chowned = fchown(descriptor_, target.owner, target.group);
  static_cast<void>(chowned);
  return fchmod(descriptor_, target.mode) == 0 ? Status::Ok() : Fail();
}

// A pipe without a reader would keep us waiting for ever.
Status OutputFile::OpenThrough(const Target& target) {
  if (target.standard >= 0) {
    descriptor_ = fcntl(target.standard, F_DUPFD_CLOEXEC, 3);
    return descriptor_ < 0 ? Fail() : Status::Ok();
  }
  constexpr int kPauseMs = 20;
  for (int waited_ms = 0;; waited_ms += kPauseMs) {
    descriptor_ =
        open(destination_.c_str(), O_WRONLY | O_APPEND | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor_ >= 0) break;
    if (errno != ENXIO || waited_ms >= kReaderWaitMs) return Fail();
    poll(nullptr, 0, kPauseMs);
  }
  fcntl(descriptor_, F_SETFL, O_APPEND);  // from here on a slow reader is waited for
  return Status::Ok();
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : path_(std::move(other.path_)),
      destination_(std::move(other.destination_)),
      temporary_(std::exchange(other.temporary_, {})),
      descriptor_(std::exchange(other.descriptor_, -1)),
      status_(std::move(other.status_)) {}

OutputFile::~OutputFile() {
  if (descriptor_ >= 0) close(descriptor_);
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

// With errno's reason.
Status OutputFile::Fail() {
  status_ = CannotWrite(path_, std::strerror(errno), RemedyFor(errno));
  return status_;
}

Status OutputFile::Write(std::string_view bytes) {
  while (status_.ok() && !bytes.empty()) {
    const ssize_t written = write(descriptor_, bytes.data(), bytes.size());
    if (written >= 0) {
      bytes.remove_prefix(static_cast<size_t>(written));
    } else if (errno != EINTR) {
      return Fail();
    }
  }
  return status_;
}

Status OutputFile::Publish() {
  if (!status_.ok() || temporary_.empty()) return status_;
  if (std::rename(temporary_.c_str(), destination_.c_str()) != 0) return Fail();
  temporary_.clear();
  return Status::Ok();
}

Status OutputFile::Sync() {
  const bool is_synced = !status_.ok() || fsync(descriptor_) == 0;
  return is_synced || errno == EINVAL ? status_ : Fail();  // EINVAL: no disk is behind it
}

Status OutputFile::Close() {
  if (!status_.ok()) return status_;
  if (close(std::exchange(descriptor_, -1)) != 0) return Fail();
  return Publish();
}

Status WriteFile(const std::string& path, std::string_view bytes) {
  SHARDSCOPE_ASSIGN_OR_RETURN(OutputFile file, OutputFile::Create(path));
  SHARDSCOPE_RETURN_IF_ERROR(file.Write(bytes));
  return file.Close();
}

}  // namespace shardscope
