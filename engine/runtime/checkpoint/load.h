// From a checkpoint to a run: whatever ranks, mesh, strategy and units wrote it, each rank reads
// the elements that it is to hold.
#pragma once

#include <set>
#include <string>

#include "engine/checkpoint/checkpoint.h"
#include "engine/config/config.h"
#include "engine/runtime/ranks/device.h"
#include "engine/runtime/ranks/job.h"
#include "trace/base/status.h"

namespace shardscope::runtime {

// Whether the run can go on from the checkpoint: the same model and tokenizer, and steps left to
// train.
Status CheckResume(const checkpoint::Checkpoint& from, const config::Config& config,
                   const Job& job);

struct TokenizerHere {
  std::string fingerprint;  // as model::Corpus has it
  std::string path;
  std::string use;     // for the error: "the data would be read with"
  std::string remedy;  // where it is another one
};
// Whether it is the tokenizer of the checkpoint, as far as that is known: ids of another one are of
// other text than the model has learned them for.
Status CheckTokenizer(const checkpoint::Checkpoint& from, const TokenizerHere& here);

// Whether it has the arithmetic with which the checkpoint's weights were trained, as far as that is
// known: config.json of `folder`, which is empty where no folder gives the model, may have changed.
Status CheckArithmetic(const checkpoint::Checkpoint& from, const model::ModelConfig& model,
                       const std::string& folder);

// What is said of data that are not those of which the checkpoint has a place; empty: they are, as
// far as that is known, or it has none, as an imported one.
std::string OtherDataNote(const checkpoint::Checkpoint& from, const config::Config& config,
                          const Job& job);

// Where the run's sampler begins: with the first sample that was not used yet, which of other data
// is the first.
model::Sampler::Start DataStart(const checkpoint::Index& from, const model::Sampler::Shape& shape,
                                bool is_other_data);

// The state of one rank. On its host thread, before its first step. `missing` gets the names of
// state tensors that the checkpoint does not have; they stay zero.
Status LoadState(const checkpoint::Checkpoint& from, int rank, RankWork* work,
                 std::set<std::string>* missing);

}  // namespace shardscope::runtime
