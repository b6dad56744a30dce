#include "app/record/launch.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "trace/base/text.h"
#include "trace/base/trace_keys.h"
#include "trace/base/words.h"
#include "trace/schema/capability_row.h"

extern char** environ;

namespace shardscope::app {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLibrary = "libshardscope_inject.so";
// Beside it, if PyTorch's own ranges can be recorded: a folder for PYTHONPATH
// (engine/torch_ranges).
constexpr const char* kPythonFolder = "python";

// A variable by which a library of the program loads a tool, and the source that it gives.
struct Injection {
  const char* variable;
  std::string_view source;
};
constexpr Injection kInjections[] = {{"NVTX_INJECTION64_PATH", "nvtx"},
                                     {"CUDA_INJECTION64_PATH", trace_keys::kCuptiSource},
                                     {"NCCL_PROFILER_PLUGIN", "nccl"}};

void Set(const std::string& name, const std::string& value, std::vector<std::string>* environment) {
  const std::string start = name + "=";
  for (std::string& entry : *environment) {
    if (entry.starts_with(start)) {
      entry = start + value;
      return;
    }
  }
  environment->push_back(start + value);
}

bool IsFile(const std::string& path) {
  struct stat file = {};
  return stat(path.c_str(), &file) == 0 && S_ISREG(file.st_mode);
}

void AddPythonFolder(const std::string& library, std::vector<std::string>* environment) {
  const std::string folder = (fs::path(library).parent_path() / kPythonFolder).string();
  if (!IsFile(folder + "/sitecustomize.py")) return;
  const char* present = std::getenv("PYTHONPATH");
  const bool is_set = present != nullptr && *present != '\0';
  Set("PYTHONPATH", is_set ? fmt::format("{}:{}", folder, present) : folder, environment);
}

}  // namespace

Result<std::string> FindInjectedLibrary() {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  const fs::path folder = program.parent_path();
  for (const fs::path& candidate : {folder / kLibrary, folder.parent_path() / "lib" / kLibrary}) {
    if (!error && IsFile(candidate.string())) return candidate.string();
  }
  return Status::Error(fmt::format("{} is not in {}, where it belongs: build or install it again",
                                   kLibrary, folder.string()));
}

Launch MakeLaunch(const std::string& library, const std::string& run_folder, int64_t until_ns) {
  Launch launch;
  for (char** entry = environ; *entry != nullptr; ++entry) launch.environment.emplace_back(*entry);
  for (const Injection& injection : kInjections) {
    const char* present = std::getenv(injection.variable);
    if (present != nullptr && *present != '\0' && present != library) {
      launch.taken.push_back(schema::CapabilityRowOf(
          injection.source, words::CapabilityStatus::kOff,
          fmt::format("{} is set already, to {}: that tool gets the records", injection.variable,
                      present)));
      continue;
    }
    launch.sources.emplace_back(injection.source);
    Set(injection.variable, library, &launch.environment);
  }
  // More hardware queues than the default 8: with few, streams wait for each other.
  if (std::getenv("CUDA_DEVICE_MAX_CONNECTIONS") == nullptr) {
    Set("CUDA_DEVICE_MAX_CONNECTIONS", "32", &launch.environment);
  }
  AddPythonFolder(library, &launch.environment);
  const char* outer_run = std::getenv("SHARDSCOPE_RECORD_RUN");
  if (outer_run != nullptr && outer_run != run_folder) launch.outer_run = outer_run;
  Set("SHARDSCOPE_RECORD_RUN", run_folder, &launch.environment);
  std::erase_if(launch.environment, [](const std::string& entry) {
    return entry.starts_with("SHARDSCOPE_RECORD_UNTIL=");
  });
  if (until_ns > 0) {
    Set("SHARDSCOPE_RECORD_UNTIL", std::to_string(until_ns), &launch.environment);
  }
  return launch;
}

bool ProgramExists(const std::string& command) {
  if (command.find('/') != std::string::npos) return access(command.c_str(), F_OK) == 0;
  const char* path = std::getenv("PATH");
  for (const std::string_view folder : Split(path == nullptr ? "/bin:/usr/bin" : path, ':')) {
    if (IsFile(fmt::format("{}/{}", folder.empty() ? "." : folder, command))) return true;
  }
  return false;
}

}  // namespace shardscope::app
