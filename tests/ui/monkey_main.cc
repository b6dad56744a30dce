// shardscope_monkey: a run in the app without a window, used at random: see monkey.h. Exits with 0
// if the app is still there, opens the run anew, and then says of it what it said at first.
//
// usage: shardscope_monkey RUN ACTIONS SEED LOG [--most-frame-ms MS] [--fault FAULT]
// LOG: a file that gets a line for each action, before its successor begins.
// MS: exits with 1 if a frame took more of this thread's processor time.
// FAULT: what happens to the trace of the run's folder halfway (delete, replace, truncate); the app
// has to be there still, and to say why the run cannot be opened, if it cannot.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tests/ui/harness.h"
#include "tests/ui/monkey.h"
#include "trace/base/time.h"

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
  const ui::Context& context = harness->context();
  harness->Until(
      [&] { return IsOpen(*harness) || (context.snapshot == nullptr && !context.error.empty()); },
      kOpenSeconds);
  return IsOpen(*harness);
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

struct Options {
  std::string run;
  int actions = 0;
  uint64_t seed = 0;
  std::string log;
  std::string fault;         // empty: none
  double most_frame_ms = 0;  // 0: any
};

// To the trace files of a run, while the app has them open.
void Harm(const std::string& run, const std::string& fault) {
  std::vector<std::filesystem::path> traces;
  for (const auto& entry : std::filesystem::directory_iterator(run)) {
    const bool is_trace = entry.path().filename().string().starts_with("trace-");
    if (is_trace && entry.is_regular_file()) traces.push_back(entry.path());
  }
  for (const std::filesystem::path& trace : traces) {
    if (fault == "delete") {
      std::filesystem::remove(trace);
    } else if (fault == "truncate") {
      std::filesystem::resize_file(trace, std::filesystem::file_size(trace) / 2);
    } else {
      const std::filesystem::path other = std::filesystem::path(run) / "other";
      std::ofstream(other) << "this is no trace\n";
      std::filesystem::rename(other, trace);
    }
  }
  std::printf("%zu trace files: %s\n", traces.size(), fault.c_str());
}

// What the actions took.
struct Cost {
  double longest_ms = 0;
  double dearest_frame_ms = 0;  // of processor time
  int opened = 0;
};

Cost Act(Harness* harness, const Options& options) {
  Monkey monkey(harness, options.seed);
  std::ofstream log(options.log);
  Cost cost;
  harness->TakeDearestFrameNs();
  for (int i = 0; i < options.actions; ++i) {
    if (i == options.actions / 2 && !options.fault.empty()) Harm(options.run, options.fault);
    const auto start = std::chrono::steady_clock::now();
    const std::string done = monkey.Act();
    const double ms =
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    const double frame_ms =
        static_cast<double>(harness->TakeDearestFrameNs()) / static_cast<double>(kNsPerMs);
    cost.longest_ms = std::max(cost.longest_ms, ms);
    cost.dearest_frame_ms = std::max(cost.dearest_frame_ms, frame_ms);
    log << fmt::format("{} {:.1f} ms, a frame {:.1f} ms: {}\n", i, ms, frame_ms, done)
        << std::flush;
    if (harness->context().snapshot != nullptr) continue;
    harness->shell().Post(ui::OpenRun{options.run});
    ++cost.opened;
  }
  return cost;
}

int CountDifferences(const std::map<std::string, std::string>& before,
                     const std::map<std::string, std::string>& after) {
  int differences = 0;
  for (const auto& [id, text] : before) {
    const auto found = after.find(id);
    if (found != after.end() && found->second == text) continue;
    ++differences;
    std::fprintf(stderr, "monkey: the top bar's %s was \"%s\" and is \"%s\"\n", id.c_str(),
                 text.c_str(), found == after.end() ? "" : found->second.c_str());
  }
  return differences;
}

int Run(const Options& options) {
  const std::string& run = options.run;
  const std::filesystem::path folder = std::filesystem::path(options.log).replace_extension(".app");
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
  const Cost cost = Act(&harness, options);
  const bool is_open = OpenAnew(&harness, run);
  std::printf(
      "%d actions, seed %llu: longest %.0f ms, dearest frame %.0f ms of processor time, opened %d "
      "times again\n",
      options.actions, static_cast<unsigned long long>(options.seed), cost.longest_ms,
      cost.dearest_frame_ms, cost.opened);
  if (options.most_frame_ms > 0 && cost.dearest_frame_ms > options.most_frame_ms) {
    std::fprintf(stderr, "monkey: a frame took %.0f ms of processor time, more than %.0f ms\n",
                 cost.dearest_frame_ms, options.most_frame_ms);
    return 1;
  }
  if (!options.fault.empty()) {
    const bool has_rows = harness.context().snapshot != nullptr;
    const std::string& error = harness.context().error;
    std::printf("%s\n", has_rows ? "the run is open" : error.c_str());
    return has_rows || !error.empty() ? 0 : 1;  // it goes on, or says why not
  }
  if (!is_open) {
    std::fprintf(stderr, "monkey: after it %s cannot be opened: %s\n", run.c_str(),
                 harness.context().error.c_str());
    return 1;
  }
  return stands_still && CountDifferences(before, Figures(&harness)) > 0 ? 1 : 0;
}

// nullopt: it is none.
std::optional<Options> ParseOptions(const std::vector<std::string>& words) {
  if (words.size() < 4 || words.size() % 2 != 0) return std::nullopt;
  Options options{words[0],
                  std::atoi(words[1].c_str()),
                  std::strtoull(words[2].c_str(), nullptr, 10),
                  words[3],
                  "",
                  0};
  for (size_t at = 4; at < words.size(); at += 2) {
    const std::string& value = words[at + 1];
    if (words[at] == "--most-frame-ms") {
      options.most_frame_ms = std::atof(value.c_str());
    } else if (words[at] == "--fault" &&
               (value == "delete" || value == "replace" || value == "truncate")) {
      options.fault = value;
    } else {
      return std::nullopt;
    }
  }
  return options;
}

}  // namespace
}  // namespace shardscope::ui_test

int main(int count, char** arguments) {
  const auto options = shardscope::ui_test::ParseOptions({arguments + 1, arguments + count});
  if (!options) {
    std::fprintf(stderr,
                 "usage: shardscope_monkey RUN ACTIONS SEED LOG [--most-frame-ms MS] [--fault "
                 "delete|replace|truncate]\n");
    return 2;
  }
  return shardscope::ui_test::Run(*options);
}
