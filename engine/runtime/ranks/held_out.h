// Held-out data: what evaluations take, and how their samples go to ranks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/model/data.h"

namespace shardscope::runtime {

// Samples come in their order, without a shuffle: those of a batch go to its takers one after the
// other. Where the data end inside a batch, what is left of it is filled with a sample that counts
// for nothing, so that the loss is that of the data however many ranks share them.
struct HeldOut {
  std::shared_ptr<const model::Corpus> corpus;
  int64_t seq = 0;
  int64_t num_samples = 0;  // of an evaluation: the first ones
  int64_t every = 0;        // steps

  // Whether there is an evaluation before `step`, with which the training begins or goes on.
  bool IsDue(int64_t step) const { return step % every == 0; }

  // Of so many samples each.
  int64_t NumBatches(int64_t batch_samples) const {
    return (num_samples + batch_samples - 1) / batch_samples;
  }

  // Targets of an evaluation that the loss counts.
  int64_t CountedTargets() const {
    int64_t targets = 0;
    for (int64_t sample = 0; sample < num_samples; ++sample) {
      targets += model::CountedTargets(*corpus, sample, seq);
    }
    return targets;
  }

  // Appends sample `index`, or from `end` on one of which nothing counts.
  void Append(int64_t index, int64_t end, std::vector<int64_t>* tokens) const {
    const auto first = static_cast<std::ptrdiff_t>(tokens->size());
    model::AppendSample(*corpus, index < end ? index : 0, seq, tokens);
    if (index < end) return;
    for (auto token = tokens->begin() + first; token != tokens->end(); ++token) {
      *token = ~model::TokenIdOf(*token);
    }
  }
};

// One batch of an evaluation: of all ranks, from sample `first`; samples from `end` on are none.
struct HeldOutBatch {
  int64_t first = 0;
  int64_t end = 0;
};

}  // namespace shardscope::runtime
