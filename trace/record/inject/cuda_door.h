// The CUDA door: what the GPU does, through CUPTI.
#pragma once

namespace shardscope::inject {

// As the CUDA driver calls it, once, while the program initialises CUDA. Without CUPTI, or while
// another tool holds it, the trace says so and the rest is recorded.
void AttachCuda();

}  // namespace shardscope::inject
