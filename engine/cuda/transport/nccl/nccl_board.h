// NcclBoard: what the processes of a run tell one another of their progress, so that a rank that
// waits in vain can name the rank that is late. Over the host's transport, whose meeting place may
// hang as everything may: a thread of its own asks it, and it is not waited for.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "engine/transport/transport.h"

namespace shardscope::cuda {

// How many collectives a rank has issued, by communicator.
using NcclProgress = std::map<int, int64_t>;
std::string PrintProgress(const NcclProgress& progress);
NcclProgress ParseProgress(const std::string& text);  // of any text

struct NcclBoardOptions {
  int rank = 0;
  int num_ranks = 1;
  int64_t period_ns = 1'000'000'000;  // between two posts
  std::function<NcclProgress()> mine;
};

// Threads: any. Owner: the transport.
class NcclBoard {
 public:
  NcclBoard(std::shared_ptr<transport::Transport> host, NcclBoardOptions options);
  // No call of options.mine is under way or comes after it. Waits for the thread unless that hangs.
  ~NcclBoard();
  NcclBoard(const NcclBoard&) = delete;
  NcclBoard& operator=(const NcclBoard&) = delete;

  // From now on what the others have posted is read, too: something takes long.
  void AskForOthers();
  // What `rank` has issued on a communicator, as far as it was read; none: nothing is known.
  std::optional<int64_t> Issued(int rank, int communicator) const;

 private:
  struct Shared;
  const std::shared_ptr<Shared> shared_;  // with the thread, which may outlive this
};

}  // namespace shardscope::cuda
