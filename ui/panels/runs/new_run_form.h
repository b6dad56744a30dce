// NewRunForm: what the user typed into the form of a new run, validated by the same code as the
// trainer's command line. No Dear ImGui.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "engine/config/config.h"
#include "ui/commands.h"

namespace shardscope::panels {

class NewRunForm {
 public:
  // Takes the values of a preset file as the new starting point ("" = defaults); what the user
  // typed stays. An error of the file is in base_error().
  void SetPreset(const std::string& path);
  const std::string& preset() const { return preset_; }
  const std::string& base_error() const { return base_error_; }

  // What the field shows: what was typed, else the value of the starting point.
  const std::string& Value(const std::string& key) const;
  void SetValue(const std::string& key, const std::string& value);
  void ResetValue(const std::string& key);
  bool IsChanged(const std::string& key) const { return typed_.count(key) > 0; }
  size_t num_changed() const { return typed_.size(); }

  // The keys to show: those that match what is searched for (MatchingKeys), behind them whatever
  // was changed, so that no key that counts or needs correction is left out. `only_changed`: these
  // alone.
  std::vector<const config::KeyInfo*> KeysToShow(ui::Language language, std::string_view query,
                                                 bool only_changed) const;
  // "train.steps  100 → 50", a line a changed key.
  std::string ChangesText() const;

  // The error of one key's own value; empty if it is fine.
  std::string KeyError(const std::string& key) const;
  // The error of rules between keys; empty if there is none, or while a key has an error of its
  // own.
  const std::string& rule_error() const { return rule_error_; }
  bool valid() const { return key_errors_.empty() && rule_error_.empty() && base_error_.empty(); }

  // The command that starts the run: only what differs from the starting point.
  ui::StartRun ToCommand(const std::string& folder) const;

 private:
  void Validate();

  std::string preset_;
  config::Config base_;
  std::string base_error_;
  std::map<std::string, std::string> typed_;
  std::map<std::string, std::string> key_errors_;
  std::string rule_error_;
};

// The keys whose name or help contains every word of `query`.
std::vector<const config::KeyInfo*> MatchingKeys(ui::Language language, std::string_view query);

}  // namespace shardscope::panels
