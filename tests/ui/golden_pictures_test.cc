// The main views in both languages and themes, beside the pictures of tests/ui/golden. Those are a
// quarter as wide and high: what fonts and drivers make of single pixels is not compared, what
// stands where in which colour is.
//
// After a change that is meant to be seen, look at what it made and keep it:
//   SHARDSCOPE_GOLDEN=tests/ui/golden build/release/tests/ui_golden_test
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/lesson/lesson_snapshot.h"
#include "tests/places.h"
#include "trace/analysis/scope.h"
#include "trace/base/time.h"
#include "trace/query/live_trace.h"
#include "trace/query/trace_test_util.h"
#include "ui/shell/shot.h"

// stb's code is third-party: its warnings are not ours.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wold-style-cast"
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wsign-compare"
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wuseless-cast"
#pragma GCC diagnostic ignored "-Wduplicated-branches"
#define STB_IMAGE_IMPLEMENTATION
#define STB_IMAGE_STATIC
#define STBI_ONLY_PNG
#include <stb/stb_image.h>
#pragma GCC diagnostic pop

namespace shardscope::shell {
namespace {

constexpr int kShrink = 4;
constexpr int kLevels = 0xF0;               // of a channel of 0 to 255, for smaller files
constexpr int kMostDifference = 24;         // of such channels: one level may differ
constexpr double kMostPixelsShare = 0.002;  // that may differ by more

query::SnapshotPtr GoldenRun() {
  static const query::SnapshotPtr kRun = analysis::MakeLessonSnapshot(4, 24, 12);
  return kRun;
}

constexpr int64_t kBlocksStartNs = 100 * kNsPerMs;
constexpr int64_t kBlocksOpNs = 10 * kNsPerMs;
constexpr int64_t kBlocksBytes = 400'000;  // of a unit's parameters
constexpr const char* kBlocksUnits[] = {"block0", "block1", "block2"};

// One step of one rank: units are gathered, computed and given back one after another, their
// activations stay.
void WriteRunOfBlocks(const std::string& folder) {
  const auto recorder = query::OpenRecorder(folder);
  recorder->Add(schema::RankRow{});
  schema::TrackRow track;
  track.name = track.role = "compute";
  const query::TrackId track_id = recorder->Add(track);
  const auto change = [&](int64_t at_ns, int64_t bytes, const char* category, const char* unit,
                          query::PlanOpId op) {
    schema::MemoryEventRow row;
    row.device = "cpu";
    row.issued_ns = row.executed_ns = at_ns;
    row.bytes = bytes;
    row.category = category;
    row.unit = unit;
    row.plan_op = op;
    row.step = op.is_none() ? -1 : 0;
    recorder->Record(row);
  };
  const auto run = [&](const char* unit, const char* kind, const char* category, int64_t at_ns) {
    schema::PlanOpRow op;
    op.name = fmt::format("F m0 {} {}", unit, kind);
    op.kind = kind;
    op.category = category;
    op.unit = unit;
    const query::PlanOpId id = recorder->Add(op);
    record::OpRecord done = query::OpAt(id, 0, 0, at_ns, at_ns + kBlocksOpNs);
    done.run.track = track_id;
    recorder->Record(done);
    return id;
  };
  for (const char* unit : kBlocksUnits) {
    change(kBlocksStartNs, kBlocksBytes / 4, "parameter_shard", unit, query::PlanOpId::None());
    change(kBlocksStartNs, kBlocksBytes / 2, "optimizer", unit, query::PlanOpId::None());
  }
  int64_t at_ns = kBlocksStartNs;
  for (const char* unit : kBlocksUnits) {
    const query::PlanOpId gathered = run(unit, "copy_out", "copy", at_ns);
    change(at_ns, kBlocksBytes, "unsharded_parameter", unit, gathered);
    at_ns += kBlocksOpNs;
    const query::PlanOpId forward = run(unit, "forward", "compute", at_ns);
    change(at_ns, 2 * kBlocksBytes, "activation", unit, forward);
    at_ns += kBlocksOpNs;
    change(at_ns, -kBlocksBytes, "unsharded_parameter", unit, forward);
  }
  schema::StepRow step;
  step.start_ns = kBlocksStartNs;
  step.end_ns = at_ns;
  recorder->Record(step);
  SHARDSCOPE_CHECK(recorder->Finish().ok());
}

// On disk: who allocated a block is read from there, a Snapshot does not have it.
query::SnapshotPtr RunOfBlocks() {
  static const query::TestFolder kFolder;
  static const query::SnapshotPtr kRun = [] {
    WriteRunOfBlocks(kFolder.path());
    Result<query::SnapshotPtr> run = query::ReadSnapshot(kFolder.path());
    SHARDSCOPE_CHECK(run.ok());
    return std::move(run).value();
  }();
  return kRun;
}

// Two ranges of the golden run's steps, before and after the change.
ui::CompareWith TwoRanges() {
  return {"", analysis::ParseSteps("2:8").value(), analysis::ParseSteps("14:20").value()};
}

struct GoldenView {
  const char* name;
  const char* panel;  // in front; empty: the timeline
  void (*prepare)(ShotOptions*);
  query::SnapshotPtr (*run)() = GoldenRun;
};

// A panel's tab, a way to look at the timeline, or both.
const std::vector<GoldenView>& Views() {
  static const std::vector<GoldenView> kViews = {
      {"timeline", "", [](ShotOptions*) {}},
      {"ranks", "ranks", [](ShotOptions*) {}},
      {"collectives", "collectives", [](ShotOptions*) {}},
      {"advice", "advice", [](ShotOptions*) {}},
      {"plan", "", [](ShotOptions* options) { options->plan = true; }},
      {"path", "", [](ShotOptions* options) { options->critical_path = true; }},
      {"lens", "", [](ShotOptions* options) { options->at = "step=13+2ms"; }},
      {"search", "", [](ShotOptions* options) { options->search = "kind:all_gather exposed"; }},
      {"runs", "runs", [](ShotOptions*) {}},
      {"steps", "steps", [](ShotOptions*) {}},
      {"compare", "compare", [](ShotOptions* options) { options->compare = TwoRanges(); }},
      {"schedule", "schedule", [](ShotOptions*) {}},
      {"blocks", "blocks", [](ShotOptions*) {}, RunOfBlocks},
      {"lesson", "lessons",
       [](ShotOptions* options) { options->commands.push_back(ui::ShowLesson{"prefetch"}); }},
  };
  return kViews;
}

// Each pixel the mean of kShrink x kShrink.
Image Shrunk(const Image& image) {
  Image small{.width = image.width / kShrink, .height = image.height / kShrink};
  small.rgba.resize(static_cast<size_t>(small.width) * static_cast<size_t>(small.height) * 4);
  const auto width = static_cast<size_t>(image.width);
  for (size_t i = 0; i < small.rgba.size(); ++i) {
    const size_t channel = i % 4;
    const size_t x = i / 4 % static_cast<size_t>(small.width) * kShrink;
    const size_t y = i / 4 / static_cast<size_t>(small.width) * kShrink;
    int sum = 0;
    for (size_t dy = 0; dy < kShrink; ++dy) {
      for (size_t dx = 0; dx < kShrink; ++dx) {
        sum += image.rgba[((y + dy) * width + x + dx) * 4 + channel];
      }
    }
    small.rgba[i] = static_cast<uint8_t>(sum / (kShrink * kShrink) & kLevels);
  }
  return small;
}

std::optional<Image> ReadPng(const std::string& path) {
  Image image;
  int channels = 0;
  stbi_uc* pixels = stbi_load(path.c_str(), &image.width, &image.height, &channels, 4);
  if (pixels == nullptr) return std::nullopt;
  const size_t size = static_cast<size_t>(image.width) * static_cast<size_t>(image.height) * 4;
  image.rgba.assign(pixels, pixels + size);
  stbi_image_free(pixels);
  return image;
}

// How many of the pixels are not the same in both; all, where the sizes differ.
double DifferentShare(const Image& a, const Image& b) {
  if (a.width != b.width || a.height != b.height) return 1;
  size_t different = 0;
  for (size_t i = 0; i < a.rgba.size(); i += 4) {
    bool differs = false;
    for (size_t at = i; at < i + 4; ++at) {
      differs = differs || std::abs(int{a.rgba[at]} - int{b.rgba[at]}) > kMostDifference;
    }
    different += static_cast<size_t>(differs);
  }
  return static_cast<double>(different * 4) / static_cast<double>(a.rgba.size());
}

struct Look {
  const char* name;
  ui::Language language;
  ui::ThemeName theme;
};
constexpr Look kLooks[] = {{"en-dark", ui::Language::kEnglish, ui::ThemeName::kDark},
                           {"en-light", ui::Language::kEnglish, ui::ThemeName::kLight},
                           {"zh-dark", ui::Language::kChinese, ui::ThemeName::kDark},
                           {"zh-light", ui::Language::kChinese, ui::ThemeName::kLight}};

Result<Image> Take(const GoldenView& view, const Look& look) {
  ShotOptions options;
  options.language = look.language;
  options.theme = look.theme;
  options.panel = view.panel;
  view.prepare(&options);
  const auto shot = TakeShot(view.run(), options);
  if (!shot.ok()) return shot.status();
  return Shrunk(shot->image);
}

class GoldenPictures : public testing::TestWithParam<size_t> {};

TEST_P(GoldenPictures, AreAsTheyWere) {
  const GoldenView& view = Views()[GetParam()];
  for (const Look& look : kLooks) {
    const auto image = Take(view, look);
    if (!image.ok() && image.message().find("EGL") != std::string::npos) {
      GTEST_SKIP() << image.message();
    }
    ASSERT_TRUE(image.ok()) << image.message();
    const std::string name = fmt::format("{}-{}.png", view.name, look.name);
    const char* folder = std::getenv("SHARDSCOPE_GOLDEN");
    if (folder != nullptr) {
      const Status status = WritePng(*image, std::string(folder) + "/" + name);
      ASSERT_TRUE(status.ok()) << status.message();
    }
    const std::optional<Image> golden = ReadPng(SourceDir() + "/tests/ui/golden/" + name);
    ASSERT_TRUE(golden.has_value()) << name;
    EXPECT_LE(DifferentShare(*image, *golden), kMostPixelsShare) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Views, GoldenPictures, testing::Range(size_t{0}, Views().size()),
                         [](const testing::TestParamInfo<size_t>& view) {
                           return std::string(Views()[view.param].name);
                         });

TEST(GoldenFiles, NoTwoAreAlike) {
  std::vector<Image> all;
  for (const GoldenView& view : Views()) {
    for (const Look& look : kLooks) {
      const std::string name = fmt::format("{}-{}.png", view.name, look.name);
      const std::optional<Image> golden = ReadPng(SourceDir() + "/tests/ui/golden/" + name);
      ASSERT_TRUE(golden.has_value()) << name;
      for (const Image& other : all) {
        EXPECT_GT(DifferentShare(*golden, other), kMostPixelsShare) << name;
      }
      all.push_back(*golden);
    }
  }
}

}  // namespace
}  // namespace shardscope::shell
