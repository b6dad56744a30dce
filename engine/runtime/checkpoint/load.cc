#include "engine/runtime/checkpoint/load.h"

#include <ATen/ops/from_blob.h>
#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "engine/checkpoint/safetensors.h"
#include "engine/model/data.h"
#include "engine/model/huggingface.h"
#include "engine/model/safetensors.h"
#include "trace/base/text.h"

namespace shardscope::runtime {
namespace {

// Keys of the model that may be others when it goes on: where its data end, not what it is.
bool MayDiffer(const std::string& key) {
  if (key.starts_with("lora.")) return key == "lora.path";
  return !key.starts_with("model.") || key == "model.seq" || key == "model.path";
}

std::string ValueOf(const checkpoint::Index& index, const std::string& key) {
  const auto found = index.config.find(key);
  return found == index.config.end() ? "" : found->second;
}

// `fingerprint`: model::FingerprintOf() a tokenizer.
std::string TokenizerText(const std::string& fingerprint, const std::string& path) {
  if (fingerprint == model::kByteTokens) return "bytes as tokens";
  return fmt::format("the tokenizer of {} (fingerprint {})", path, fingerprint);
}

// What a run with these keys names, unless its tokens are bytes.
std::string TokenizerPath(const std::string& data_tokenizer, const std::string& model_path) {
  return data_tokenizer.empty() ? model_path : data_tokenizer;
}

std::string ShapeText(const std::vector<int64_t>& shape) {
  std::vector<std::string> sizes;
  for (const int64_t size : shape) sizes.push_back(std::to_string(size));
  return "[" + Join(sizes, ", ") + "]";
}

// Into a flat tensor, in its dtype.
Status ReadInto(const checkpoint::Checkpoint& from, const checkpoint::TensorEntry& entry,
                const std::vector<checkpoint::ElementRun>& runs, const at::Tensor& to) {
  const int64_t elements = checkpoint::ElementsOf(runs);
  std::vector<std::byte> bytes(
      static_cast<size_t>(elements * checkpoint::BytesOfDType(entry.dtype)));
  SHARDSCOPE_RETURN_IF_ERROR(from.Read(entry, runs, bytes.data()));
  const std::optional<at::ScalarType> type = model::ScalarTypeOfSafetensors(entry.dtype);
  if (!type) return Status::Error(from.folder() + ": weights of dtype " + entry.dtype);
  to.copy_(at::from_blob(bytes.data(), {elements}, at::TensorOptions(*type)));
  return Status::Ok();
}

// What is kept of parameter `index` from step to step, by name: its weights and what the optimizer
// keeps of them, in the order of ShardedUnit::state_tensors(). The rank's rows, padding included.
std::vector<std::pair<std::string, at::Tensor>> StateTensorsOf(const ShardedUnit& unit,
                                                               size_t index) {
  std::vector<std::pair<std::string, at::Tensor>> tensors{
      {std::string(checkpoint::kParameter), unit.SliceOf(index).parameters}};
  for (size_t tensor = 0; tensor < unit.NumStateTensors(index); ++tensor) {
    tensors.emplace_back(unit.state_tensors()[tensor].name, unit.StateValues(tensor, index));
  }
  return tensors;
}

std::vector<checkpoint::ElementRun> RunsOf(const std::vector<plan::TensorRun>& runs) {
  std::vector<checkpoint::ElementRun> merged;
  for (const plan::TensorRun& run : runs) {
    checkpoint::AppendRun(run.first_in_whole, run.count, &merged);
  }
  return merged;
}

}  // namespace

Status CheckResume(const checkpoint::Checkpoint& from, const config::Config& config,
                   const Job& job) {
  const checkpoint::Index& index = from.index();
  for (const auto& [key, value] : index.config) {
    if (MayDiffer(key) || config::FindKey(key) == nullptr || config.Get(key) == value) continue;
    return Status::Error(
        fmt::format("{} is of another model: it has {}={}, and {} was set: leave {} away",
                    from.folder(), key, value, config.Get(key), key));
  }
  SHARDSCOPE_RETURN_IF_ERROR(CheckArithmetic(from, job.model, config.Get("model.path")));
  const bool had_bytes = index.data.tokenizer == model::kByteTokens;
  SHARDSCOPE_RETURN_IF_ERROR(CheckTokenizer(
      from, {.fingerprint = job.corpus->tokenizer,
             .path = TokenizerPath(config.Get("data.tokenizer"), config.Get("model.path")),
             .use = "the data would be read with",
             .remedy = had_bytes ? "set data.tokenizer=bytes"
                                 : "set data.tokenizer to the one that it was trained with"}));
  const plan::ModelDescription model =
      model::DescribeModel(job.model, plan::UnitPolicy(), job.training.batch);
  size_t num_parameters = 0;
  for (const plan::Unit& unit : model.units) {
    for (const plan::Parameter& parameter : unit.parameters) {
      ++num_parameters;
      const checkpoint::ParameterEntry* entry = index.Find(parameter.name);
      if (entry == nullptr || entry->Find(checkpoint::kParameter) == nullptr) {
        return Status::Error(
            fmt::format("{} is of another model: it has no {}", from.folder(), parameter.name));
      }
      if (entry->shape == parameter.shape) continue;
      return Status::Error(fmt::format("{} is of another model: {} is {} there, and {} here",
                                       from.folder(), parameter.name, ShapeText(entry->shape),
                                       ShapeText(parameter.shape)));
    }
  }
  if (index.parameters.size() > num_parameters) {
    return Status::Error(fmt::format("{} is of another model: it has {} parameters, this one {}",
                                     from.folder(), index.parameters.size(), num_parameters));
  }
  if (index.step < job.training.steps) return Status::Ok();
  return Status::Error(
      fmt::format("{} has all steps behind it (train.steps={}): set train.steps to more than {}",
                  from.folder(), job.training.steps, index.step));
}

Status CheckTokenizer(const checkpoint::Checkpoint& from, const TokenizerHere& here) {
  const std::string& before = from.index().data.tokenizer;
  if (before.empty() || here.fingerprint.empty() || before == here.fingerprint) {
    return Status::Ok();
  }
  const std::string path =
      TokenizerPath(ValueOf(from.index(), "data.tokenizer"), ValueOf(from.index(), "model.path"));
  return Status::Error(
      fmt::format("{} was trained with {}, and here {} {}, whose ids mean something else: {}",
                  from.folder(), TokenizerText(before, path), here.use,
                  TokenizerText(here.fingerprint, here.path), here.remedy));
}

Status CheckArithmetic(const checkpoint::Checkpoint& from, const model::ModelConfig& model,
                       const std::string& folder) {
  const std::map<std::string, std::string>& before = from.index().model;
  if (before.empty()) return Status::Ok();
  std::map<std::string, std::string> now = model::FieldsBesideKeys(model);
  std::map<std::string, std::string> all = now;
  all.insert(before.begin(), before.end());
  const auto shown = [](const std::map<std::string, std::string>& fields, const std::string& name) {
    const auto found = fields.find(name);
    return found == fields.end() ? "no " + name : name + "=" + found->second;
  };
  for (const auto& [name, value] : all) {
    if (shown(before, name) == shown(now, name)) continue;
    const auto path = from.index().config.find("model.path");
    const bool had_folder = path != from.index().config.end() && !path->second.empty();
    return Status::Error(fmt::format(
        "{} is of another model: it was trained with {}, and {} has {}: {}", from.folder(),
        shown(before, name),
        folder.empty() ? "a model without model.path" : folder + "/config.json", shown(now, name),
        folder.empty() ? "name its folder with model.path"
        : had_folder   ? "take the config.json that it was trained with"
                       : "leave model.path away"));
  }
  return Status::Ok();
}

std::string OtherDataNote(const checkpoint::Checkpoint& from, const config::Config& config,
                          const Job& job) {
  const checkpoint::DataPosition& data = from.index().data;
  if (data.num_samples == 0) return "";
  const std::string seq = ValueOf(from.index(), "model.seq");
  if (!seq.empty() && seq != config.Get("model.seq")) {
    return fmt::format(
        "model.seq is {}, and was {} when {} was written: the data begin anew, in another order",
        config.Get("model.seq"), seq, from.folder());
  }
  const int64_t num_samples = model::NumSamples(job.corpus->num_tokens(), job.model.seq);
  if (data.num_samples != num_samples) {
    return fmt::format(
        "the data have {}, and had {} when {} was written: they begin anew, in another order",
        Counted(num_samples, "sample"), data.num_samples, from.folder());
  }
  const std::string& content = job.corpus->content;
  if (data.content.empty() || content.empty() || data.content == content) return "";
  return fmt::format("the data are others than when {} was written: they begin anew",
                     from.folder());
}

model::Sampler::Start DataStart(const checkpoint::Index& from, const model::Sampler::Shape& shape,
                                bool is_other_data) {
  const checkpoint::DataPosition& data = from.data;
  // Of other data, or in another order, what was used says nothing.
  const bool has_order =
      !is_other_data && data.seed == shape.seed && data.num_samples == shape.num_samples;
  return {from.step, data.epoch, has_order ? data.used : 0};
}

Status LoadState(const checkpoint::Checkpoint& from, int rank, RankWork* work,
                 std::set<std::string>* missing) {
  const c10::InferenceMode no_autograd;
  for (size_t unit = 0; unit < work->units().size(); ++unit) {
    ShardedUnit& to = work->units()[unit];
    if (!work->layout().Has(rank, static_cast<int32_t>(unit))) continue;
    for (size_t index = 0; index < to.layout().parameters().size(); ++index) {
      const plan::Parameter& parameter = to.layout().parameters()[index].parameter;
      const checkpoint::ParameterEntry& entry = *from.index().Find(parameter.name);
      const std::vector<checkpoint::ElementRun> runs = RunsOf(to.OwnRuns(index));
      const auto tensors = StateTensorsOf(to, index);
      for (size_t at = 0; at < tensors.size(); ++at) {
        const auto& [name, values] = tensors[at];
        const checkpoint::TensorEntry* tensor = entry.Find(name);
        if (tensor == nullptr) {
          missing->insert(name);
          continue;
        }
        SHARDSCOPE_RETURN_IF_ERROR(
            ReadInto(from, *tensor, runs, values.narrow(0, 0, to.OwnedElements(index))));
        if (at > 0) to.KeepStateValues(at - 1, index, values);  // the first are the weights
      }
      if (!to.whole_parameters().defined()) continue;
      SHARDSCOPE_RETURN_IF_ERROR(ReadInto(from, *entry.Find(checkpoint::kParameter),
                                          RunsOf(to.RunsOf(index)), to.AllOf(index)));
    }
    to.RenewDeviceShard();
  }
  return Status::Ok();
}

}  // namespace shardscope::runtime
