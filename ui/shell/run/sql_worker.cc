#include "ui/shell/run/sql_worker.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "trace/base/time.h"

namespace shardscope::shell {
namespace {

// More than a person reads; what is behind is said to be there.
constexpr size_t kMaxRows = 10'000;

}  // namespace

SqlWorker::SqlWorker(std::shared_ptr<FolderWatch> run, std::function<void()> wake)
    : OneAtATime(std::move(wake)), run_(std::move(run)) {
  Begin();
}

SqlWorker::~SqlWorker() { End(); }

void SqlWorker::Start(const std::string& sql) {
  const MutexLock lock(mutex_);
  Ask(sql);
}

void SqlWorker::Cancel() {
  const MutexLock lock(mutex_);
  std::optional<std::string> waiting = Withdraw();
  if (!waiting) return;
  // The thread has not come to it.
  auto answer = std::make_shared<ui::SqlAnswer>();
  answer->query = std::move(*waiting);
  answer->is_cancelled = true;
  answer_ = std::move(answer);
}

void SqlWorker::Show(ui::SqlConsole* console) const {
  const MutexLock lock(mutex_);
  console->running = Asked().value_or("");
  console->answer = answer_;
  console->tables = tables_;
}

void SqlWorker::Prepare() {
  Result<std::vector<query::TableColumns>> tables = query::TablesOf(run_->path());
  if (!run_->Check().ok() || !tables.ok()) return;  // the banner or the first statement says why
  const MutexLock lock(mutex_);
  tables_ = std::make_shared<const std::vector<query::TableColumns>>(std::move(tables).value());
}

SqlAnswerPtr SqlWorker::Make(const std::string& sql, const std::stop_token& stop) {
  auto answer = std::make_shared<ui::SqlAnswer>();
  answer->query = sql;
  const int64_t begin_ns = MonotonicNs();
  Result<query::SelectedRows> rows = query::Select(run_->path(), sql, kMaxRows, stop);
  answer->took_ns = MonotonicNs() - begin_ns;
  answer->is_cancelled = stop.stop_requested();
  // Afterwards: what was read is that run's then.
  if (const Status there = run_->Check(); !there.ok()) {
    answer->error = there.message();
  } else if (!rows.ok()) {
    answer->error = rows.message();
  } else {
    answer->rows = std::move(rows).value();
  }
  return answer;
}

bool SqlWorker::Keep(const std::string&, SqlAnswerPtr answer, bool) {
  answer_ = std::move(answer);
  return true;
}

}  // namespace shardscope::shell
