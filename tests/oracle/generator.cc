#include "tests/oracle/generator.h"

#include <algorithm>
#include <initializer_list>
#include <string>

#include "engine/plan/state.h"

namespace shardscope::oracle {
namespace {

template <typename T>
T OneOf(std::initializer_list<T> choices, Random& random) {
  return choices.begin()[random.Below(static_cast<int64_t>(choices.size()))];
}

plan::Unit RandomUnit(const std::string& name, Random& random) {
  plan::Unit unit;
  unit.name = name;
  const int num_parameters = random.Between(1, 4);
  for (int number = 0; number < num_parameters; ++number) {
    plan::Parameter parameter;
    parameter.name = name + ".p" + std::to_string(number);
    const int num_dimensions = random.Between(0, 3);
    for (int dimension = 0; dimension < num_dimensions; ++dimension) {
      parameter.shape.push_back(random.Between(1, 13));
    }
    unit.parameters.push_back(parameter);
  }
  return unit;
}

void AddSegment(int32_t unit, Random& random, plan::ModelDescription* model) {
  plan::Segment segment;
  segment.name = "segment" + std::to_string(model->segments.size());
  if (unit != plan::kNone) segment.units = {unit};
  segment.activation_bytes = random.Between(1, 1000);
  segment.output_bytes = random.Between(1, static_cast<int>(segment.activation_bytes));
  model->segments.push_back(segment);
}

int32_t AddUnit(const std::string& name, Random& random, plan::ModelDescription* model) {
  model->units.push_back(RandomUnit(name, random));
  return static_cast<int32_t>(model->units.size()) - 1;
}

// Some parameters, of at least one unit not all; of a segment all, or those that train are another
// one's.
void Freeze(Random& random, plan::ModelDescription* model) {
  const int64_t trained = random.Below(std::ssize(model->units));
  for (int64_t index = 0; index < std::ssize(model->units); ++index) {
    plan::Unit& unit = model->units[static_cast<size_t>(index)];
    const bool is_mixed = random.OneIn(2);
    const bool is_frozen = random.OneIn(2);
    for (plan::Parameter& parameter : unit.parameters) {
      parameter.is_frozen = is_mixed ? random.OneIn(2) : is_frozen;
    }
    if (index == trained) unit.parameters[0].is_frozen = false;
    std::ranges::stable_sort(unit.parameters, {}, &plan::Parameter::is_frozen);
    const bool trains = !unit.parameters[0].is_frozen;
    bool has_trained = false;
    plan::Segment* last = nullptr;
    for (plan::Segment& segment : model->segments) {
      if (std::ranges::find(segment.units, index) == segment.units.end()) continue;
      last = &segment;
      if (trains && (!is_mixed || random.OneIn(2))) {
        has_trained = true;
      } else {
        segment.frozen_units.push_back(static_cast<int32_t>(index));
      }
    }
    if (trains && !has_trained) last->frozen_units.pop_back();
  }
}

}  // namespace

plan::ModelDescription RandomModel(Random& random) {
  plan::ModelDescription model;
  model.batch_bytes = random.Between(1, 1000);
  const bool root = random.OneIn(2);
  if (root) {
    AddSegment(AddUnit("root", random, &model), random, &model);
    model.units.front().is_root = true;
  }
  const int num_blocks = random.Between(root ? 0 : 1, 4);
  for (int block = 0; block < num_blocks; ++block) {
    if (random.OneIn(8)) AddSegment(plan::kNone, random, &model);
    const int32_t unit = AddUnit("block" + std::to_string(block), random, &model);
    const int num_segments = random.Between(1, 3);
    for (int segment = 0; segment < num_segments; ++segment) AddSegment(unit, random, &model);
    // As a bucket that begins in the middle of a segment.
    model.recomputable.resize(model.segments.size());
    for (size_t at = model.segments.size() - static_cast<size_t>(num_segments);
         at < model.segments.size(); ++at) {
      const int64_t inner = model.segments[at].activation_bytes - model.segments[at].output_bytes;
      model.recomputable[at] = {.block = block, .product_bytes = random.Below(inner + 1)};
    }
    plan::Segment& first =
        model.segments[model.segments.size() - static_cast<size_t>(num_segments)];
    if (unit > 0 && random.OneIn(6)) first.units.insert(first.units.begin(), unit - 1);
  }
  // The head: the root's, the first unit's once more (tied embedding), or of its own.
  if (root && !random.OneIn(4)) {
    AddSegment(0, random, &model);
  } else if (random.OneIn(5)) {
    AddSegment(static_cast<int32_t>(random.Below(static_cast<int64_t>(model.units.size()))), random,
               &model);
  } else if (random.OneIn(2)) {
    AddSegment(AddUnit("head", random, &model), random, &model);
  } else if (random.OneIn(6)) {
    AddSegment(plan::kNone, random, &model);
  }
  model.recomputable.resize(model.segments.size());
  if (random.OneIn(3)) Freeze(random, &model);
  return model;
}

namespace {

plan::ActivationCheckpointing RandomCheckpointing(Random& random) {
  plan::ActivationCheckpointing checkpointing;
  checkpointing.mode = OneOf<plan::Checkpointing>(
      {plan::Checkpointing::kNone, plan::Checkpointing::kNone, plan::Checkpointing::kEvery,
       plan::Checkpointing::kBlocks, plan::Checkpointing::kProducts},
      random);
  checkpointing.every = random.Between(1, 2);
  for (int32_t block = 0; block < 4; ++block) {
    if (random.OneIn(2)) checkpointing.blocks.push_back(block);
  }
  return checkpointing;
}

// By segment: its piece. Between two pieces the model may be cut.
std::vector<int32_t> PiecesOf(const plan::ModelDescription& model) {
  std::vector<int32_t> last_of_unit(model.units.size(), -1);
  for (size_t segment = 0; segment < model.segments.size(); ++segment) {
    for (const int32_t unit : model.segments[segment].units) {
      last_of_unit[static_cast<size_t>(unit)] = static_cast<int32_t>(segment);
    }
  }
  std::vector<int32_t> pieces;
  int32_t piece = 0;
  int32_t reaches = -1;   // the last segment of units that have begun
  bool has_unit = false;  // of this piece
  for (size_t segment = 0; segment < model.segments.size(); ++segment) {
    const bool is_free = reaches < static_cast<int32_t>(segment);
    const bool begins_unit = !model.segments[segment].units.empty();
    if (is_free && has_unit && begins_unit) {
      ++piece;
      has_unit = false;
    }
    has_unit |= begins_unit;
    for (const int32_t unit : model.segments[segment].units) {
      reaches = std::max(reaches, last_of_unit[static_cast<size_t>(unit)]);
    }
    pieces.push_back(piece);
  }
  return pieces;
}

// Whether units follow one another, each in segments of its own, and are freed after their forward.
bool CanTakeTurns(const plan::ModelDescription& model, const plan::Policy& policy) {
  int32_t last = plan::kNone;
  for (const plan::Segment& segment : model.segments) {
    if (segment.units.size() > 1) return false;
    for (const int32_t unit : segment.units) {
      if (unit < last) return false;
      last = unit;
    }
  }
  return policy.strategy->reshards_after_forward && policy.reshard_after_forward &&
         policy.mesh.size(plan::MeshDimension::kPipeline) == 1;
}

// Random units gather random others ahead.
std::vector<plan::PrefetchList> RandomLists(const plan::ModelDescription& model, Random& random) {
  std::vector<plan::PrefetchList> lists;
  for (const plan::Unit& unit : model.units) {
    if (!random.OneIn(3)) continue;
    plan::PrefetchList& list = lists.emplace_back();
    list.unit = unit.name;
    for (int left = random.Between(1, 3); left > 0; --left) {
      const int64_t number = random.Below(std::ssize(model.units));
      list.gathers.push_back(model.units[static_cast<size_t>(number)].name);
    }
  }
  return lists;
}

}  // namespace

plan::ModelDescription Divided(plan::ModelDescription model, plan::Policy* policy, Random& random) {
  if (policy->preset == plan::Preset::kDoubleBuffer && !CanTakeTurns(model, *policy)) {
    policy->preset = plan::Preset::kFsdp1;
  }
  const plan::Strategy& strategy = *policy->strategy;
  const bool has_slots = plan::HasSlots(*policy);
  if (strategy.shards_optimizer && !has_slots && random.OneIn(3)) {
    policy->offload = strategy.shards_parameters && random.OneIn(2) ? plan::Offload::kAll
                                                                    : plan::Offload::kOptimizer;
    policy->accumulation.keeps_dtype = false;
  }
  policy->update.clips = random.OneIn(2) || policy->update.has_scaler;
  if (policy->preset == plan::Preset::kFsdp2 && random.OneIn(3)) {
    policy->prefetch_lists = {.forward = RandomLists(model, random),
                              .backward = RandomLists(model, random)};
  }
  if (policy->mesh.size(plan::MeshDimension::kTensor) > 1) {
    const int64_t choice = random.Below(4);
    policy->units.sequence_parallel = choice % 2 == 0;
    policy->tensor_async = choice / 2 == 0;
    model.has_partial_gradients = random.OneIn(3);
    for (plan::Segment& segment : model.segments) {
      segment.is_split = !random.OneIn(3);
      segment.hidden_bytes = segment.output_bytes;
      if (!segment.is_split || !policy->units.sequence_parallel) continue;
      const int ranks = policy->mesh.size(plan::MeshDimension::kTensor);
      segment.norm_bytes = ranks * segment.output_bytes + random.Below(100);
    }
    // Of what a rank has of them nothing else depends on which are split.
    for (plan::Unit& unit : model.units) {
      for (plan::Parameter& parameter : unit.parameters) {
        if (random.OneIn(2)) parameter.split = plan::TensorSplit::kColumns;
      }
    }
  }
  int32_t& ranks = policy->mesh.sizes[static_cast<size_t>(plan::MeshDimension::kPipeline)];
  const std::vector<int32_t> pieces = PiecesOf(model);
  const int32_t num_pieces = pieces.back() + 1;
  ranks = std::min(ranks, num_pieces);
  if (ranks == 1) return model;
  int stages = ranks;
  if (policy->pipeline == plan::PipelineSchedule::kInterleaved) {
    stages *= random.Between(1, num_pieces / ranks);
  }
  policy->units.stages = stages;
  for (size_t segment = 0; segment < pieces.size(); ++segment) {
    model.segments[segment].stage = pieces[segment] * stages / num_pieces;
  }
  return model;
}

plan::Policy RandomArithmetic(Random& random) {
  using plan::DType;
  plan::Policy policy;
  policy.mesh =
      plan::MeshOf(plan::MeshDimension::kShard, OneOf<int>({1, 2, 2, 2, 3, 3, 4, 5}, random));
  policy.micro_batches = OneOf<int>({1, 1, 2, 3}, random);
  if (random.OneIn(6)) {
    policy.master_dtype = policy.param_dtype = policy.reduce_dtype = DType::kFp64;
    return policy;
  }
  const auto optimizer = OneOf<plan::OptimizerKind>(
      {plan::OptimizerKind::kAdamw, plan::OptimizerKind::kAdamw, plan::OptimizerKind::kSgd},
      random);
  policy.update.state = plan::StateTensorsOf(
      optimizer,
      OneOf<plan::StateForm>({plan::StateForm::kMaster, plan::StateForm::kBlocks}, random),
      OneOf<bool>({true, false}, random));
  policy.param_dtype = OneOf<DType>({DType::kFp32, DType::kBf16}, random);
  policy.reduce_dtype = OneOf<DType>({DType::kFp32, DType::kBf16}, random);
  policy.update.has_scaler = random.OneIn(4);
  return policy;
}

plan::Policy RandomKnobs(const plan::Policy& arithmetic, Random& random) {
  using plan::BackwardPrefetch;
  plan::Policy policy = arithmetic;
  policy.preset = OneOf<plan::Preset>(
      {plan::Preset::kFsdp1, plan::Preset::kFsdp2, plan::Preset::kDoubleBuffer}, random);
  policy.strategy = plan::FindStrategy(OneOf<std::string_view>(
      {"full", "full", "full", "grad_op", "no_shard", "hybrid", "ddp", "zero1", "zero2", "zero3",
       "single", "pipeline", "pipeline", "model_parallel", "tensor", "data_parallel"},
      random));
  const int ranks = policy.mesh.num_ranks();
  policy.mesh = policy.strategy->MeshOf(policy.strategy->dimensions == 0 ? 1 : ranks);
  if (policy.strategy->replicates_shards()) {
    int replicas = std::min(ranks, random.Between(2, std::max(2, ranks)));
    while (ranks % replicas != 0) ++replicas;
    policy.mesh = {{1, replicas, ranks / replicas, 1}};
  }
  // Each stage by several ranks.
  if (policy.strategy->Uses(plan::MeshDimension::kPipeline) && ranks <= 3 && random.OneIn(3)) {
    int32_t& stages = policy.mesh.sizes[static_cast<size_t>(plan::MeshDimension::kPipeline)];
    if (stages == 1) stages = random.Between(2, 3);
  }
  // Each layer by several ranks.
  if (policy.strategy->Uses(plan::MeshDimension::kTensor) && policy.mesh.num_ranks() <= 4 &&
      random.OneIn(3)) {
    int32_t& tensor_ranks = policy.mesh.sizes[static_cast<size_t>(plan::MeshDimension::kTensor)];
    if (tensor_ranks == 1) tensor_ranks = random.Between(2, 3);
  }
  if (policy.strategy->overlaps_stages) {
    policy.pipeline = OneOf<plan::PipelineSchedule>(
        {plan::PipelineSchedule::kGpipe, plan::PipelineSchedule::k1F1B,
         plan::PipelineSchedule::kInterleaved},
        random);
  }
  policy.reshard_after_forward = !random.OneIn(4);
  const int32_t shards = policy.mesh.size(plan::MeshDimension::kShard);
  if (shards % 2 == 0 && shards > 2 && policy.preset == plan::Preset::kFsdp2 &&
      policy.strategy->has_presets && policy.strategy->reshards_after_forward &&
      policy.reshard_after_forward && policy.mesh.size(plan::MeshDimension::kPipeline) == 1) {
    policy.post_forward_ranks = OneOf<int>({0, 2}, random);
  }
  policy.backward_prefetch = OneOf<BackwardPrefetch>(
      {BackwardPrefetch::kPre, BackwardPrefetch::kPost, BackwardPrefetch::kNone}, random);
  policy.backward_depth = random.Between(1, 3);
  policy.forward_prefetch = random.Between(0, 3);
  policy.prefetch_limit = random.Between(0, 3);
  policy.run_ahead = random.Between(-1, 3);
  if (policy.strategy->has_element_budgets) {
    policy.budgets = {.prefetch_bucket_size = random.Below(1500),
                      .max_live_parameters = random.Below(4000),
                      .max_reuse_distance = random.Below(1500)};
    policy.units.persistence_threshold = OneOf<int64_t>({0, 0, 30, 200, 1000}, random);
  }
  policy.overlap_comm = !random.OneIn(4);
  policy.checkpointing = RandomCheckpointing(random);
  if (policy.strategy->is_rooted) policy.update.has_scaler = false;
  if (!policy.strategy->has_presets || !policy.strategy->shards_parameters ||
      policy.preset == plan::Preset::kDoubleBuffer || random.OneIn(3)) {
    return policy;
  }
  policy.accumulation.sync =
      OneOf<plan::GradientSync>({plan::GradientSync::kReduce, plan::GradientSync::kNoSync}, random);
  if (policy.strategy->replicates_shards() && random.OneIn(2)) {
    policy.accumulation.sync = plan::GradientSync::kReduceScatterOnly;
  }
  policy.accumulation.reshards = random.OneIn(2);
  policy.accumulation.waits = random.OneIn(2);
  policy.accumulation.keeps_dtype = random.OneIn(3);
  return policy;
}

}  // namespace shardscope::oracle
