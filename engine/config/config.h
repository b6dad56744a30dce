// Config: every key of a run with its value, the same in run.toml, on the command line and in
// control messages. No LibTorch: the app validates with this code before a trainer exists.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/plan/policy.h"
#include "trace/base/status.h"

namespace shardscope::config {

enum class KeyType : uint8_t {
  kInt,
  kFloat,
  kBool,
  kChoice,
  kString,
  kDuration,
  kBandwidth,
  kBytes
};

// One key: what `--help`, the form of a new run and every error message are made from.
struct KeyInfo {
  std::string name;  // "prefetch.backward"
  KeyType type = KeyType::kInt;
  std::string
      default_value;  // canonical text; keys that a preset or strategy sets show the fsdp2 default
  std::string unit;   // "steps", "B/s", ... or empty
  std::vector<std::string> choices;  // kChoice
  // kInt, kFloat; kDuration in ns, kBandwidth in B/s, kBytes in bytes. kBool: whole numbers that
  // may stand for true, none as a rule.
  double minimum = 0;
  double maximum = 0;
  bool live = false;             // may change while the run trains
  bool shapes_schedule = false;  // of a given model: `shardscope plan --set` takes it
  // It says which model is trained, or what its units are: `plan --set` takes it as well, and then
  // prints the Schedule of the model of a run that has it.
  bool is_of_model = false;
  bool settable = true;  // false: the trainer writes it, Set refuses it
  bool is_path = false;  // names a file or folder
  std::string help;      // one sentence
};

// All keys, in the order of --help (grouped by prefix).
const std::vector<KeyInfo>& AllKeys();
const KeyInfo* FindKey(std::string_view name);

// What `key` accepts, for people: "a whole number from 1 to 64", "one of pre, post, none", ...
std::string Allowed(const KeyInfo& key);

// All keys with type, default, unit, whether live, and help: the end of `shardscope-train --help`.
std::string KeyHelp();

// The canonical text of `value` for `key` ("1 GB/s" -> "1GB/s"), or an error that names key, value
// and what is allowed.
Result<std::string> Canonical(const KeyInfo& key, std::string_view value);

// Keys that change at a step. A share is resolved again whenever train.steps changes.
struct Change {
  int64_t step = 0;   // first step it applies to
  std::string share;  // "1/3" of train.steps, rounded down; empty: `step` was given itself
  std::map<std::string, std::string> set;
  bool is_inherited = false;  // Config::Inherit()
  bool operator==(const Change&) const = default;
};

// A key's default may depend on other keys, as long as it is not set itself:
// Config::RefreshDefaults().
class Config {
 public:
  Config();  // all defaults

  // Sets one key. Unknown key: error with the nearest name. Does not check rules that involve
  // several keys.
  Status Set(std::string_view key, std::string_view value);

  // All or nothing: on an error no key has changed.
  Status SetAll(const std::map<std::string, std::string>& values);

  // Rules between keys: heads divide dim, reshard does not contradict strategy, compute slots, ...
  // Call after setting.
  Status Check() const;

  // Whether the user set it (as opposed to a default or what the preset implies).
  bool IsExplicit(std::string_view key) const;

  // What was set and listed so far came with a checkpoint: where it has no effect it is left alone.
  void Inherit();
  // Whether the user set it, and no checkpoint.
  bool IsGiven(std::string_view key) const;
  // Back to its default, as if it had never been set.
  void Unset(std::string_view key);

  const std::string& Get(std::string_view key) const;  // canonical text; the key must exist
  int64_t GetInt(std::string_view key) const;          // durations in ns, sizes in bytes
  double GetFloat(std::string_view key) const;
  bool GetBool(std::string_view key) const;  // a number counts as true

  std::map<std::string, std::string> Values() const;

  // As a run was set up that has these values: what is so by default is not explicit. Keys of
  // another version, and those that only the trainer sets, are left out.
  static Config OfValues(const std::map<std::string, std::string>& values);

  // Changes at steps that a preset lists, ascending: [[change]] step = 40, set = {
  // "prefetch.backward" = "pre" } ; a step may also be a share of train.steps ("1/3").
  const std::vector<Change>& changes() const { return changes_; }
  void AddChange(Change change);
  void ClearChanges() { changes_.clear(); }

  // run.control_socket, which Set refuses: only the trainer has it.
  void SetControlSocket(std::string path);

 private:
  struct Value {
    std::string text;
    bool is_explicit = false;
    bool is_inherited = false;
  };
  void SetDefault(std::string_view key, std::string_view value);
  void RefreshDefaults();
  void ResolveChanges();

  std::map<std::string, Value, std::less<>> values_;
  std::vector<Change> changes_;
};

// run.toml: reading (any nesting of tables; errors name file, line, key) and writing (every key
// with its value and help as a comment; reading it back gives the same Config). The list `chosen`
// of a written file says which keys were set; a key outside it counts as set only if its value is
// not the default. A file that lists changes replaces those that `config` had. On an error
// `config` is as before.
Result<Config> LoadToml(const std::string& path);
Status ApplyToml(const std::string& path, Config* config);
std::string PrintToml(const Config& config);

// run.control_socket of a run.toml, whatever else is in it (it may come from another version).
Result<std::string> ReadControlSocket(const std::string& path);

// "key=value" of --set; applied in order.
Status ApplySetting(std::string_view setting, Config* config);

// A change while the run trains: all or nothing, only live keys, and the result passes Check().
Status ApplyLive(const std::map<std::string, std::string>& values, Config* config);

// link.bandwidth: a fixed rate, or auto:<share>.
struct LinkBandwidth {
  bool is_auto = false;
  double auto_share = 0;  // share of a block's measured forward that its all-gather shall take
  double bytes_per_second = 0;  // if not auto
};
LinkBandwidth GetLinkBandwidth(const Config& config);

// link.<dimension>.bandwidth and latency; what is not stated is that of all links.
struct DimensionLink {
  std::optional<double> bytes_per_second;
  std::optional<int64_t> latency_ns;
  bool operator==(const DimensionLink&) const = default;
};
using DimensionLinks = std::array<DimensionLink, plan::kNumMeshDimensions>;  // by MeshDimension
DimensionLinks GetDimensionLinks(const Config& config);
// link.host.bandwidth and latency.
DimensionLink GetHostLink(const Config& config);
bool IsHostLink(std::string_view key);
// The dimension of such a key; none of any other key.
std::optional<plan::MeshDimension> DimensionOfLink(std::string_view key);

// record.steps: steps begin <= step < end.
struct StepWindow {
  int64_t begin = 0;
  int64_t end = 0;
  bool operator==(const StepWindow&) const = default;
};
StepWindow GetRecordSteps(const Config& config);

// Of prefetch.forward_list and prefetch.backward_list.
plan::PrefetchLists GetPrefetchLists(const Config& config);

// The number of reshard_after_forward; nullopt: it is true or false.
std::optional<int64_t> GetReshardRanks(const Config& config);

// checkpointing, and the text of one.
plan::ActivationCheckpointing GetCheckpointing(const Config& config);
std::string CheckpointingText(const plan::ActivationCheckpointing& checkpointing);

// unit.policy, without what other keys say of units.
plan::UnitPolicy GetUnitPolicy(const Config& config);
// Of one of the keys mesh.*; none: auto.
std::optional<int64_t> GetMeshSize(const Config& config, std::string_view key);

// model.kv_heads and model.ffn with 0 resolved to what the other keys of the model give.
int64_t GetKvHeads(const Config& config);
int64_t GetFfn(const Config& config);

// engine.compute_slots with 0 resolved to the cores that this process may use.
int64_t GetComputeSlots(const Config& config);

// Whether it is an error that the key has no effect: the user gave it, and not its default.
bool MustHaveEffect(const Config& config, std::string_view key);
// Puts what came with a checkpoint back to its default where Check() would refuse it beside what
// was given, as far as it only says how the work is arranged, and as few keys as can be; of listed
// changes it takes such keys out. Returns what that was, for people: "offload=all (now none),
// offload=all of the change at step 30 (left out), ..."; empty: nothing, also where nothing helps.
std::string SettleInherited(Config* config);

// Relative paths become absolute; `bytes` in place of a tokenizer is none.
void MakePathsAbsolute(Config* config);

// Whether the key changes anything with that strategy, and preset. False of no key that has nothing
// to do with sharding.
bool Applies(std::string_view key, const plan::Strategy& strategy, std::string_view preset = "");
// At the start of a run: keys of another strategy are set, though no listed change chooses that.
Status CheckKeysOfStrategies(const Config& config);

// train.frozen and lora.*: what of the model is trained, in the names that its parameters have.
struct FineTuning {
  std::vector<std::string> frozen;  // modules
  int64_t rank = 0;                 // of adapters; 0: there are none
  double alpha = 0;
  std::vector<std::string> targets;  // weights of blocks
};
FineTuning GetFineTuning(const Config& config);
// A rule of Config::Check().
Status CheckFineTuning(const Config& config);

// What `strategy` chooses.
const plan::Strategy& GetStrategy(const Config& config);
// What `preset` chooses. Whether it means anything depends on the strategy: plan::HasSlots().
plan::Preset GetPreset(const Config& config);
// What `optimizer.kind` chooses.
plan::OptimizerKind GetOptimizer(const Config& config);

// The Policy that the keys give (preset resolved).
plan::Policy ToPolicy(const Config& config);

}  // namespace shardscope::config
