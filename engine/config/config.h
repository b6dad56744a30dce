// Config: every key of a run with its value, the same in run.toml, on the command line and in
// control messages. No LibTorch: the app validates with this code before a trainer exists.
#pragma once

#include <cstdint>
#include <map>
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
  double minimum = 0;                // kInt, kFloat
  double maximum = 0;
  bool live = false;  // may change while the run trains
  std::string help;   // one sentence
};

// All keys, in the order of --help (grouped by prefix).
const std::vector<KeyInfo>& AllKeys();
const KeyInfo* FindKey(std::string_view name);

// The canonical text of `value` for `key` ("1 GB/s" -> "1GB/s"), or an error that names key, value
// and what is allowed.
Result<std::string> Canonical(const KeyInfo& key, std::string_view value);

struct Change {
  int64_t step = 0;  // first step it applies to
  std::map<std::string, std::string> set;
};

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

  const std::string& Get(std::string_view key) const;  // canonical text; the key must exist
  int64_t GetInt(std::string_view key) const;
  double GetFloat(std::string_view key) const;
  bool GetBool(std::string_view key) const;

  std::map<std::string, std::string> Values() const;

  // Changes at steps that a preset lists, ascending: [[change]] step = 40, set = {
  // "prefetch.backward" = "pre" } ; a step may also be a share of train.steps ("1/3").
  const std::vector<Change>& changes() const { return changes_; }
  void AddChange(Change change) { changes_.push_back(std::move(change)); }

 private:
  struct Value {
    std::string text;
    bool is_explicit = false;
  };
  std::map<std::string, Value, std::less<>> values_;
  std::vector<Change> changes_;
};

// run.toml: reading (any nesting of tables; errors name file, line, key) and writing (every key
// with its value and help as a comment; reading it back gives the same Config).
Result<Config> LoadToml(const std::string& path);
Status ApplyToml(const std::string& path, Config* config);
std::string PrintToml(const Config& config);

// "key=value" of --set; applied in order.
Status ApplySetting(std::string_view setting, Config* config);

// link.bandwidth: a fixed rate, or auto:<share>.
struct LinkBandwidth {
  bool is_auto = false;
  double auto_share = 0;  // share of a block's measured forward that its all-gather shall take
  double bytes_per_second = 0;  // if not auto
};
LinkBandwidth GetLinkBandwidth(const Config& config);

// The Policy that the keys give (preset resolved).
plan::Policy ToPolicy(const Config& config);

}  // namespace shardscope::config
