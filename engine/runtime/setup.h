// From the keys of a run to what the engine needs. No side effects but reading the data.
#pragma once

#include <string>

#include "engine/config/config.h"
#include "engine/model/token_file.h"
#include "engine/runtime/ranks/cpu_work.h"
#include "engine/transport/gloo/gloo_transport.h"
#include "trace/base/status.h"

namespace shardscope::runtime {

model::TrainingSettings TrainingSettingsOf(const config::Config& config);

// The sampler of all ranks. Error: data too short.
Result<model::Sampler> SamplerOf(const config::Config& config, const model::Corpus& corpus);

// Of data.tokenizer or model.path; null: a token is a byte.
Result<std::shared_ptr<const tokenizer::Tokenizer>> TokenizerOf(const config::Config& config);

// Reads the data, and of model.path what its files have; `config` has passed Check(). Without
// data.path the data are `default_data`. `on_progress`: told of the text that is tokenised, of
// data.path and then of eval.path.
Result<Job> JobOf(const config::Config& config, const std::string& default_data,
                  const model::TokenizeProgress& on_progress = nullptr);

// The model in one line, for people.
std::string ModelText(const Job& job);

// This process's place among those that the launcher started.
transport::GlooProcess GlooProcessOf(const config::Launch& launch);

// Bytes per second of the emulated link while auto is still measuring.
double StartBandwidth(const config::Config& config);

}  // namespace shardscope::runtime
