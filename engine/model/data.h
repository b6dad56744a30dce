// What there is to learn, as bytes of text or as token ids, and which sample goes to which rank.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/model/token_file.h"
#include "trace/base/status.h"

namespace shardscope::model {

inline constexpr std::string_view kByteTokens = "bytes";

struct Corpus {
  std::string bytes;                 // all files, one after the other: a token is a byte
  std::span<const uint32_t> tokens;  // with a tokenizer, instead: as in a TokenFile
  std::shared_ptr<const void> token_storage;
  bool is_masked = false;        // the loss leaves tokens out
  int64_t num_documents = 0;     // of tokens
  int64_t num_files = 0;         // that were UTF-8 text
  int64_t num_broken_links = 0;  // left out: they lead nowhere, or in a circle
  // Of bytes: the first of the files that has JSON lines by its name. Empty: none has.
  std::string json_lines;
  // For a checkpoint, which says of other data that they are others. Empty: not known.
  std::string tokenizer;  // FingerprintOf() of what made tokens of the text
  std::string content;    // a checksum of all tokens, likewise

  int64_t num_tokens() const {
    return static_cast<int64_t>(tokens.empty() ? bytes.size() : tokens.size());
  }
};

// kByteTokens of null, else Tokenizer::ids_fingerprint() in hexadecimal digits.
std::string FingerprintOf(const tokenizer::Tokenizer* tokenizer);

// A file, or a folder: its UTF-8 files sorted by path, without hidden folders, folders of runs and
// folders called `build` or `runs`. Errors, which begin with the key that gave `path`: not there,
// not readable, nothing in it.
Result<Corpus> LoadCorpus(const std::string& path, std::string_view key = "data.path");
// The same files as token ids. Errors: also those of TokenFile::Open().
Result<Corpus> LoadTokens(const std::string& path, const TokenizeOptions& options);

// Entropy of single bytes in nats per byte: what a model that ignores all context can reach.
double UnigramEntropy(const std::string& bytes);

// Samples are windows of seq + 1 tokens without overlap; a tail shorter than that is dropped.
int64_t NumSamples(int64_t num_tokens, int64_t seq);

// As torch's DistributedSampler with drop_last: every epoch is a seeded shuffle of all samples,
// cut to a multiple of the number N of those that take samples; taker r takes entries r, r + N,
// r + 2N, ... An epoch ends for all of them at the last full step: no step mixes epochs.
class Sampler {
 public:
  // Step `step` begins with entry `used` of epoch `epoch`.
  struct Start {
    int64_t step = 0;
    int64_t epoch = 0;
    int64_t used = 0;
  };
  struct Shape {
    int64_t num_samples = 0;
    int num_ranks = 1;             // the most that can take samples
    int takers = 0;                // those that do, at first; 0: all ranks
    int64_t samples_per_step = 1;  // of one of them: batch * micro_batches
    uint64_t seed = 0;
    Start start;
  };
  // Error: fewer samples than one step of all ranks needs.
  static Result<Sampler> Make(const Shape& shape);

  // From `step` on so many take samples, at most as many as there are ranks: they go on behind what
  // the steps before have used, as a run does that goes on from a checkpoint. Nothing may be asked
  // of earlier steps after it.
  void SetTakers(int64_t step, int takers);

  // The sample indices of the taker with number `index` in `step`, samples_per_step of them.
  std::vector<int64_t> Samples(int64_t step, int index);
  // Where a run that goes on with `step` begins.
  Start StartOf(int64_t step) const;

  int takers() const { return shape_.takers; }
  int64_t steps_per_epoch() const {
    return shape_.num_samples / shape_.takers / shape_.samples_per_step;
  }
  const Shape& shape() const { return shape_; }

 private:
  explicit Sampler(const Shape& shape);
  // The first entry that `step` takes.
  Start BeginOf(int64_t step) const;

  Shape shape_;         // its takers and start those of SetTakers()
  int64_t epoch_ = -1;  // whose order `order_` is
  std::vector<int64_t> order_;
};

// A token as it stands in a sample: its id, or ~id if the loss does not count it.
inline int64_t TokenIdOf(int64_t token) { return token < 0 ? ~token : token; }

// Sample `index`: seq + 1 tokens, appended to `tokens`.
void AppendSample(const Corpus& corpus, int64_t index, int64_t seq, std::vector<int64_t>* tokens);

// How many targets (all tokens of a sample but its first) the loss counts.
int64_t CountedTargets(const Corpus& corpus, int64_t index, int64_t seq);
// The same of all samples that are taken in a step.
int64_t CountedTargets(const Corpus& corpus, Sampler* sampler, int64_t step, int64_t seq);

}  // namespace shardscope::model
