// A small decoder to look at schedules with, without building a model.
#pragma once

#include "engine/plan/model_description.h"

namespace shardscope::plan {

// `blocks` blocks of attention and MLP between embedding and head. With `root_unit` embedding and
// head are one root unit, otherwise a unit each. Of a pipeline: without a root unit, and with a
// block at least for each of the stages, over which the blocks are spread. Of `tensor_ranks` that
// share the work of blocks: what one of them has, and of the sequence beside that with
// `sequence_parallel`.
ModelDescription UniformModel(int blocks, bool root_unit, int stages = 1, int tensor_ranks = 1,
                              bool sequence_parallel = false);

}  // namespace shardscope::plan
