#include "trace/base/left_over.h"

#include <string>
#include <system_error>
#include <vector>

#include "trace/base/process_id.h"

namespace shardscope {

namespace fs = std::filesystem;

void RemoveLeftOver(const fs::path& folder, const ProcessOfName& process_of) {
  std::vector<fs::path> left;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    const std::optional<pid_t> process = process_of(name);
    if (process && IsProcessGone(*process)) left.push_back(it->path());
  }
  for (const fs::path& path : left) fs::remove_all(path, error);
}

}  // namespace shardscope
