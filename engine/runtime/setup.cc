#include "engine/runtime/setup.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <utility>

#include "engine/footprint/footprint.h"
#include "engine/model/weight_folder.h"
#include "trace/base/check.h"
#include "trace/base/text.h"
#include "trace/base/units.h"

namespace shardscope::runtime {
namespace {

std::string DefaultTokenCache() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  if (cache != nullptr && *cache != '\0') return std::string(cache) + "/shardscope/tokens";
  return std::string(home == nullptr ? "/tmp" : home) + "/.cache/shardscope/tokens";
}

// What of a tokenizer that is no tokenizer.json lies in `folder`, in words; empty: nothing.
std::string OtherTokenizerIn(const std::string& folder) {
  const auto has = [&](const char* name) {
    std::error_code error;
    return std::filesystem::exists(std::filesystem::path(folder) / name, error);
  };
  for (const char* name : {"tokenizer.model", "spiece.model", "tekken.json", "vocab.txt"}) {
    if (has(name)) return name;
  }
  return has("vocab.json") && has("merges.txt") ? "vocab.json and merges.txt" : "";
}

model::RateSchedule RateScheduleOf(const config::Config& config) {
  const std::string& name = config.Get("train.schedule");
  if (name == "linear") return model::RateSchedule::kLinear;
  return name == "cosine" ? model::RateSchedule::kCosine : model::RateSchedule::kConstant;
}

}  // namespace

model::TrainingSettings TrainingSettingsOf(const config::Config& config) {
  return {.steps = config.GetInt("train.steps"),
          .num_ranks = static_cast<int>(config.GetInt("run.ranks")),
          .batch = config.GetInt("train.batch"),
          .micro_batches = config.GetInt("train.micro_batches"),
          .learning_rate = config.GetFloat("train.lr"),
          .clip = config.GetFloat("train.clip"),
          .warmup_steps = config.GetInt("train.warmup_steps"),
          .schedule = RateScheduleOf(config),
          .min_learning_rate = config.GetFloat("train.min_lr"),
          .optimizer = {.kind = config::GetOptimizer(config),
                        .beta1 = config.GetFloat("optimizer.beta1"),
                        .beta2 = config.GetFloat("optimizer.beta2"),
                        .eps = config.GetFloat("optimizer.eps"),
                        .weight_decay = config.GetFloat("optimizer.weight_decay"),
                        .momentum = config.GetFloat("optimizer.momentum")},
          .scaler = {.is_on = config.GetBool("scaler.enabled"),
                     .init = config.GetFloat("scaler.init"),
                     .growth = config.GetFloat("scaler.growth"),
                     .backoff = config.GetFloat("scaler.backoff"),
                     .interval = config.GetInt("scaler.interval")},
          .seed = static_cast<uint64_t>(config.GetInt("run.seed"))};
}

Result<model::Sampler> SamplerOf(const config::Config& config, const model::Corpus& corpus) {
  const model::TrainingSettings training = TrainingSettingsOf(config);
  const int64_t tokens = corpus.num_tokens();
  const int64_t seq = config.GetInt("model.seq");
  if (model::NumSamples(tokens, seq) < 1) {
    const std::string& path = config.Get("data.path");
    return Status::Error((path.empty() ? "the source tree" : path) + " has " +
                         std::to_string(tokens) + (corpus.tokens.empty() ? " bytes" : " tokens") +
                         ", less than one sample of model.seq+1 = " + std::to_string(seq + 1) +
                         ": give more text (data.path) or lower model.seq");
  }
  return model::Sampler::Make(
      {.num_samples = model::NumSamples(tokens, seq),
       .num_ranks = training.num_ranks,
       .takers = config::ToPolicy(config).mesh.SizeOf(plan::kDataDimensions),
       .samples_per_step = training.batch * training.micro_batches,
       .seed = training.seed});
}

Result<std::shared_ptr<const tokenizer::Tokenizer>> TokenizerOf(const config::Config& config) {
  namespace fs = std::filesystem;
  const std::string& named = config.Get("data.tokenizer");
  const std::string& path = named.empty() ? config.Get("model.path") : named;
  if (path.empty() || path == "bytes") return std::shared_ptr<const tokenizer::Tokenizer>();
  std::error_code error;
  if (fs::is_directory(path, error) && !fs::exists(fs::path(path) / "tokenizer.json", error)) {
    const std::string other = OtherTokenizerIn(path);
    if (!other.empty()) {
      return Status::Error(fmt::format(
          "{} has a tokenizer of another kind ({}), and no tokenizer.json: name the folder of one "
          "(byte-level BPE) with data.tokenizer, or set data.tokenizer=bytes to train on bytes",
          path, other));
    }
    if (named.empty()) return std::shared_ptr<const tokenizer::Tokenizer>();
  }
  if (!fs::exists(path, error)) {
    if (named.empty()) {
      return Status::Error(fmt::format(
          "model.path: {} is not there: name the folder where the model is now, or name a "
          "tokenizer.json, its folder, or bytes with data.tokenizer",
          path));
    }
    return Status::Error("data.tokenizer: " + path +
                         " is not there: name a tokenizer.json, its folder, or bytes");
  }
  auto tokenizer = tokenizer::Tokenizer::Load(path);
  if (!tokenizer.ok() && named.empty()) {
    return Status::Error(
        fmt::format("model.path: {}; or name another tokenizer (its folder, or bytes) with "
                    "data.tokenizer",
                    tokenizer.message()));
  }
  if (!tokenizer.ok()) return Status::Error("data.tokenizer: " + tokenizer.message());
  return tokenizer;
}

namespace {

// What a key (data.path, eval.path) names, or else `default_data`, as bytes or as the tokenizer's
// ids.
Result<model::Corpus> CorpusOf(const config::Config& config, const std::string& key,
                               const std::string& default_data,
                               const model::TokenizeProgress& on_progress) {
  const std::string path = config.Get(key).empty() ? default_data : config.Get(key);
  const int64_t vocab = config.GetInt("model.vocab");
  SHARDSCOPE_ASSIGN_OR_RETURN(const auto tokenizer, TokenizerOf(config));
  if (tokenizer == nullptr) {
    if (config.Get("data.format") == "jsonl") {
      return Status::Error("data.format=jsonl needs a tokenizer: name its folder (data.tokenizer)");
    }
    SHARDSCOPE_ASSIGN_OR_RETURN(model::Corpus corpus, model::LoadCorpus(path, key));
    const bool is_chosen = !config.Get(key).empty();
    if (is_chosen && config.Get("data.format") == "auto" && !corpus.json_lines.empty()) {
      return Status::Error(
          fmt::format("{}: {} has JSON lines by its name, which need a tokenizer: name its folder "
                      "(data.tokenizer), or set data.format=text to learn the bytes of the file",
                      key, corpus.json_lines));
    }
    if (vocab >= 256) return corpus;
    return Status::Error(fmt::format(
        "model.vocab={} is too small for data whose tokens are bytes: set it to 256 or more",
        vocab));
  }
  if (vocab < tokenizer->num_ids()) {
    return Status::Error(fmt::format(
        "model.vocab={} is too small for the tokenizer, which has ids up to {}: set it to {} or "
        "more",
        vocab, tokenizer->num_ids() - 1, tokenizer->num_ids()));
  }
  const std::string& format = config.Get("data.format");
  return model::LoadTokens(
      path,
      {.tokenizer = tokenizer,
       .format = format == "text"    ? model::DataFormat::kText
                 : format == "jsonl" ? model::DataFormat::kJsonLines
                                     : model::DataFormat::kByName,
       .cache = config.Get("data.cache").empty() ? DefaultTokenCache() : config.Get("data.cache"),
       .max_cache_bytes = config.GetInt("data.cache_limit"),
       .key = key,
       .on_progress = on_progress});
}

// A run that goes on has all parameters from its checkpoint: without them CheckResume() refuses it.
bool GoesOn(const config::Config& config) { return !config.Get("checkpoint.resume").empty(); }

// Of model.path; null without one.
Result<std::shared_ptr<const model::ParameterSource>> WeightsOf(const config::Config& config,
                                                                const model::ModelConfig& model) {
  const std::string& folder = config.Get("model.path");
  if (folder.empty()) return std::shared_ptr<const model::ParameterSource>();
  if (config.GetInt("fault.init") >= 0) {
    return Status::Error(
        "fault.init has a rank draw its parameters, which model.path gives: leave one of them out");
  }
  if (GoesOn(config)) {
    return std::shared_ptr<const model::ParameterSource>(
        std::make_shared<const model::ZeroParameters>());
  }
  SHARDSCOPE_ASSIGN_OR_RETURN(auto weights, model::WeightFolder::Open(folder, model));
  return std::shared_ptr<const model::ParameterSource>(std::move(weights));
}

// Of lora.path; null without one.
Result<std::shared_ptr<const model::WeightFolder>> AdaptersOf(const config::Config& config,
                                                              const model::ModelConfig& model) {
  const std::string& folder = config.Get("lora.path");
  if (folder.empty() || GoesOn(config)) return std::shared_ptr<const model::WeightFolder>();
  return model::WeightFolder::OpenAdapters(folder, model);
}

// Of eval.path; null where nothing is evaluated.
Result<std::shared_ptr<const HeldOut>> HeldOutOf(const config::Config& config,
                                                 const model::TokenizeProgress& on_progress) {
  auto held_out = std::make_shared<HeldOut>();
  held_out->every = config.GetInt("eval.every");
  held_out->seq = config.GetInt("model.seq");
  if (held_out->every == 0) return std::shared_ptr<const HeldOut>();
  SHARDSCOPE_ASSIGN_OR_RETURN(model::Corpus corpus, CorpusOf(config, "eval.path", "", on_progress));
  const int64_t num_samples = model::NumSamples(corpus.num_tokens(), held_out->seq);
  held_out->num_samples = num_samples;
  held_out->corpus = std::make_shared<const model::Corpus>(std::move(corpus));
  // Of all ranks, also where some take none: how many do changes with the mesh while a run trains,
  // and what it evaluates does not.
  const int64_t in_a_batch = config.GetInt("train.batch") * config.GetInt("train.micro_batches") *
                             config.GetInt("run.ranks");
  const int64_t most_batches = config.GetInt("eval.batches");
  if (most_batches > 0 && most_batches <= num_samples / in_a_batch) {
    held_out->num_samples = most_batches * in_a_batch;
  }
  if (held_out->CountedTargets() > 0) return std::shared_ptr<const HeldOut>(std::move(held_out));
  const std::string& path = config.Get("eval.path");
  if (held_out->num_samples < num_samples) {
    return Status::Error(fmt::format(
        "eval.path: of the first {} of {}, which eval.batches={} takes, no token counts in the "
        "loss: raise eval.batches, or set it to 0 to take all",
        Counted(held_out->num_samples, "sample"), path, most_batches));
  }
  return Status::Error(
      fmt::format("eval.path: {} has no {} whose loss counts: give more text, or lower model.seq",
                  path, Counted(held_out->seq + 1, "token")));
}

}  // namespace

Result<Job> JobOf(const config::Config& config, const std::string& default_data,
                  const model::TokenizeProgress& on_progress) {
  SHARDSCOPE_ASSIGN_OR_RETURN(const model::ModelConfig model, footprint::ModelConfigOf(config));
  SHARDSCOPE_ASSIGN_OR_RETURN(const auto weights, WeightsOf(config, model));
  SHARDSCOPE_ASSIGN_OR_RETURN(const auto adapters, AdaptersOf(config, model));
  Result<model::Corpus> corpus = CorpusOf(config, "data.path", default_data, on_progress);
  if (!corpus.ok()) return corpus.status();
  const Result<model::Sampler> sampler = SamplerOf(config, *corpus);
  if (!sampler.ok()) return sampler.status();
  const plan::Policy policy = config::ToPolicy(config);
  Job job;
  SHARDSCOPE_RETURN_IF_ERROR(model::CheckUnits(model, policy.units));
  job.model = model;
  job.weights = weights;
  job.adapters = adapters;
  job.training = TrainingSettingsOf(config);
  job.master = policy.master_dtype;
  job.reduce = policy.reduce_dtype;
  job.gradient = policy.gradient_dtype();
  job.corpus = std::make_shared<const model::Corpus>(*std::move(corpus));
  SHARDSCOPE_ASSIGN_OR_RETURN(job.held_out, HeldOutOf(config, on_progress));
  const plan::ModelDescription description =
      model::DescribeModel(job.model, policy.units, job.training.batch);
  job.initial_layout = InitialLayout(description, policy);
  job.spared = plan::SparedByFrozen(description, policy);
  for (const plan::Unit& unit :
       model::DescribeModel(job.model, plan::UnitPolicy(), job.training.batch).units) {
    job.num_parameters += plan::UnitElements(unit);
    job.num_trained += plan::UnitElements(plan::TrainedPart(unit));
  }
  job.memory_limit = config.GetInt("engine.memory_limit");
  job.timeout_ns = config.GetInt("comm.timeout");
  job.faults = config::GetFaults(config);
  job.other_seed_rank = static_cast<int>(config.GetInt("fault.init"));
  return job;
}

std::string ModelText(const Job& job) {
  const bool is_gpt = job.model.kind == model::ModelKind::kGpt;
  const std::string trained = job.num_trained == job.num_parameters
                                  ? ""
                                  : fmt::format(", {} of them trained", job.num_trained);
  return fmt::format("{}, {} blocks, dim {}, {} heads, seq {}: {} parameters{}",
                     is_gpt ? "gpt" : "llama", job.model.layers, job.model.dim, job.model.heads,
                     job.model.seq, job.num_parameters, trained);
}

transport::GlooProcess GlooProcessOf(const config::Launch& launch) {
  return {.rank = launch.rank,
          .num_ranks = launch.num_ranks,
          .master_address = launch.master_address,
          .master_port = launch.master_port,
          .has_launcher_store = launch.has_launcher_store,
          .attempt = launch.attempt,
          .say = launch.say};
}

double StartBandwidth(const config::Config& config) {
  const config::LinkBandwidth link = config::GetLinkBandwidth(config);
  if (!link.is_auto) return link.bytes_per_second;
  const auto start = ParseBandwidth(config::FindKey("link.bandwidth")->default_value);
  SHARDSCOPE_CHECK(start.has_value());
  return *start;
}

}  // namespace shardscope::runtime
