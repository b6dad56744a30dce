#include "engine/plan/model_description.h"

#include <algorithm>
#include <iterator>

#include "trace/base/check.h"

namespace shardscope::plan {
namespace {

// A scalar is sharded as one row of one element.
int64_t Rows(const Parameter& parameter) {
  return parameter.shape.empty() ? 1 : parameter.shape.front();
}

int64_t RowElements(const Parameter& parameter) {
  int64_t elements = 1;
  for (size_t dim = 1; dim < parameter.shape.size(); ++dim) elements *= parameter.shape[dim];
  return elements;
}

}  // namespace

int32_t NumStages(const std::vector<Segment>& segments) {
  return segments.empty() ? 1 : segments.back().stage + 1;
}

bool IsSequenceParallel(const std::vector<Segment>& segments) {
  return std::ranges::any_of(segments, [](const Segment& one) { return one.norm_bytes > 0; });
}

std::vector<int32_t> StageOfUnits(const std::vector<Segment>& segments, size_t num_units) {
  std::vector<int32_t> stages(num_units, 0);
  for (const Segment& segment : segments) {
    for (const int32_t unit : segment.units) stages[static_cast<size_t>(unit)] = segment.stage;
  }
  return stages;
}

int64_t NumElements(const std::vector<int64_t>& shape) {
  int64_t elements = 1;
  for (const int64_t size : shape) elements *= size;
  return elements;
}

int64_t PaddedRows(const Parameter& parameter, int num_ranks) {
  SHARDSCOPE_CHECK(num_ranks >= 1);
  return (Rows(parameter) + num_ranks - 1) / num_ranks;
}

int64_t OwnedRows(const Parameter& parameter, int num_ranks, int rank) {
  const int64_t padded = PaddedRows(parameter, num_ranks);
  return std::clamp<int64_t>(Rows(parameter) - padded * rank, 0, padded);
}

int64_t PaddedShardElements(const Unit& unit, int num_ranks) {
  int64_t elements = 0;
  for (const Parameter& parameter : unit.parameters) {
    elements += PaddedRows(parameter, num_ranks) * RowElements(parameter);
  }
  return elements;
}

int64_t WholeShardElements(const Unit& unit, int num_ranks) {
  Unit whole;
  std::ranges::copy_if(
      unit.parameters, std::back_inserter(whole.parameters),
      [](const Parameter& parameter) { return parameter.split == TensorSplit::kWhole; });
  return PaddedShardElements(whole, num_ranks);
}

int64_t UnitElements(const Unit& unit) {
  int64_t elements = 0;
  for (const Parameter& parameter : unit.parameters) elements += NumElements(parameter.shape);
  return elements;
}

Unit TrainedPart(const Unit& unit) {
  Unit part = unit;
  std::erase_if(part.parameters, [](const Parameter& parameter) { return parameter.is_frozen; });
  return part;
}

bool IsTrained(const Unit& unit) {
  return !std::ranges::all_of(unit.parameters, &Parameter::is_frozen);
}

int32_t FirstTrainedSegment(const std::vector<Segment>& segments) {
  const auto is_frozen = [](const Segment& segment) {
    return segment.frozen_units.size() == segment.units.size();
  };
  const bool has_frozen = std::ranges::any_of(
      segments, [](const Segment& segment) { return !segment.frozen_units.empty(); });
  if (!has_frozen) return 0;
  return static_cast<int32_t>(std::ranges::find_if_not(segments, is_frozen) - segments.begin());
}

Parameter WholeOf(Parameter parameter, int tensor_ranks) {
  if (parameter.split == TensorSplit::kRows) parameter.shape.front() *= tensor_ranks;
  if (parameter.split == TensorSplit::kColumns) parameter.shape.back() *= tensor_ranks;
  return parameter;
}

std::vector<TensorRun> TensorRuns(const Parameter& parameter, int tensor_ranks, int place) {
  const int64_t elements = NumElements(parameter.shape);
  int64_t runs = 1;
  if (parameter.split == TensorSplit::kRows) runs = parameter.row_parts;
  if (parameter.split == TensorSplit::kColumns) runs = Rows(parameter);
  const bool is_split = parameter.split != TensorSplit::kWhole;
  const int64_t count = elements / runs;
  std::vector<TensorRun> all;
  for (int64_t run = 0; run < runs; ++run) {
    const int64_t slot = is_split ? run * tensor_ranks + place : run;
    all.push_back({.first = run * count, .first_in_whole = slot * count, .count = count});
  }
  return all;
}

}  // namespace shardscope::plan
