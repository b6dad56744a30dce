#include "engine/runtime/ranks/ranks.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <map>
#include <stdexcept>
#include <thread>

#include "engine/footprint/unlisted_memory.h"
#include "engine/runtime/memory/tensor_memory.h"
#include "engine/runtime/ranks/faulty_bodies.h"
#include "engine/runtime/ranks/thread_setup.h"
#include "trace/base/check.h"
#include "trace/base/mutex.h"
#include "trace/base/parallel.h"
#include "trace/base/process.h"
#include "trace/base/text.h"
#include "trace/base/time.h"

namespace shardscope::runtime {

Ranks::Ranks(Job job, std::unique_ptr<transport::Transport> transport, Device* device,
             model::Sampler sampler)
    : job_(std::move(job)),
      model_(job_.model),
      transport_(std::move(transport)),
      device_(*device),
      sampler_(std::move(sampler)) {
  transport_->set_describe_rank([this](int rank) {
    // Ranks of other processes are not known here, nor are those that do not exist yet.
    if (!IsLocal(rank) || ranks_.size() < static_cast<size_t>(num_local())) return std::string();
    return executor::Describe(At(rank).runner->activity(), MonotonicNs(), job_.timeout_ns);
  });
}

Ranks::~Ranks() = default;

std::vector<int> Ranks::local() const {
  std::vector<int> ranks;
  for (int i = 0; i < num_local(); ++i) ranks.push_back(first_local() + i);
  return ranks;
}

plan::Unlisted Ranks::UnlistedMemory(const plan::Schedule& schedule) const {
  return footprint::UnlistedMemory(
      job_.model, job_.training.batch, schedule,
      [&transport = *transport_](plan::OpKind kind, int64_t payload_bytes, int64_t pieces) {
        return transport.ScratchBytes(kind, payload_bytes, pieces);
      });
}

Result<std::unique_ptr<Ranks>> Ranks::Make(Job job, std::unique_ptr<transport::Transport> transport,
                                           executor::ExecutionSink* sink, Device* device) {
  Result<std::unique_ptr<Ranks>> ranks = Prepare(std::move(job), std::move(transport), device);
  if (ranks.ok()) (*ranks)->AddRanks(sink);
  return ranks;
}

Result<std::unique_ptr<Ranks>> Ranks::Prepare(Job job,
                                              std::unique_ptr<transport::Transport> transport,
                                              Device* device) {
  InstallTensorMemory();
  const model::TrainingSettings& training = job.training;
  Result<model::Sampler> sampler = model::Sampler::Make(
      {.num_samples = model::NumSamples(job.corpus->num_tokens(), job.model.seq),
       .num_ranks = training.num_ranks,
       .takers = job.initial_layout.mesh.SizeOf(plan::kDataDimensions),
       .samples_per_step = training.batch * training.micro_batches,
       .seed = training.seed,
       .start = job.data_start});
  if (!sampler.ok()) return sampler.status();
  return std::unique_ptr<Ranks>(
      new Ranks(std::move(job), std::move(transport), device, *std::move(sampler)));
}

// What takes long, memory and weights from disk, all ranks do at a time. Behind a rank that cannot
// be made none is begun.
void Ranks::AddRanks(executor::ExecutionSink* sink) {
  const RankContext rank_context{&job_, &model_, transport_.get(), sink};
  std::vector<std::unique_ptr<RankWork>> work(static_cast<size_t>(num_local()));
  std::vector<std::exception_ptr> errors(work.size());
  const auto make = [&](size_t index) {
    const int rank = first_local() + static_cast<int>(index);
    try {
      if (work.size() > 1) ComputeOnOneThread();
      device_.EnterThread(rank);
      work[index] = device_.MakeWork(rank, rank_context, sampler_);
      return Status::Ok();
    } catch (...) {
      errors[index] = std::current_exception();
    }
    return Status::Error("a rank cannot be made");
  };
  const Status made = ForEachIndex(work.size(), NumCores(), make);
  // The first rank's, whichever came first: those before one that is begun are, too.
  for (const std::exception_ptr& error : errors) {
    if (error != nullptr) std::rethrow_exception(error);
  }
  SHARDSCOPE_CHECK(made.ok());
  for (const int rank : local()) {
    AddRank(rank, std::move(work[static_cast<size_t>(rank - first_local())]), sink);
  }
}

void Ranks::AddRank(int rank, std::unique_ptr<RankWork> work, executor::ExecutionSink* sink) {
  Rank added;
  device_.EnterThread(rank);
  added.work = std::move(work);
  added.faulty = std::make_unique<FaultyBodies>(&job_, added.work.get());
  added.runner = device_.MakeRunner(rank, added.faulty.get(), sink);
  added.runner->set_on_failure(
      [this, rank](executor::Culprit culprit) { NoteFailure(rank, culprit); });
  ranks_.push_back(std::move(added));
}

Status Ranks::SetSchedule(int rank, const plan::Schedule& schedule) {
  work(rank).SetSchedule(schedule);
  return runner(rank).SetSchedule(schedule);
}

// Ends all ranks: those that wait get it from the transport and the slots, those that compute find
// it out at their next collective.
void Ranks::NoteFailure(int rank, executor::Culprit culprit) {
  {
    const MutexLock lock(mutex_);
    if (failure_.rank < 0) {
      failure_.rank = rank;
      failure_.time_ns = MonotonicNs();
      if (culprit == executor::Culprit::kThisRank) failure_.others = DescribeOthers(rank);
    }
  }
  transport_->Abort("rank " + std::to_string(rank) + " failed");
  device_.Abort();
}

// "; ranks 0, 2 wait for it in 'F m0 block1 all_gather' (op 12); rank 3 hangs in ..."
std::string Ranks::DescribeOthers(int rank) const {
  std::map<std::string, std::vector<std::string>> waiting;  // by place
  std::string text;
  for (const int other : local()) {
    if (other == rank) continue;
    const executor::Activity activity = At(other).runner->activity();
    const executor::CurrentOp* op = activity.Main();
    if (op == nullptr) continue;
    const int64_t now_ns = MonotonicNs();
    if (op->waits_for_ranks) {
      waiting["'" + op->name + "' (op " + std::to_string(op->op) + ")"].push_back(
          std::to_string(other));
    } else if (now_ns - op->since_ns >= job_.timeout_ns) {
      text += "; " + executor::Describe(activity, now_ns, job_.timeout_ns);
    }
  }
  for (const auto& [place, ranks] : waiting) {
    text += (ranks.size() == 1 ? "; rank " : "; ranks ") + Join(ranks, ", ") +
            (ranks.size() == 1 ? " waits" : " wait") + " in " + place;
  }
  return text;
}

Status Ranks::OnAll(const std::function<Status(int rank)>& body) {
  const auto together = std::make_shared<Together>(size());
  std::vector<std::thread> threads;
  const auto end = [this, together](int rank, const Status& result, executor::Culprit culprit) {
    if (!result.ok()) NoteFailure(rank, culprit);
    const MutexLock lock(together->mutex);
    together->results[static_cast<size_t>(rank)] = result;
    together->ended[static_cast<size_t>(rank)] = 1;
    ++together->num_ended;
    together->changed.notify_all();
  };
  const auto start = [&](int rank) {
    // Copies: a rank that is left behind outlives this call.
    threads.emplace_back([this, rank, body, end] {
      Status result;
      executor::Culprit culprit = executor::Culprit::kThisRank;
      try {
        device_.EnterThread(rank);
        result = body(rank);
      } catch (const transport::TransportTimeout& error) {
        culprit = executor::Culprit::kOtherRank;
        result = Status::Error(error.what());
      } catch (const std::exception& error) {
        result = Status::Error("rank " + std::to_string(rank) + ": " + ErrorText(error));
      }
      end(rank, result, culprit);
    });
  };
  for (const int rank : local()) {
    try {
      start(rank);
    } catch (const std::exception& error) {  // no thread; the ranks that have one end, too
      end(rank, Status::Error("rank " + std::to_string(rank) + ": " + ErrorText(error)),
          executor::Culprit::kThisRank);
    }
  }
  is_stuck_ = !WaitForAll(together.get());
  for (std::thread& thread : threads) is_stuck_ ? thread.detach() : thread.join();
  const MutexLock lock(together->mutex);
  return FirstError(*together);
}

// False: a rank has failed, and another does not end.
bool Ranks::WaitForAll(Together* together) {
  constexpr std::chrono::milliseconds kLook(100);
  MutexLock lock(together->mutex);
  while (together->num_ended < num_local()) {
    together->changed.wait_for(lock, kLook);
    const Failure failure = [&] {
      const MutexLock failure_lock(mutex_);
      return failure_;
    }();
    if (failure.rank < 0) continue;
    for (const int rank : local()) {
      if (together->ended[static_cast<size_t>(rank)] == 0 && IsHopeless(rank, failure)) {
        return false;
      }
    }
  }
  return true;
}

// Whether `rank` has had its time: comm.timeout since the failure, or a moment to end (so that a
// rank that was only slow is not left behind) and comm.timeout in its op.
bool Ranks::IsHopeless(int rank, const Failure& failure) const {
  constexpr int64_t kMomentNs = kNsPerSecond;
  if (job_.timeout_ns == 0) return false;
  const int64_t now_ns = MonotonicNs();
  if (now_ns - failure.time_ns > job_.timeout_ns) return true;
  const executor::Activity activity = At(rank).runner->activity();
  const executor::CurrentOp* op = activity.Main();
  return op != nullptr && now_ns - op->since_ns > job_.timeout_ns &&
         now_ns - failure.time_ns > std::min(kMomentNs, job_.timeout_ns);
}

Status Ranks::FirstError(const Together& together) const {
  const MutexLock lock(mutex_);
  Status first;
  for (const Status& result : together.results) {
    if (first.ok()) first = result;
  }
  std::string text = first.message();
  const auto failed = static_cast<size_t>(failure_.rank);
  if (failure_.rank >= 0 && !together.results[failed].ok()) {
    text = together.results[failed].message() + failure_.others;
  }
  for (const int rank : local()) {
    const executor::Activity activity = At(rank).runner->activity();
    const std::string described = executor::Describe(activity, MonotonicNs(), job_.timeout_ns);
    if (together.ended[static_cast<size_t>(rank)] != 0) continue;
    // As a rule it is what the others waited for, and named already.
    const std::string named = described.substr(0, described.rfind(" for "));
    const bool is_known = text.find(named) != std::string::npos;
    text += "; " + (is_known ? "rank " + std::to_string(rank) : described) + " does not stop";
  }
  return text.empty() ? Status::Ok() : Status::Error(text);
}

at::Tensor Ranks::FullParameter(const std::string& name) {
  const StateLayout& state = work(0).layout();
  for (size_t unit = 0; unit < work(0).units().size(); ++unit) {
    const UnitLayout& layout = work(0).units()[unit].layout();
    for (size_t index = 0; index < layout.parameters().size(); ++index) {
      const ParameterLayout& parameter = layout.parameters()[index];
      if (parameter.parameter.name != name) continue;
      const int tensor_ranks = state.mesh.size(plan::MeshDimension::kTensor);
      const plan::Parameter whole = plan::WholeOf(parameter.parameter, tensor_ranks);
      at::Tensor full = at::empty(whole.shape, model::ScalarTypeOf(job_.master));
      at::Tensor flat = full.view({-1});
      for (int rank = 0; rank < size(); ++rank) {
        if (!state.Has(rank, static_cast<int32_t>(unit))) continue;
        const ShardedUnit& held = work(rank).units()[unit];
        const at::Tensor slice = held.SliceOf(index).parameters;
        for (const plan::TensorRun& run : held.OwnRuns(index)) {
          flat.narrow(0, run.first_in_whole, run.count)
              .copy_(slice.narrow(0, run.first, run.count));
        }
      }
      return full;
    }
  }
  throw std::runtime_error("no parameter is called " + name);
}

}  // namespace shardscope::runtime
