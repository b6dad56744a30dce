#include "engine/model/model_units.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace shardscope::model {
namespace {

using plan::Parameter;

int64_t StageOfBlock(const ModelConfig& config, const plan::UnitPolicy& policy, int64_t block) {
  const int64_t least = config.layers / policy.stages;
  const int64_t with_more = config.layers % policy.stages;
  const int64_t in_larger = with_more * (least + 1);
  return block < in_larger ? block / (least + 1) : with_more + (block - in_larger) / least;
}

std::string UnitName(const ModelConfig& config, const plan::UnitPolicy& policy, int64_t segment) {
  const SegmentKind kind = KindOf(config, segment);
  const bool has_root = policy.root || config.tied;
  if (kind == SegmentKind::kEmbedding) return has_root ? "root" : "embedding";
  if (kind == SegmentKind::kHead) return has_root ? "root" : "head";
  const int64_t block = (segment - 1) / 2;
  if (policy.blocks == 1) return "block" + std::to_string(block);
  // Groups start anew with each stage.
  const int64_t stage = StageOfBlock(config, policy, block);
  const auto is_there = [&](int64_t other) {
    return other >= 0 && other < config.layers && StageOfBlock(config, policy, other) == stage;
  };
  int64_t start = block;
  while (is_there(start - 1)) --start;
  const int64_t first = start + (block - start) / policy.blocks * policy.blocks;
  int64_t last = first;
  while (last + 1 < first + policy.blocks && is_there(last + 1)) ++last;
  if (first == last) return "block" + std::to_string(first);
  return "blocks" + std::to_string(first) + "-" + std::to_string(last);
}

// Gradients arrive from the last segment to the first, and in a segment from its last parameter to
// its first. Bucket 0 is full first; units are in order of first use in forward.
void FillBuckets(const ModelConfig& config, const plan::UnitPolicy& policy,
                 plan::ModelDescription* model) {
  const int64_t element_bytes = config.wide_bytes();
  int64_t left_bytes = policy.first_bucket_bytes;
  std::vector<plan::Unit> buckets(1);
  std::vector<std::vector<int32_t>> of_segment(model->segments.size());
  for (int64_t segment = NumSegments(config) - 1; segment >= 0; --segment) {
    std::vector<Parameter> parameters = ParametersOf(config, segment);
    const bool is_new_stage =
        segment + 1 < NumSegments(config) &&
        StageOf(config, policy, segment) != StageOf(config, policy, segment + 1);
    if (is_new_stage) left_bytes = 0;
    for (auto parameter = parameters.rbegin(); parameter != parameters.rend(); ++parameter) {
      if (!IsOwn(config, segment, *parameter)) continue;
      if (left_bytes <= 0) {
        buckets.emplace_back();
        left_bytes = policy.bucket_bytes;
      }
      // Reducer has no frozen ones; here they are in some bucket, of which they take no place.
      if (!parameter->is_frozen) left_bytes -= plan::NumElements(parameter->shape) * element_bytes;
      const auto bucket = static_cast<int32_t>(buckets.size()) - 1;
      std::vector<int32_t>& used = of_segment[static_cast<size_t>(segment)];
      if (used.empty() || used.back() != bucket) used.push_back(bucket);
      buckets.back().parameters.push_back(std::move(*parameter));
    }
  }
  const auto last = static_cast<int32_t>(buckets.size()) - 1;
  // The gradient of a tied head is whole with the embedding's.
  if (config.tied && of_segment.back().back() != last) of_segment.back().push_back(last);
  for (int32_t bucket = last; bucket >= 0; --bucket) {
    model->units.push_back(std::move(buckets[static_cast<size_t>(bucket)]));
    model->units.back().name = "bucket" + std::to_string(bucket);
  }
  for (size_t segment = 0; segment < of_segment.size(); ++segment) {
    for (auto bucket = of_segment[segment].rbegin(); bucket != of_segment[segment].rend();
         ++bucket) {
      model->segments[segment].units.push_back(last - *bucket);
    }
  }
}

int64_t ElementsOf(const ModelConfig& config, int64_t segment) {
  int64_t elements = 0;
  for (const Parameter& parameter : ParametersOf(config, segment)) {
    if (IsOwn(config, segment, parameter)) elements += plan::NumElements(parameter.shape);
  }
  return elements;
}

// Modules are embedding, blocks with attention and MLP in them, and head: those that are chosen.
std::set<std::string> ChosenModules(const ModelConfig& config, const plan::UnitPolicy& policy) {
  std::set<std::string> chosen(policy.names.begin(), policy.names.end());
  const auto is_chosen = [&](int64_t elements) {
    return policy.modules || (policy.least_elements > 0 && elements >= policy.least_elements);
  };
  for (int64_t segment = 0; segment < NumSegments(config); ++segment) {
    if (is_chosen(ElementsOf(config, segment))) chosen.insert(SegmentName(config, segment));
  }
  for (int64_t block = 0; policy.least_elements > 0 && block < config.layers; ++block) {
    int64_t rest = 0;  // in none of its own
    for (const int64_t segment : {2 * block + 1, 2 * block + 2}) {
      if (!chosen.contains(SegmentName(config, segment))) rest += ElementsOf(config, segment);
    }
    if (is_chosen(rest)) chosen.insert("block" + std::to_string(block));
  }
  if (policy.root || config.tied) {
    chosen.erase("embedding");
    chosen.erase("head");
  }
  return chosen;
}

// The innermost chosen module that has the segment, or the root.
std::string UnitAmong(const std::set<std::string>& chosen, const std::string& segment) {
  if (chosen.contains(segment)) return segment;
  const std::string block = segment.substr(0, segment.find('.'));
  return chosen.contains(block) ? block : "root";
}

// The unit of each segment, and the one of all small parameters, made at their first use.
void GroupByName(const ModelConfig& config, const plan::UnitPolicy& policy,
                 plan::ModelDescription* model) {
  const bool chooses = policy.modules || policy.least_elements > 0 || !policy.names.empty();
  const std::set<std::string> chosen =
      chooses ? ChosenModules(config, policy) : std::set<std::string>();
  for (int64_t segment = 0; segment < NumSegments(config); ++segment) {
    const std::string of_segment = chooses ? UnitAmong(chosen, SegmentName(config, segment))
                                           : UnitName(config, policy, segment);
    std::set<int32_t> used;
    for (Parameter& parameter : ParametersOf(config, segment)) {
      const bool is_small = plan::NumElements(parameter.shape) < policy.persistence_threshold;
      const std::string name = is_small ? "persistent" : of_segment;
      auto unit = std::ranges::find(model->units, name, &plan::Unit::name);
      if (unit == model->units.end()) {
        model->units.push_back({.name = name, .is_root = name == "root"});
        unit = model->units.end() - 1;
      }
      used.insert(static_cast<int32_t>(unit - model->units.begin()));
      if (IsOwn(config, segment, parameter)) unit->parameters.push_back(std::move(parameter));
    }
    model->segments[static_cast<size_t>(segment)].units.assign(used.begin(), used.end());
  }
}

// Of each segment, the units in which all that it has is frozen.
void FindFrozenUnits(const ModelConfig& config, plan::ModelDescription* model) {
  for (int64_t index = 0; index < NumSegments(config); ++index) {
    plan::Segment& segment = model->segments[static_cast<size_t>(index)];
    const std::vector<Parameter> parameters = ParametersOf(config, index);
    for (const int32_t unit : segment.units) {
      const auto& in_unit = model->units[static_cast<size_t>(unit)].parameters;
      const bool trains = std::ranges::any_of(parameters, [&](const Parameter& parameter) {
        return !parameter.is_frozen &&
               std::ranges::find(in_unit, parameter.name, &Parameter::name) != in_unit.end();
      });
      if (!trains) segment.frozen_units.push_back(unit);
    }
  }
}

}  // namespace

int32_t StageOf(const ModelConfig& config, const plan::UnitPolicy& policy, int64_t segment) {
  if (KindOf(config, segment) == SegmentKind::kEmbedding) return 0;
  if (KindOf(config, segment) == SegmentKind::kHead) return policy.stages - 1;
  return static_cast<int32_t>(StageOfBlock(config, policy, (segment - 1) / 2));
}

void AddUnits(const ModelConfig& config, const plan::UnitPolicy& policy,
              plan::ModelDescription* model) {
  if (policy.bucket_bytes > 0) {
    FillBuckets(config, policy, model);
  } else {
    GroupByName(config, policy, model);
  }
  for (plan::Unit& unit : model->units) {
    const auto is_trained = [](const Parameter& parameter) { return !parameter.is_frozen; };
    std::stable_partition(unit.parameters.begin(), unit.parameters.end(), is_trained);
  }
  FindFrozenUnits(config, model);
}

}  // namespace shardscope::model
