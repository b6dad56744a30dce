// Palette: everything that can be found by a few letters: commands, settings, configuration keys.
// Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ui/context.h"

namespace shardscope::ui {

struct PaletteEntry {
  std::string title;  // in the language
  std::string key;    // what it says at the right: "Ctrl+P", "link.bandwidth"; may be empty
  Commands commands;  // of choosing it
};

// How well `text` has every word of `query`, both in small letters: at the starts of its words,
// inside, or, of words of three letters and more, as letters in their order. 0: it has not.
int MatchScore(std::string_view text, std::string_view query);

// The best first, else in the order of keys and menus; configuration keys, and what only mouse and
// keys do, only where something is typed. Found by their titles in either language, configuration
// keys by their names and help too, and the keyboard's by theirs.
std::vector<PaletteEntry> PaletteEntries(const Context& context, std::string_view query);

}  // namespace shardscope::ui
