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
  return model::Sampler::Make({.num_samples = model::NumSamples(tokens, seq),
                               .num_ranks = training.num_ranks,
                               .samples_per_step = training.batch * training.micro_batches,
                               .seed = training.seed});
}

Result<std::shared_ptr<const tokenizer::Tokenizer>> TokenizerOf(const config::Config& config) {
  namespace fs = std::filesystem;
  std::string path = config.Get("data.tokenizer");
  std::error_code error;
  if (path.empty() && !config.Get("model.path").empty() &&
      fs::exists(fs::path(config.Get("model.path")) / "tokenizer.json", error)) {
    path = config.Get("model.path");
  }
  if (path.empty() || path == "bytes") return std::shared_ptr<const tokenizer::Tokenizer>();
  if (!fs::exists(path, error)) {
    return Status::Error("data.tokenizer: " + path +
                         " is not there: name a tokenizer.json, its folder, or bytes");
  }
  auto tokenizer = tokenizer::Tokenizer::Load(path);
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
    if (vocab >= 256) return model::LoadCorpus(path, key);
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

// Of model.path; null without one.
Result<std::shared_ptr<const model::WeightFolder>> WeightsOf(const config::Config& config,
                                                             const model::ModelConfig& model) {
  const std::string& folder = config.Get("model.path");
  if (folder.empty()) return std::shared_ptr<const model::WeightFolder>();
  if (config.GetInt("fault.init") >= 0) {
    return Status::Error(
        "fault.init has a rank draw its parameters, which model.path gives: leave one of them out");
  }
  return model::WeightFolder::Open(folder, model);
}

// Of lora.path; null without one. A run that goes on has them from its checkpoint.
Result<std::shared_ptr<const model::WeightFolder>> AdaptersOf(const config::Config& config,
                                                              const model::ModelConfig& model) {
  const std::string& folder = config.Get("lora.path");
  if (folder.empty()) return std::shared_ptr<const model::WeightFolder>();
  return model::WeightFolder::OpenAdapters(folder, model);
}

// Of eval.path; null where nothing is evaluated.
Result<std::shared_ptr<const HeldOut>> HeldOutOf(const config::Config& config,
                                                 const model::TokenizeProgress& on_progress) {
  auto held_out = std::make_shared<HeldOut>();
  held_out->every = config.GetInt("eval.every");
  held_out->most_batches = config.GetInt("eval.batches");
  held_out->seq = config.GetInt("model.seq");
  if (held_out->every == 0) return std::shared_ptr<const HeldOut>();
  SHARDSCOPE_ASSIGN_OR_RETURN(model::Corpus corpus, CorpusOf(config, "eval.path", "", on_progress));
  held_out->num_samples = model::NumSamples(corpus.num_tokens(), held_out->seq);
  held_out->corpus = std::make_shared<const model::Corpus>(std::move(corpus));
  const int64_t in_a_batch = config.GetInt("train.batch") * config.GetInt("train.micro_batches");
  if (held_out->CountedTargets(held_out->ExtentOf(in_a_batch).samples) > 0) {
    return std::shared_ptr<const HeldOut>(std::move(held_out));
  }
  return Status::Error(
      fmt::format("eval.path: {} has no {} whose loss counts: give more text, or lower model.seq",
                  config.Get("eval.path"), Counted(held_out->seq + 1, "token")));
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
