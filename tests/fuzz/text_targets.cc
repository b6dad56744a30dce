#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>

#include "engine/config/config.h"
#include "engine/config/control.h"
#include "engine/plan/text.h"
#include "engine/plan/validate.h"
#include "tests/fuzz/targets.h"
#include "trace/base/check.h"
#include "trace/store/remote/tail_protocol.h"

namespace shardscope::fuzz {
namespace {

std::string_view TextOf(Input input) {
  // Characters may be read as bytes.
  return {reinterpret_cast<const char*>(input.data()), input.size()};
}

}  // namespace

void FuzzSchedule(Input input) {
  const Result<plan::Schedule> schedule = plan::ParseSchedule(TextOf(input));
  if (!schedule.ok()) {
    SHARDSCOPE_CHECK(!schedule.message().empty());
    return;
  }
  const std::string printed = plan::PrintSchedule(schedule.value());
  const Result<plan::Schedule> again = plan::ParseSchedule(printed);
  SHARDSCOPE_CHECK(again.ok());
  SHARDSCOPE_CHECK(plan::PrintSchedule(again.value()) == printed);
  (void)plan::Validate(schedule.value());
}

void FuzzToml(Input input) {
  static const std::string path =
      (std::filesystem::temp_directory_path() / ("shardscope-fuzz-" + std::to_string(getpid())))
          .string() +
      ".toml";
  std::FILE* file = std::fopen(path.c_str(), "wb");
  SHARDSCOPE_CHECK(file != nullptr);
  SHARDSCOPE_CHECK(std::fwrite(input.data(), 1, input.size(), file) == input.size());
  SHARDSCOPE_CHECK(std::fclose(file) == 0);
  const Result<config::Config> config = config::LoadToml(path);
  (void)config::ReadControlSocket(path);
  std::filesystem::remove(path);
  if (!config.ok()) {
    SHARDSCOPE_CHECK(!config.message().empty());
    return;
  }
  (void)config.value().Check();
  (void)config::PrintToml(config.value());
}

void FuzzControl(Input input) {
  const std::string_view line = TextOf(input);
  (void)config::IdOf(line);
  (void)config::ParseHello(line);
  if (const auto request = config::ParseRequest(line); request.ok()) {
    SHARDSCOPE_CHECK(config::ParseRequest(config::PrintRequest(request.value())).ok());
    if (const auto* set = std::get_if<config::SetRequest>(&request.value().body)) {
      config::Config config;
      (void)config::ApplyLive(set->values, &config);
    }
  }
  if (const auto response = config::ParseResponse(line); response.ok()) {
    (void)config::PrintResponse(response.value());
  }
}

void FuzzTail(Input input) {
  store::TailDecoder decoder;
  std::string_view text = TextOf(input);
  while (!text.empty()) {
    const size_t end = text.find('\n');
    if (!decoder.Take(text.substr(0, end)).ok()) return;
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  store::RowBatch batch;
  (void)decoder.TakeRows(&batch);
}

}  // namespace shardscope::fuzz
