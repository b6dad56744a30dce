// What processes left that were killed while they wrote: files and folders with their number in the
// name.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <optional>
#include <string_view>

namespace shardscope {

// The process that writes what has this name; nullopt: it is nothing that a process writes so.
using ProcessOfName = std::function<std::optional<pid_t>(std::string_view name)>;

// Removes from `folder`, which need not be there, what is of processes that are gone; folders with
// all that is in them.
void RemoveLeftOver(const std::filesystem::path& folder, const ProcessOfName& process_of);

}  // namespace shardscope
