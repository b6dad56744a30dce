// A small decoder to look at schedules with, without building a model.
#pragma once

#include "engine/plan/model_description.h"

namespace shardscope::plan {

// `blocks` blocks of attention and MLP between embedding and head. With `root_unit` embedding and
// head are one root unit, otherwise a unit each.
ModelDescription UniformModel(int blocks, bool root_unit);

// The same without a root unit, its blocks spread over the stages of a pipeline.
ModelDescription UniformStages(int blocks, int stages);

}  // namespace shardscope::plan
