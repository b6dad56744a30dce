#include "ui/shell/run/sql_worker.h"

#include <memory>
#include <utility>

#include "trace/base/time.h"

namespace shardscope::shell {
namespace {

// More than a person reads; what is behind is said to be there.
constexpr size_t kMaxRows = 10'000;

}  // namespace

SqlWorker::SqlWorker(std::string path, std::function<void()> wake)
    : path_(std::move(path)), wake_(std::move(wake)), thread_([this] { Run(); }) {}

SqlWorker::~SqlWorker() {
  {
    const MutexLock lock(mutex_);
    stop_ = true;
    cancel_.request_stop();
  }
  asked_.notify_one();
  thread_.join();
}

void SqlWorker::Start(const std::string& sql) {
  {
    const MutexLock lock(mutex_);
    next_ = sql;
    cancel_.request_stop();
  }
  asked_.notify_one();
}

void SqlWorker::Cancel() {
  const MutexLock lock(mutex_);
  if (next_) {  // which the thread has not come to
    auto answer = std::make_shared<ui::SqlAnswer>();
    answer->query = *std::exchange(next_, std::nullopt);
    answer->is_cancelled = true;
    answer_ = std::move(answer);
  }
  cancel_.request_stop();
}

void SqlWorker::Show(ui::SqlConsole* console) const {
  const MutexLock lock(mutex_);
  console->running = next_.value_or(running_);
  console->answer = answer_;
  console->tables = tables_;
}

void SqlWorker::ListTables() {
  Result<std::vector<query::TableColumns>> tables = query::TablesOf(path_);
  if (!tables.ok()) return;  // the first statement says why
  const MutexLock lock(mutex_);
  tables_ = std::make_shared<const std::vector<query::TableColumns>>(std::move(tables).value());
}

std::shared_ptr<const ui::SqlAnswer> SqlWorker::Answer(const std::string& sql,
                                                       const std::stop_token& stop) const {
  auto answer = std::make_shared<ui::SqlAnswer>();
  answer->query = sql;
  const int64_t begin_ns = MonotonicNs();
  Result<query::SelectedRows> rows = query::Select(path_, sql, kMaxRows, stop);
  answer->took_ns = MonotonicNs() - begin_ns;
  answer->is_cancelled = stop.stop_requested();
  if (!rows.ok()) {
    answer->error = rows.message();
  } else {
    answer->rows = std::move(rows).value();
  }
  return answer;
}

void SqlWorker::Run() {
  ListTables();
  if (wake_) wake_();
  MutexLock lock(mutex_);
  while (true) {
    asked_.wait(lock, [this]() REQUIRES(mutex_) { return stop_ || next_.has_value(); });
    if (stop_) return;
    const std::string sql = std::move(*std::exchange(next_, std::nullopt));
    running_ = sql;
    cancel_ = std::stop_source();
    const std::stop_token stop = cancel_.get_token();
    lock.unlock();
    std::shared_ptr<const ui::SqlAnswer> answer = Answer(sql, stop);
    lock.lock();
    running_.clear();
    answer_ = std::move(answer);
    lock.unlock();
    if (wake_) wake_();
    lock.lock();
  }
}

}  // namespace shardscope::shell
