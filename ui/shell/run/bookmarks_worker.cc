#include "ui/shell/run/bookmarks_worker.h"

#include <sys/stat.h>

#include <chrono>
#include <utility>

#include "trace/base/time.h"

namespace shardscope::shell {
namespace {

// How often another program's changes are looked for.
constexpr std::chrono::milliseconds kLookInterval{1000};

}  // namespace

BookmarksWorker::BookmarksWorker(std::string opened, std::string run_folder,
                                 std::function<void()> wake, std::shared_ptr<FolderWatch> run)
    : opened_(std::move(opened)),
      run_folder_(std::move(run_folder)),
      wake_(std::move(wake)),
      run_(std::move(run)),
      thread_([this] { Run(); }) {}

BookmarksWorker::~BookmarksWorker() {
  {
    const MutexLock lock(mutex_);
    stop_ = true;
  }
  asked_.notify_one();
  thread_.join();
}

void BookmarksWorker::Apply(bookmarks::Change change) {
  {
    const MutexLock lock(mutex_);
    changes_.push_back(std::move(change));
  }
  asked_.notify_one();
}

BookmarkListPtr BookmarksWorker::Latest() const {
  const MutexLock lock(mutex_);
  return latest_;
}

void BookmarksWorker::Run() {
  if (!opened_.empty()) file_ = bookmarks::FileOf(opened_, run_folder_);
  MutexLock lock(mutex_);
  while (true) {
    const std::vector<bookmarks::Change> news = std::exchange(changes_, {});
    lock.unlock();
    Look(news);
    lock.lock();
    const auto is_asked = [this]() REQUIRES(mutex_) { return stop_ || !changes_.empty(); };
    if (file_.empty()) asked_.wait(lock, is_asked);
    if (!file_.empty()) asked_.wait_for(lock, kLookInterval, is_asked);
    if (stop_ && changes_.empty()) return;
  }
}

BookmarksWorker::FileLook BookmarksWorker::LookAtFile() const {
  struct stat file = {};
  if (stat(file_.c_str(), &file) != 0) return {};
  return {int64_t{file.st_mtim.tv_sec} * kNsPerSecond + file.st_mtim.tv_nsec, file.st_size,
          file.st_ino};
}

Status BookmarksWorker::LookAtRun() {
  if (run_ == nullptr) return Status::Ok();
  const ui::RunPlace before = run_->seen();
  Status there = run_->Check();
  if (run_->seen() != before && wake_) wake_();
  return there;
}

void BookmarksWorker::Look(const std::vector<bookmarks::Change>& news) {
  if (file_.empty()) {
    bookmarks::Apply(news, &kept_);
    if (!news.empty() || !seen_) Publish({});
    seen_ = FileLook();
    return;
  }
  if (const Status there = LookAtRun(); !there.ok()) {
    seen_.reset();  // once it is back it is read, and takes what it could not
    unsaved_.insert(unsaved_.end(), news.begin(), news.end());
    if (!unsaved_.empty()) Publish(there.message());
    return;
  }
  const FileLook look = LookAtFile();
  if (news.empty() && seen_ == look) return;
  unsaved_.insert(unsaved_.end(), news.begin(), news.end());
  auto read = unsaved_.empty() ? bookmarks::Read(file_) : bookmarks::Apply(file_, unsaved_);
  // After a change of ours it is read again: another program's may have come right behind it.
  seen_ = unsaved_.empty() || !read.ok() ? std::optional(look) : std::nullopt;
  if (!read.ok()) return Publish(read.message());
  unsaved_.clear();
  kept_ = std::move(read).value();
  Publish({});
}

void BookmarksWorker::Publish(std::string problem) {
  auto list = std::make_shared<ui::BookmarkList>();
  list->all = kept_;
  bookmarks::Apply(unsaved_, &list->all);
  list->file = file_;
  list->problem = std::move(problem);
  list->unsaved = static_cast<int>(unsaved_.size());
  {
    const MutexLock lock(mutex_);
    if (latest_ != nullptr && *latest_ == *list) return;
    latest_ = std::move(list);
  }
  if (wake_) wake_();
}

}  // namespace shardscope::shell
