// Shot: the whole default window as a picture, without display: what `shardscope shot` and tests
// use.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "trace/base/status.h"
#include "trace/query/summary.h"
#include "ui/commands.h"
#include "ui/draw_log.h"
#include "ui/link.h"
#include "ui/shell/backend/png.h"

namespace shardscope::shell {

enum class ShotFormat : uint8_t {
  kPng,
  kSvg,  // shapes and text instead of pixels; needs no EGL, like the others
  kCsv,  // what the panel lists
  kText  // what was drawn, as it is read
};

struct ShotOptions {
  int width = 1600;
  int height = 900;
  int32_t step = -1;                     // -1: around the newest change, else the last steps
  std::optional<analysis::Scope> scope;  // of the figures; none: what the run's state asks for
  ui::Language language = ui::Language::kEnglish;
  ui::ThemeName theme = ui::ThemeName::kDark;
  float scale = 1;    // of text, lines and columns, as the window's Larger and Smaller
  std::string panel;  // brought to the front of its tabs; empty: what is asked for below, else the
                      // timeline
  std::optional<analysis::AreaText> area;  // that is marked; shown, unless `step` is given
  std::string search;                      // query of the search, which is open then; empty: closed
  bool beside = false;                     // B of `compare` under each lane
  bool plan = false;                       // what the Schedule plans under each lane
  bool critical_path = false;              // of the step in focus, over the lanes
  std::optional<ui::CompareWith> compare;  // B, or ranges, of the panel Compare
  std::string at;  // where the time lens stands (analysis::ParseMoment); empty: it is off
  ShotFormat format = ShotFormat::kPng;
  std::optional<ui::Link> link;  // where to go; before all of the above
  std::string program_folder;    // where shardscope-train is; empty: beside this program
  std::string opened;  // the path that was given, of whose run the bookmarks are shown; empty: none
  ui::Commands commands;  // what else is done before it is drawn: of tests
};

struct Shot {
  Image image;       // of kPng; else empty
  std::string text;  // the file of another format
  ui::DrawLog log;
};

// The times of which such a picture shows single rows: its view, and the steps that its card of the
// newest change compares. All else in it is of the whole run and in `summary`
// (query::ReadSummaryAround). nullopt: it may show more, so that all rows are needed.
std::optional<std::vector<query::TimeRange>> TimesOfShot(const query::Snapshot& summary,
                                                         const ShotOptions& options);

// What ShotOptions::panel may be.
std::vector<std::string> PanelNames();

// The same snapshot, options and fonts give the same bytes; the panel Runs proposes a folder that
// is not there yet. Errors: no EGL, Chinese without a CJK font, no such steps or area, a link that
// leads nowhere; for kCsv, a panel that lists nothing.
Result<Shot> TakeShot(query::SnapshotPtr snapshot, const ShotOptions& options);

struct Animation {
  int frames = 60;
  int slowness = 0;  // of real time; 0: a tenth of a second a frame
};
inline constexpr int kMostFrames = 600;

// A step in the time lens: the pictures are taken at equal distances from its start on, each shown
// for `frame_ns`. `options.step`: which; -1: the newest. Errors: those of TakeShot(), no finished
// step, more pixels than are made in a few minutes, frames shorter than a screen's, and those of
// `begin` and `take`.
struct FrameSink {
  std::function<Status(int64_t frame_ns)> begin;
  std::function<Status(const Image& image)> take;
};
Status TakeAnimation(query::SnapshotPtr snapshot, const ShotOptions& options,
                     const Animation& animation, const FrameSink& sink);

// `shot --json`: every item that was drawn, with its text, value, unit and box.
std::string PrintShotJson(const query::Snapshot& snapshot, const ShotOptions& options,
                          const ui::DrawLog& log);

}  // namespace shardscope::shell
