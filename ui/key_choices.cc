#include "ui/key_choices.h"

namespace shardscope::ui {

std::vector<std::string> ChoicesOf(const config::KeyInfo& key, std::string_view value) {
  if (key.type != config::KeyType::kBool) return key.choices;
  std::vector<std::string> choices = {"true", "false"};
  if (key.maximum > 0) {
    const bool is_number = !value.empty() && value != "true" && value != "false";
    choices.insert(choices.begin() + 1, is_number ? std::string(value) : "2");
  }
  return choices;
}

}  // namespace shardscope::ui
