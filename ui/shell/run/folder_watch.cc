#include "ui/shell/run/folder_watch.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "trace/query/live_trace.h"
#include "ui/text.h"

namespace shardscope::shell {
namespace {

bool IsFolder(int descriptor) {
  struct stat look = {};
  return fstat(descriptor, &look) == 0 && S_ISDIR(look.st_mode);
}

}  // namespace

FolderWatch::FolderWatch(std::string path)
    : path_(std::move(path)),
      opened_(open(path_.c_str(), O_PATH | O_CLOEXEC)),
      is_folder_(IsFolder(opened_)) {}

FolderWatch::~FolderWatch() {
  if (opened_ >= 0) (void)close(opened_);
}

ui::RunPlace FolderWatch::LookNow() const {
  struct stat opened = {};
  if (fstat(opened_, &opened) != 0) return ui::RunPlace::kThere;
  struct stat here = {};
  if (stat(path_.c_str(), &here) == 0) {
    const bool is_same = here.st_dev == opened.st_dev && here.st_ino == opened.st_ino;
    if (is_same) return ui::RunPlace::kThere;
    return is_folder_ ? ui::RunPlace::kFolderReplaced : ui::RunPlace::kFileReplaced;
  }
  if (errno != ENOENT && errno != ENOTDIR) return seen_;
  if (is_folder_) return ui::RunPlace::kFolderGone;
  // A live trace that is finished has another name.
  return query::LookAtRun(path_).found ? ui::RunPlace::kThere : ui::RunPlace::kFileGone;
}

ui::RunPlace FolderWatch::Look() {
  const MutexLock lock(looking_);
  seen_ = LookNow();
  return seen_;
}

Status FolderWatch::Check() {
  const ui::RunPlace place = Look();
  if (place == ui::RunPlace::kThere) return Status::Ok();
  return Status::Error(ui::RunPlaceText(ui::Language::kEnglish, place));
}

}  // namespace shardscope::shell
