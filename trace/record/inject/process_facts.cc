#include "trace/record/inject/process_facts.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string_view>

#include "trace/base/text.h"

extern char** environ;

namespace shardscope::inject {
namespace {

std::string ReadFile(const char* path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

}  // namespace

std::string ProgramName() { return std::string(Trim(ReadFile("/proc/self/comm"))); }

std::string CommandLine() {
  std::string text = ReadFile("/proc/self/cmdline");
  std::replace(text.begin(), text.end(), '\0', ' ');
  return std::string(Trim(text)).substr(0, 1000);
}

int64_t NumberFrom(const char* variable, int64_t otherwise) {
  const char* value = std::getenv(variable);
  if (value == nullptr) return otherwise;
  const std::string_view text = value;
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? number : otherwise;
}

std::map<std::string, std::string> Settings() {
  std::map<std::string, std::string> settings;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const size_t equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    if (!text.starts_with("NCCL_") && !text.starts_with("CUDA_") && !text.starts_with("TORCH_")) {
      continue;
    }
    settings.emplace("env." + std::string(text.substr(0, equals)), text.substr(equals + 1));
  }
  return settings;
}

}  // namespace shardscope::inject
