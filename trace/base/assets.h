// Where the files of assets/ are: beside the program when installed, in the checkout when built
// there.
#pragma once

#include <string>
#include <vector>

namespace shardscope {

// The folder of the running program.
std::string ProgramFolder();

// The TOML files in `folder`, by name; empty if there are none.
std::vector<std::string> TomlFilesIn(const std::string& folder);

// Those of `name`: "presets", "lessons".
std::vector<std::string> FindAssets(const std::string& program_folder, const std::string& name);

}  // namespace shardscope
