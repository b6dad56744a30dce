#include "engine/runtime/ranks/ranks.h"

#include <ATen/ops/empty.h>

#include <stdexcept>
#include <thread>

#include "engine/runtime/memory/tensor_memory.h"

namespace shardscope::runtime {

Ranks::Ranks(Job job, std::unique_ptr<transport::Transport> transport, int compute_slots)
    : job_(std::move(job)),
      model_(job_.model),
      transport_(std::move(transport)),
      slots_(compute_slots) {}

Ranks::~Ranks() = default;

std::vector<int> Ranks::local() const {
  std::vector<int> ranks;
  for (int i = 0; i < num_local(); ++i) ranks.push_back(first_local() + i);
  return ranks;
}

Result<std::unique_ptr<Ranks>> Ranks::Make(Job job, std::unique_ptr<transport::Transport> transport,
                                           executor::ExecutionSink* sink, int compute_slots) {
  InstallTensorMemory();
  const model::TrainingSettings& training = job.training;
  const auto bytes = static_cast<int64_t>(job.corpus->bytes.size());
  Result<model::Sampler> sampler =
      model::Sampler::Make({.num_samples = model::NumSamples(bytes, job.model.seq),
                            .num_ranks = training.num_ranks,
                            .samples_per_step = training.batch * training.micro_batches,
                            .seed = training.seed});
  if (!sampler.ok()) return sampler.status();
  std::unique_ptr<Ranks> ranks(new Ranks(std::move(job), std::move(transport), compute_slots));
  for (const int rank : ranks->local()) ranks->AddRank(rank, *sampler, sink);
  return ranks;
}

void Ranks::AddRank(int rank, const model::Sampler& sampler, executor::ExecutionSink* sink) {
  Rank added;
  added.bodies = std::make_unique<RankBodies>(
      rank, RankBodies::Surroundings{&job_, &model_, transport_.get(), sink}, sampler);
  added.executor =
      std::make_unique<executor::RankExecutor>(rank, added.bodies.get(), sink, &slots_);
  added.executor->set_on_failure([this, rank] {
    int nobody = -1;
    first_failed_.compare_exchange_strong(nobody, rank);
    transport_->Abort("rank " + std::to_string(rank) + " failed");
  });
  ranks_.push_back(std::move(added));
}

Status Ranks::OnAll(const std::function<Status(int rank)>& body) {
  std::vector<Status> results(static_cast<size_t>(size()));
  std::vector<std::thread> threads;
  for (const int rank : local()) {
    threads.emplace_back([&, rank] {
      Status& result = results[static_cast<size_t>(rank)];
      try {
        result = body(rank);
      } catch (const std::exception& error) {
        result = Status::Error("rank " + std::to_string(rank) + ": " + error.what());
      }
      if (result.ok()) return;
      int nobody = -1;
      first_failed_.compare_exchange_strong(nobody, rank);
      transport_->Abort("rank " + std::to_string(rank) + " failed");
    });
  }
  for (std::thread& thread : threads) thread.join();
  const int failed = first_failed_.load();
  if (failed >= 0 && !results[static_cast<size_t>(failed)].ok()) {
    return results[static_cast<size_t>(failed)];
  }
  for (const Status& result : results) SHARDSCOPE_RETURN_IF_ERROR(result);
  return Status::Ok();
}

at::Tensor Ranks::FullParameter(const std::string& name) {
  for (size_t unit = 0; unit < job_.description.units.size(); ++unit) {
    for (const ParameterLayout& layout : bodies(0).unit(unit).layout().parameters()) {
      if (layout.parameter.name != name) continue;
      at::Tensor full = at::empty(layout.parameter.shape, model::ScalarTypeOf(job_.master));
      at::Tensor flat = full.view({-1});
      for (int rank = 0; rank < job_.shard_ranks; ++rank) {
        const int64_t elements =
            plan::OwnedRows(layout.parameter, job_.shard_ranks, rank) * layout.row_elements;
        if (elements == 0) continue;
        flat.narrow(0, rank * layout.shard_elements(), elements)
            .copy_(bodies(rank).unit(unit).parameters().narrow(0, layout.shard_offset, elements));
      }
      return full;
    }
  }
  throw std::runtime_error("no parameter is called " + name);
}

}  // namespace shardscope::runtime
