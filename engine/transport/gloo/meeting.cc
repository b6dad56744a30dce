#include "engine/transport/gloo/meeting.h"

#include <unistd.h>

#include <algorithm>
#include <vector>

#include "engine/transport/gloo/stop_reason.h"
#include "engine/transport/gloo/store.h"
#include "trace/base/number_list.h"
#include "trace/base/process.h"
#include "trace/base/time.h"
#include "trace/base/units.h"

namespace shardscope::transport {
namespace {

constexpr int64_t kLookNs = 50 * kNsPerMs;
constexpr int64_t kSilenceNs = 5 * kNsPerSecond;
constexpr const char* kNumCame = "meeting/came";  // processes, whatever they were told
constexpr const char* kIsOver = "meeting/over";   // all have come; the run goes on without it

std::string Text(int64_t number) { return std::to_string(number); }

// One process at the meeting.
class Participant {
 public:
  Participant(const GlooProcess& process, Store* store) : process_(process), store_(store) {}

  void Arrive() {
    number_ = store_->Add(OwnKey("processes"), 1);
    store_->Set(OwnKey("who/" + Text(number_)), "process " + Text(getpid()) + " on " + HostName());
    // The first of this rank; what a second one was told does not matter any more.
    if (number_ == 1) store_->Set(OwnKey(kWorldSize), Text(process_.num_ranks));
    store_->Add(kNumCame, 1);
  }

  int64_t NumCame() const { return store_->Add(kNumCame, 0); }
  bool IsOver() const { return !store_->Get(kIsOver).empty(); }
  // Before Arrive(): whether a process of this rank has come.
  bool HasNamesake() const { return store_->Add(OwnKey("processes"), 0) > 0; }
  void End() const {
    if (process_.rank == 0) store_->Set(kIsOver, "1");
  }

  // Why those who are there cannot be one run; empty: nothing so far. Fills in who is missing.
  std::string Look(std::vector<int>* missing) const {
    missing->clear();
    const std::string mine = Text(process_.num_ranks);
    for (int rank = 0; rank < process_.num_ranks; ++rank) {
      const std::string theirs = store_->Get(KeyOf(rank, kWorldSize));
      if (theirs.empty()) missing->push_back(rank);
      if (theirs.empty() || theirs == mine) continue;
      return "rank " + Text(process_.rank) + " was given WORLD_SIZE=" + mine + ", rank " +
             Text(rank) + " WORLD_SIZE=" + theirs + ": all processes of a run need the same";
    }
    return Twice();
  }

 private:
  static constexpr const char* kWorldSize = "world_size";

  static std::string KeyOf(int rank, const std::string& what) {
    return "meeting/" + Text(rank) + "/" + what;
  }
  std::string OwnKey(const std::string& what) const { return KeyOf(process_.rank, what); }
  std::string Who(int64_t number) const { return store_->Get(OwnKey("who/" + Text(number))); }

  // Why this rank is there twice; empty: it is not, or the other one has not told its name yet (it
  // does so before it counts itself among those who came, and that is when all look again).
  std::string Twice() const {
    const int64_t num_processes = store_->Add(OwnKey("processes"), 0);
    for (int64_t other = 1; other <= num_processes; ++other) {
      if (other == number_ || Who(other).empty()) continue;
      const std::string rank = Text(process_.rank);
      return "rank " + rank + " is there twice: RANK=" + rank + " was given to " +
             Who(std::min(other, number_)) + " and RANK=" + rank + " to " +
             Who(std::max(other, number_)) +
             "; each process of a run needs its own RANK, from 0 to " +
             Text(process_.num_ranks - 1);
    }
    return "";
  }

  const GlooProcess& process_;
  Store* const store_;
  int64_t number_ = 1;  // among the processes of this rank
};

std::string MissingText(const GlooProcess& process, const std::vector<int>& missing,
                        int64_t timeout_ns) {
  return RanksText(missing) + (missing.size() == 1 ? " has" : " have") + " not come to " +
         PlaceOf(process) +
         " (MASTER_ADDR, MASTER_PORT) within comm.timeout=" + FormatDuration(timeout_ns) +
         ": WORLD_SIZE=" + Text(process.num_ranks) + " needs one process for each RANK from 0 to " +
         Text(process.num_ranks - 1);
}

}  // namespace

std::string PlaceOf(const GlooProcess& process) {
  return process.master_address + ":" + std::to_string(process.master_port);
}

Patience::Patience(const GlooProcess& process, int64_t timeout_ns)
    : process_(process), timeout_ns_(timeout_ns), start_ns_(MonotonicNs()) {}

int64_t Patience::LeftNs() const { return start_ns_ + timeout_ns_ - MonotonicNs(); }

void Patience::Wait(const std::string& whom) {
  const int64_t now_ns = MonotonicNs();
  if (!has_told_ && now_ns - start_ns_ >= kSilenceNs) {
    has_told_ = true;
    if (process_.say) {
      process_.say("rank " + Text(process_.rank) + ": waiting for " + whom + " at " +
                   PlaceOf(process_));
    }
  }
  SleepUntilNs(now_ns + kLookNs);
}

void Meet(const GlooProcess& process, Store* store, Patience* patience) {
  Participant self(process, store);
  self.Arrive();
  StopReason stop(store);
  std::vector<int> missing;
  int64_t num_seen = 0;
  while (true) {
    const int64_t num_came = self.NumCame();
    std::string wrong;
    if (num_came != num_seen) wrong = self.Look(&missing);
    num_seen = num_came;
    // Before all else: of a store that is gone all numbers are 0, as if no rank were missing.
    if (wrong.empty() && store->has_gone()) wrong = "rank 0 is gone: it served the others' meeting";
    if (wrong.empty() && missing.empty()) return self.End();
    const bool is_over = !wrong.empty() && self.IsOver();  // the others train already
    if (wrong.empty()) {
      if (const std::optional<std::string> said = stop.WaitFor(0)) {
        stop.WaitForReaders([&self] { return self.NumCame(); });
        throw TransportError(*said);
      }
      if (patience->IsOver()) wrong = MissingText(process, missing, patience->timeout_ns());
    }
    if (!wrong.empty()) {
      stop.Set(wrong, !is_over);
      stop.WaitForReaders([&self] { return self.NumCame(); });
      throw TransportError(wrong);
    }
    patience->Wait(RanksText(missing));
  }
}

void Refuse(const GlooProcess& process, const std::string& reason, Store* store,
            const Patience& patience) {
  const Participant self(process, store);
  // Others meet there without it, or train already.
  if (self.HasNamesake() || self.IsOver()) return;
  StopReason stop(store);
  stop.Set(reason, true);
  stop.WaitForReaders([&process] { return process.num_ranks; }, patience.LeftNs());
}

}  // namespace shardscope::transport
