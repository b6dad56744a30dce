#include "engine/cuda/transport/nccl/nccl_board.h"

#include <chrono>
#include <exception>
#include <sstream>
#include <thread>
#include <utility>

#include "trace/base/mutex.h"

namespace shardscope::cuda {

namespace {

// Longer than a meeting place takes to answer that is there.
constexpr std::chrono::seconds kPatience(3);

}  // namespace

// "0:12 1:11 ".
std::string PrintProgress(const NcclProgress& progress) {
  std::string text;
  for (const auto& [communicator, issued] : progress) {
    text += std::to_string(communicator) + ":" + std::to_string(issued) + " ";
  }
  return text.empty() ? " " : text;  // to have issued nothing is something to say
}

NcclProgress ParseProgress(const std::string& text) {
  NcclProgress progress;
  std::istringstream numbers(text);
  int communicator = 0;
  int64_t issued = 0;
  char colon = 0;
  while (numbers >> communicator >> colon >> issued && colon == ':') {
    progress[communicator] = issued;
  }
  return progress;
}

struct NcclBoard::Shared {
  std::shared_ptr<transport::Transport> host;
  NcclBoardOptions options;

  mutable Mutex mutex;  // not held while the host's transport is asked
  CondVar changed;
  bool is_closing GUARDED_BY(mutex) = false;
  bool is_asked GUARDED_BY(mutex) = false;
  bool has_ended GUARDED_BY(mutex) = false;  // the thread, and it has let go of the host
  std::map<int, NcclProgress> others GUARDED_BY(mutex);

  void Run() {
    MutexLock lock(mutex);
    while (!is_closing) {
      const std::string mine = PrintProgress(options.mine());
      const bool reads = is_asked;
      lock.unlock();
      host->Post(options.rank, mine);
      if (reads) ReadOthers();
      lock.lock();
      changed.wait_for(lock, std::chrono::nanoseconds(options.period_ns),
                       [&]() REQUIRES(mutex) { return is_closing || is_asked != reads; });
    }
  }

  void ReadOthers() {
    for (int rank = 0; rank < options.num_ranks; ++rank) {
      if (rank == options.rank) continue;
      const std::string text = host->ReadPost(rank);
      if (text.empty()) continue;
      const MutexLock lock(mutex);
      others[rank] = ParseProgress(text);
    }
  }
};

NcclBoard::NcclBoard(std::shared_ptr<transport::Transport> host, NcclBoardOptions options)
    : shared_(std::make_shared<Shared>()) {
  shared_->host = std::move(host);
  shared_->options = std::move(options);
  std::thread([shared = shared_] {
    try {
      shared->Run();
    } catch (const std::exception&) {
      // Then the others have nothing of this rank.
    }
    const MutexLock lock(shared->mutex);
    shared->host.reset();
    shared->has_ended = true;
    shared->changed.notify_all();
  }).detach();
}

NcclBoard::~NcclBoard() {
  MutexLock lock(shared_->mutex);
  shared_->is_closing = true;
  shared_->changed.notify_all();
  shared_->changed.wait_for(lock, kPatience,
                            [this]() REQUIRES(shared_->mutex) { return shared_->has_ended; });
}

void NcclBoard::AskForOthers() {
  const MutexLock lock(shared_->mutex);
  if (shared_->is_asked) return;
  shared_->is_asked = true;
  shared_->changed.notify_all();
}

std::optional<int64_t> NcclBoard::Issued(int rank, int communicator) const {
  const MutexLock lock(shared_->mutex);
  const auto of_rank = shared_->others.find(rank);
  if (of_rank == shared_->others.end()) return std::nullopt;
  const auto found = of_rank->second.find(communicator);
  return found == of_rank->second.end() ? 0 : found->second;
}

}  // namespace shardscope::cuda
