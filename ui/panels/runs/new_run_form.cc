#include "ui/panels/runs/new_run_form.h"

#include <fmt/format.h>

#include <algorithm>

#include "trace/base/letter_case.h"
#include "trace/base/text.h"
#include "ui/text.h"

namespace shardscope::panels {

void NewRunForm::SetPreset(const std::string& path) {
  preset_ = path;
  base_ = config::Config();
  base_error_.clear();
  if (!path.empty()) {
    auto loaded = config::LoadToml(path);
    if (loaded.ok()) {
      base_ = std::move(loaded).value();
    } else {
      base_error_ = loaded.message();
    }
  }
  Validate();
}

const std::string& NewRunForm::Value(const std::string& key) const {
  const auto typed = typed_.find(key);
  return typed != typed_.end() ? typed->second : base_.Get(key);
}

void NewRunForm::SetValue(const std::string& key, const std::string& value) {
  if (value == base_.Get(key)) {
    typed_.erase(key);
  } else {
    typed_[key] = value;
  }
  Validate();
}

void NewRunForm::ResetValue(const std::string& key) {
  typed_.erase(key);
  Validate();
}

std::vector<const config::KeyInfo*> NewRunForm::KeysToShow(ui::Language language,
                                                           std::string_view query,
                                                           bool only_changed) const {
  const auto matching = MatchingKeys(language, query);
  std::vector<const config::KeyInfo*> keys;
  if (!only_changed) keys = matching;
  for (const config::KeyInfo& key : config::AllKeys()) {
    const bool listed = std::find(keys.begin(), keys.end(), &key) != keys.end();
    if (IsChanged(key.name) && !listed) keys.push_back(&key);
  }
  return keys;
}

std::string NewRunForm::ChangesText() const {
  std::string text;
  for (const auto& [key, value] : typed_) {
    text += fmt::format("{}{}  {} → {}", text.empty() ? "" : "\n", key, base_.Get(key), value);
  }
  return text;
}

std::string NewRunForm::KeyError(const std::string& key) const {
  const auto found = key_errors_.find(key);
  return found == key_errors_.end() ? std::string() : found->second;
}

void NewRunForm::Validate() {
  key_errors_.clear();
  rule_error_.clear();
  config::Config config = base_;
  for (const auto& [key, value] : typed_) {
    const Status status = config.Set(key, value);
    if (!status.ok()) key_errors_[key] = status.message();
  }
  if (!key_errors_.empty()) return;
  const Status status = config.Check();
  if (!status.ok()) rule_error_ = status.message();
}

ui::StartRun NewRunForm::ToCommand(const std::string& folder) const {
  return {folder, typed_, preset_};
}

std::vector<const config::KeyInfo*> MatchingKeys(ui::Language language, std::string_view query) {
  std::vector<const config::KeyInfo*> matching;
  const std::string words = Lower(query);
  for (const config::KeyInfo& key : config::AllKeys()) {
    if (!key.settable) continue;
    const std::string text = Lower(key.name + " " + ui::KeyLabel(language, key.name) + " " +
                                   key.help + " " + ui::KeyHelp(language, key));
    bool all = true;
    for (const std::string_view word : Split(words, ' ')) {
      all = all && text.find(word) != std::string::npos;
    }
    if (all) matching.push_back(&key);
  }
  return matching;
}

}  // namespace shardscope::panels
