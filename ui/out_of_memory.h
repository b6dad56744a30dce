// Errors that say that memory is out, in the language of the app: how much was wanted, what is live
// and what to change. Numbers, keys and names of ops stay as they are.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ui/language.h"

namespace shardscope::ui {

// The sentences of the message of an error, without their full stops; one that says something else
// stays whole and in English.
std::vector<std::string> ErrorSentences(Language language, std::string_view message);

}  // namespace shardscope::ui
