#include "engine/config/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <thread>

#include "engine/config/device.h"
#include "engine/plan/strategy.h"
#include "trace/base/check.h"
#include "trace/base/text.h"
#include "trace/base/units.h"

namespace shardscope::config {
namespace {

// "checkpointing=budget:1GB" of checkpointing.budget=1GB: where `name` is a key and a form that its
// value can have. Empty: it is not.
std::string AsFormOfValue(std::string_view name, std::string_view value) {
  const size_t dot = name.rfind('.');
  const KeyInfo* key = dot == std::string_view::npos ? nullptr : FindKey(name.substr(0, dot));
  if (key == nullptr) return "";
  const std::string form = std::string(name.substr(dot + 1)) + ":";
  if ((" " + Allowed(*key)).find(" " + form) == std::string::npos) return "";
  const Result<std::string> text = Canonical(*key, form + std::string(Trim(value)));
  return key->name + "=" + (text.ok() ? *text : form + "...");
}

Status UnknownKey(std::string_view name, std::string_view value) {
  std::vector<std::string> names;
  for (const KeyInfo& key : AllKeys()) names.push_back(key.name);
  const std::string shown(name.substr(0, 80));
  if (const std::string form = AsFormOfValue(name, value); !form.empty())
    return Status::Error(fmt::format("unknown key {}; did you mean {}?", shown, form));
  if (const auto nearest = NearestName(shown, names))
    return Status::Error(fmt::format("unknown key {}; did you mean {}?", shown, *nearest));
  return Status::Error(
      fmt::format("unknown key {}; shardscope-train --help lists all keys", shown));
}

// "1/3" of `steps`, rounded down. The share was checked when the change was read.
int64_t StepOfShare(std::string_view share, int64_t steps) {
  int64_t top = 0;
  int64_t bottom = 1;
  const auto parts = Split(share, '/');
  SHARDSCOPE_CHECK(parts.size() == 2);
  std::from_chars(parts[0].data(), parts[0].data() + parts[0].size(), top);
  std::from_chars(parts[1].data(), parts[1].data() + parts[1].size(), bottom);
  SHARDSCOPE_CHECK(bottom > 0);
  return steps * top / bottom;
}

// The smallest number of replicas that divides the ranks, and is more than one.
std::string LeastReplicas(int64_t ranks) {
  int64_t replicas = 2;
  while (replicas < ranks && ranks % replicas != 0) ++replicas;
  return std::to_string(std::min(replicas, ranks));
}

bool IsEarlier(const Change& a, const Change& b) { return a.step < b.step; }

}  // namespace

Config::Config() {
  for (const KeyInfo& key : AllKeys()) values_[key.name] = {.text = key.default_value};
}

Status Config::Set(std::string_view key, std::string_view value) {
  const KeyInfo* info = FindKey(key);
  if (info == nullptr) return UnknownKey(key, value);
  if (!info->settable)
    return Status::Error(fmt::format("{} cannot be set: the trainer writes it", info->name));
  auto canonical = Canonical(*info, value);
  if (!canonical.ok()) return canonical.status();
  values_[info->name] = {.text = std::move(*canonical), .is_explicit = true};
  RefreshDefaults();
  return Status::Ok();
}

Status Config::SetAll(const std::map<std::string, std::string>& values) {
  Config candidate = *this;
  for (const auto& [key, value] : values) SHARDSCOPE_RETURN_IF_ERROR(candidate.Set(key, value));
  *this = std::move(candidate);
  return Status::Ok();
}

void Config::SetDefault(std::string_view key, std::string_view value) {
  Value& stored = values_.find(key)->second;
  if (!stored.is_explicit) stored.text = value;
}

// Every default that depends on other keys.
void Config::RefreshDefaults() {
  const bool reshard_is_off =
      IsExplicit("reshard_after_forward") && !GetBool("reshard_after_forward");
  const plan::Strategy& first = plan::Strategies().front();
  SetDefault("strategy", plan::VariantThat(!reshard_is_off, first).name);
  const plan::Strategy& strategy = GetStrategy(*this);
  const bool reshards = strategy.reshards_after_forward;
  const bool has_shards = strategy.Uses(plan::MeshDimension::kShard);
  SetDefault("mesh.shard", has_shards ? "auto" : "1");
  const bool has_replicas = strategy.Uses(plan::MeshDimension::kReplicate);
  SetDefault("mesh.replicate", strategy.replicates_shards() ? LeastReplicas(GetInt("run.ranks"))
                               : has_replicas               ? "auto"
                                                            : "1");
  const bool has_stages = strategy.Uses(plan::MeshDimension::kPipeline);
  const bool has_data = has_shards || has_replicas;
  SetDefault("mesh.pipeline", has_stages && !has_data ? "auto" : "1");
  const bool is_tensor = strategy.dimensions == plan::Only(plan::MeshDimension::kTensor);
  SetDefault("mesh.tensor", is_tensor ? "auto" : "1");
  SetDefault("pipeline.chunks", Get("pipeline.schedule") == "interleaved" ? "2" : "1");
  SetDefault("reshard_after_forward", reshards ? "true" : "false");
  SetDefault("prefetch.limit", GetPreset(*this) == plan::Preset::kFsdp1 ? "2" : "0");
  SetDefault("precision.reduce", Get("precision.param") == "fp64" ? "fp64" : "fp32");
  SetDefault("scaler.enabled", Get("precision.param") == "fp16" ? "true" : "false");
  const bool link_is_stated = std::ranges::any_of(AllKeys(), [&](const KeyInfo& key) {
    return key.name.starts_with("link.") && !IsHostLink(key.name) && IsExplicit(key.name);
  });
  const bool is_cuda = GetDevice(*this) == DeviceKind::kCuda;
  SetDefault("transport", link_is_stated ? "emulated" : is_cuda ? "local" : "shared_memory");
  ResolveChanges();
}

void Config::ResolveChanges() {
  for (Change& change : changes_)
    if (!change.share.empty()) change.step = StepOfShare(change.share, GetInt("train.steps"));
  std::stable_sort(changes_.begin(), changes_.end(), IsEarlier);
}

void Config::AddChange(Change change) {
  if (!change.share.empty()) change.step = StepOfShare(change.share, GetInt("train.steps"));
  const auto place = std::upper_bound(changes_.begin(), changes_.end(), change, IsEarlier);
  changes_.insert(place, std::move(change));
}

void Config::SetControlSocket(std::string path) {
  values_["run.control_socket"] = {.text = std::move(path), .is_explicit = true};
}

bool Config::IsExplicit(std::string_view key) const {
  const auto found = values_.find(key);
  SHARDSCOPE_CHECK(found != values_.end());
  return found->second.is_explicit;
}

const std::string& Config::Get(std::string_view key) const {
  const auto found = values_.find(key);
  SHARDSCOPE_CHECK(found != values_.end());
  return found->second.text;
}

int64_t Config::GetInt(std::string_view key) const {
  const KeyInfo* info = FindKey(key);
  SHARDSCOPE_CHECK(info != nullptr);
  const std::string& text = Get(key);
  if (info->type == KeyType::kDuration) return ParseDuration(text).value();
  if (info->type == KeyType::kBytes) return ParseBytes(text).value();
  SHARDSCOPE_CHECK(info->type == KeyType::kInt);
  int64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

double Config::GetFloat(std::string_view key) const {
  const KeyInfo* info = FindKey(key);
  SHARDSCOPE_CHECK(info != nullptr &&
                   (info->type == KeyType::kFloat || info->type == KeyType::kInt));
  const std::string& text = Get(key);
  double number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

bool Config::GetBool(std::string_view key) const {
  const KeyInfo* info = FindKey(key);
  SHARDSCOPE_CHECK(info != nullptr && info->type == KeyType::kBool);
  return Get(key) != "false";
}

Config Config::OfValues(const std::map<std::string, std::string>& values) {
  Config config;
  // In the order of keys: presets and strategies, which others have their defaults from, come
  // first.
  for (const KeyInfo& key : AllKeys()) {
    const auto value = values.find(std::string(key.name));
    if (value == values.end() || config.Get(key.name) == value->second) continue;
    (void)config.Set(key.name, value->second);  // an error: left out
  }
  return config;
}

std::map<std::string, std::string> Config::Values() const {
  std::map<std::string, std::string> values;
  for (const auto& [key, value] : values_) values[key] = value.text;
  return values;
}

int64_t GetKvHeads(const Config& config) {
  const int64_t heads = config.GetInt("model.kv_heads");
  return heads > 0 ? heads : config.GetInt("model.heads");
}

int64_t GetFfn(const Config& config) {
  const int64_t width = config.GetInt("model.ffn");
  if (width > 0) return width;
  const int64_t dim = config.GetInt("model.dim");
  if (config.Get("model.kind") == "gpt") return 4 * dim;
  constexpr int64_t kStep = 32;
  return (8 * dim + 3 * kStep - 1) / (3 * kStep) * kStep;
}

int64_t GetComputeSlots(const Config& config) {
  const int64_t slots = config.GetInt("engine.compute_slots");
  return slots > 0 ? slots : std::max<int64_t>(1, std::thread::hardware_concurrency());
}

}  // namespace shardscope::config
