// shardscope_monkey: a run in the app without a window, used at random: see monkey.h. Exits with 0
// if the app is still there, opens the run anew, and then says of it what it said at first.
//
// usage: shardscope_monkey RUN ACTIONS SEED LOG
// LOG: a file that gets a line for each action, before its successor begins.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <system_error>

#include "tests/ui/harness.h"
#include "tests/ui/monkey.h"

namespace shardscope::ui_test {
namespace {

constexpr double kOpenSeconds = 120;
constexpr int kFirstWidth = 1600;
constexpr int kFirstHeight = 900;

bool IsOpen(const Harness& harness) {
  const ui::Context& context = harness.context();
  return context.snapshot != nullptr && !context.snapshot->loading && context.report != nullptr &&
         context.figures != nullptr;
}

// As after a start of the app, whatever was done to it.
bool OpenAnew(Harness* harness, const std::string& run) {
  for (const ui::Command& command :
       ui::Commands{ui::ShowOverlay{ui::Overlay::kNone}, ui::SetLanguage{ui::Language::kEnglish},
                    ui::SetTheme{ui::ThemeName::kDark}, ui::SetScale{1}, ui::CloseRun{},
                    ui::SetScope{}, ui::ResetLayout{}}) {
    harness->shell().Post(command);
  }
  harness->Resize(kFirstWidth, kFirstHeight);
  harness->Frames(3);
  harness->shell().Post(ui::OpenRun{run});
  harness->Frames(2);
  return harness->Until([&] { return IsOpen(*harness); }, kOpenSeconds);
}

// What the top bar says of the run.
std::map<std::string, std::string> Figures(Harness* harness) {
  harness->Frames(5);
  std::map<std::string, std::string> figures;
  for (const ui::DrawnItem& item : harness->log().items()) {
    if (item.panel == "top_bar") figures[item.id] = item.text;
  }
  return figures;
}

int Run(const std::string& run, int actions, uint64_t seed, const std::string& log_path) {
  const std::filesystem::path folder = std::filesystem::path(log_path).replace_extension(".app");
  std::filesystem::create_directories(folder);
  // No programs there: a run that is started by chance says so instead of taking the machine.
  Harness harness((folder / "settings").string(), folder.string(), /*log_widgets=*/true);
  if (!OpenAnew(&harness, run)) {
    std::fprintf(stderr, "monkey: %s cannot be opened: %s\n", run.c_str(),
                 harness.context().error.c_str());
    return 1;
  }
  const bool stands_still = harness.context().snapshot->state != query::TraceState::kLive;
  const std::map<std::string, std::string> before = Figures(&harness);
  Monkey monkey(&harness, seed);
  std::ofstream log(log_path);
  double longest_ms = 0;
  int opened = 0;
  for (int i = 0; i < actions; ++i) {
    const auto start = std::chrono::steady_clock::now();
    const std::string done = monkey.Act();
    const double ms =
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    longest_ms = std::max(longest_ms, ms);
    log << fmt::format("{} {:.1f} ms: {}\n", i, ms, done) << std::flush;
    if (harness.context().snapshot != nullptr) continue;
    harness.shell().Post(ui::OpenRun{run});
    ++opened;
  }
  if (!OpenAnew(&harness, run)) {
    std::fprintf(stderr, "monkey: after it %s cannot be opened: %s\n", run.c_str(),
                 harness.context().error.c_str());
    return 1;
  }
  std::printf("%d actions, seed %llu: longest %.0f ms, opened %d times again\n", actions,
              static_cast<unsigned long long>(seed), longest_ms, opened);
  if (!stands_still) return 0;
  int differences = 0;
  const std::map<std::string, std::string> after = Figures(&harness);
  for (const auto& [id, text] : before) {
    const auto found = after.find(id);
    if (found != after.end() && found->second == text) continue;
    ++differences;
    std::fprintf(stderr, "monkey: the top bar's %s was \"%s\" and is \"%s\"\n", id.c_str(),
                 text.c_str(), found == after.end() ? "" : found->second.c_str());
  }
  return differences == 0 ? 0 : 1;
}

}  // namespace
}  // namespace shardscope::ui_test

int main(int count, char** arguments) {
  if (count != 5) {
    std::fprintf(stderr, "usage: shardscope_monkey RUN ACTIONS SEED LOG\n");
    return 2;
  }
  return shardscope::ui_test::Run(arguments[1], std::atoi(arguments[2]),
                                  std::strtoull(arguments[3], nullptr, 10), arguments[4]);
}
