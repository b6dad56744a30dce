// A checkpoint's weights as a folder in Hugging Face's layout, which transformers loads and
// model.path takes; or its adapters as a folder in peft's, for lora.path.
#pragma once

#include <cstdint>
#include <string>

#include "trace/base/status.h"

namespace shardscope::runtime {

struct ExportOptions {
  std::string checkpoint;              // a checkpoint, a run or a folder of checkpoints
  std::string model_folder;            // where that of model.path is now; empty: where it was
  std::string out;                     // a folder that is not there yet, or is empty
  bool adapters_alone = false;         // adapter_config.json and adapter_model.safetensors
  bool is_bf16 = false;                // what weights are cast to; else fp32
  int64_t most_bytes = 5'000'000'000;  // of one file's weights; more become several, with an index
};

struct Exported {
  std::string checkpoint;  // its folder
  int64_t step = 0;
  int64_t num_files = 0;  // with weights
  int64_t bytes = 0;      // of weights
};

// Holds one parameter at a time, twice. config.json is that of model.path, or made for a llama that
// was drawn; the tokenizer's files are those of data.tokenizer or model.path. On an error `out` is
// as it was. Errors: no whole checkpoint; a gpt, which that layout does not have; no adapters where
// they are asked for; a tokenizer that is not the run's; `out` has something in it, or cannot be
// written.
Result<Exported> ExportFolder(const ExportOptions& options);

}  // namespace shardscope::runtime
