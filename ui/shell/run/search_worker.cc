#include "ui/shell/run/search_worker.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <variant>

namespace shardscope::shell {
namespace {

constexpr auto kRefreshInterval = std::chrono::milliseconds(333);

}  // namespace

FoundHitsPtr FindHits(const SearchRequest& request, const std::stop_token& stop) {
  auto found = std::make_shared<ui::FoundHits>();
  found->text = request.text;
  found->snapshot = request.snapshot;
  const auto parsed = analysis::ParseSearch(request.text);
  if (const auto* error = std::get_if<analysis::SearchError>(&parsed)) {
    found->error = *error;
    return found;
  }
  found->result =
      analysis::Search(*request.snapshot, std::get<analysis::SearchQuery>(parsed), {.stop = stop});
  if (found->result.stopped) return nullptr;
  return found;
}

SearchWorker::SearchWorker(std::function<void()> wake)
    : wake_(std::move(wake)), thread_([this] { Run(); }) {}

SearchWorker::~SearchWorker() {
  {
    const MutexLock lock(mutex_);
    stop_ = true;
    running_.request_stop();
  }
  requested_.notify_one();
  thread_.join();
}

void SearchWorker::Request(SearchRequest request) {
  if (request == asked_) return;
  const bool is_new_text = request.text != asked_.text;
  asked_ = request;
  {
    const MutexLock lock(mutex_);
    next_ = std::move(request);
    if (is_new_text) running_.request_stop();
  }
  requested_.notify_one();
}

void SearchWorker::Forget() {
  if (asked_ == SearchRequest{}) return;
  asked_ = {};
  FoundHitsPtr forgotten;  // freed without the lock
  const MutexLock lock(mutex_);
  next_.reset();
  running_.request_stop();
  std::swap(forgotten, latest_);
}

FoundHitsPtr SearchWorker::Latest() const {
  const MutexLock lock(mutex_);
  return latest_;
}

void SearchWorker::Run() {
  using Clock = std::chrono::steady_clock;
  std::string text;  // of the last search
  Clock::time_point rests_until;
  MutexLock lock(mutex_);
  while (true) {
    requested_.wait(lock, [this]() REQUIRES(mutex_) { return stop_ || next_.has_value(); });
    requested_.wait_until(lock, rests_until, [&, this]() REQUIRES(mutex_) {
      return stop_ || !next_.has_value() || next_->text != text;
    });
    if (stop_) return;
    if (!next_.has_value()) continue;  // forgotten
    SearchRequest request = std::move(*std::exchange(next_, std::nullopt));
    running_ = std::stop_source();
    const std::stop_token stop = running_.get_token();
    lock.unlock();
    text = request.text;
    const Clock::time_point begin = Clock::now();
    FoundHitsPtr found = FindHits(request, stop);
    request = {};  // not to be freed under the lock
    const Clock::time_point end = Clock::now();
    rests_until = end + std::max<Clock::duration>(kRefreshInterval, end - begin);
    lock.lock();
    // A search that was stopped has found nothing, and one that ended just then is not wanted.
    if (found == nullptr || stop.stop_requested()) continue;
    std::swap(latest_, found);
    lock.unlock();
    found = nullptr;
    if (wake_) wake_();
    lock.lock();
  }
}

}  // namespace shardscope::shell
