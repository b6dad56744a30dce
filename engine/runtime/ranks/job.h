// What all ranks of a run share, unchanged.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "engine/config/config.h"
#include "engine/model/data.h"
#include "engine/model/model_config.h"
#include "engine/model/training_settings.h"
#include "engine/plan/mesh.h"
#include "engine/plan/model_description.h"
#include "trace/base/time.h"

namespace shardscope::runtime {

struct Job {
  model::ModelConfig model;
  model::TrainingSettings training;
  plan::DType master = plan::DType::kFp32;  // of shards and optimizer state
  plan::DType reduce = plan::DType::kFp32;  // in which gradients are sent
  std::shared_ptr<const model::Corpus> corpus;
  plan::ModelDescription description;
  plan::Mesh mesh;
  int shard_ranks = 1;           // 1 with no_shard
  std::optional<int> only_rank;  // of this process, where each rank has one; else it has all
  bool poison = false;           // tests: freed memory is inaccessible
  bool keep_batches = false;     // for --dump
  int64_t memory_limit = 0;
  int64_t timeout_ns = 60 * kNsPerSecond;  // how long a rank may keep the others waiting
  std::optional<config::Fault> fault;      // debug.fault

  // Whose slice of every unit `rank` holds, of shard_ranks.
  int ShardIndexOf(int rank) const {
    return shard_ranks == 1 ? 0 : mesh.Coordinate(rank, plan::MeshDimension::kShard);
  }
};

}  // namespace shardscope::runtime
