#include "ui/schedule_sheet.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "engine/config/config.h"
#include "engine/footprint/footprint.h"
#include "engine/plan/text.h"
#include "tests/lesson/lesson_snapshot.h"

namespace shardscope::ui {
namespace {

using testing::HasSubstr;

std::shared_ptr<const std::string> TextOfKeys(const std::map<std::string, std::string>& keys) {
  config::Config config;
  EXPECT_TRUE(config.SetAll(keys).ok());
  return std::make_shared<const std::string>(
      plan::PrintSchedule(footprint::FootprintOf(config)->schedule));
}

TEST(ScheduleSheet, HasWhatEachOpWaitsForAndWhatWaitsForIt) {
  const ScheduleSheet sheet = ReadSheet(TextOfKeys({{"run.ranks", "2"}}));
  ASSERT_EQ(sheet.error, "");
  ASSERT_FALSE(sheet.refusal.has_value());
  ASSERT_EQ(sheet.links.size(), sheet.schedule.programs.size());
  const plan::Program& program = sheet.schedule.programs[0];
  const ScheduleSheet::Links& links = sheet.links[0];
  EXPECT_EQ(links.before, plan::AllPredecessors(program));
  size_t forwards = 0;
  for (size_t op = 0; op < program.ops.size(); ++op) {
    for (const plan::OpIndex before : links.before[op]) {
      const auto& after = links.after[static_cast<size_t>(before)];
      EXPECT_NE(std::ranges::find(after, static_cast<plan::OpIndex>(op)), after.end());
    }
    forwards += links.after[op].size();
  }
  size_t backs = 0;
  for (const auto& before : links.before) backs += before.size();
  EXPECT_EQ(forwards, backs);
  EXPECT_GT(backs, program.ops.size() / 2);
}

TEST(ScheduleSheet, SaysWhyATextIsRefused) {
  const auto text = TextOfKeys({{"run.ranks", "2"}});
  EXPECT_THAT(ReadSheet(std::make_shared<const std::string>("schedule 1")).error,
              HasSubstr("line 1"));
  // The line itself is said, whichever it is.
  const std::string with_nonsense = *text + "nonsense of mine";
  EXPECT_THAT(ReadSheet(std::make_shared<const std::string>(with_nonsense)).error,
              HasSubstr("(nonsense of mine)"));
  // Without what a forward waits for, it may read what is not gathered yet.
  std::string changed = *text;
  const size_t wait = changed.find(" wait=event:");
  ASSERT_NE(wait, std::string::npos);
  changed.erase(wait, changed.find_first_of(" \n", wait + 1) - wait);
  const ScheduleSheet sheet = ReadSheet(std::make_shared<const std::string>(changed));
  EXPECT_EQ(sheet.error, "");
  ASSERT_TRUE(sheet.refusal.has_value());
  EXPECT_NE(sheet.refusal->message, "");
  EXPECT_FALSE(sheet.links.empty());  // its grid can be shown
  // An index that names nothing: there is no grid.
  const size_t unit = text->find(" unit=", text->find("\n  op "));
  changed = *text;
  changed.replace(unit, std::string_view(" unit=").size(), " unit=99");
  const ScheduleSheet wrong = ReadSheet(std::make_shared<const std::string>(changed));
  ASSERT_TRUE(wrong.refusal.has_value());
  EXPECT_EQ(wrong.refusal->kind, plan::RefusalKind::kStructure);
  EXPECT_TRUE(wrong.links.empty());
}

// A run of several processes has each Schedule once a file.
TEST(ScheduleSheet, ChoicesAreOncePerNameAndText) {
  query::Snapshot snapshot;
  const auto add = [&snapshot](int64_t id, const char* name, const char* text) {
    const query::ScheduleId row(id);
    snapshot.schedules[row] = {row, name, text, {}, {}};
    return row;
  };
  const query::ScheduleId first = add(0, "full", "ops a");
  const query::ScheduleId changed = add(1, "full", "ops b");
  add(2, "full", "");  // without a text there is nothing to show
  const query::ScheduleId again = add(10, "full", "ops a");
  const query::ScheduleId renamed = add(11, "zero1", "ops b");
  const std::vector<ScheduleChoice> choices = ScheduleChoices(snapshot);
  ASSERT_EQ(choices.size(), 3u);
  EXPECT_EQ(choices[0].name, "full");
  EXPECT_EQ(choices[0].ids, (std::vector{first, again}));
  EXPECT_EQ(choices[1].ids, std::vector{changed});
  EXPECT_EQ(choices[2].name, "zero1");
  EXPECT_EQ(choices[2].ids, std::vector{renamed});
}

TEST(ScheduleSheet, RanksOfAProgramAreRanges) {
  plan::Schedule schedule;
  schedule.program_of_rank = {0, 0, 0, 1, 0, 1, 1};
  EXPECT_EQ(RanksOfProgram(schedule, 0), "0 - 2, 4");
  EXPECT_EQ(RanksOfProgram(schedule, 1), "3, 5 - 6");
  EXPECT_EQ(RanksOfProgram(schedule, 2), "");
}

TEST(ScheduleSheet, ARunWithoutATextHasNone) {
  Context context;
  context.snapshot = std::make_shared<const query::Snapshot>();
  EXPECT_EQ(ScheduleInFocus(context), std::nullopt);
}

// Its ops are inferred, which the place of the text says.
TEST(ScheduleSheet, AnImportedRunHasNone) {
  query::Snapshot snapshot;
  const query::ScheduleId inferred(1);
  snapshot.schedules[inferred] = {inferred, "inferred from kineto", "# Inferred\n", {}, {}};
  Context context;
  context.snapshot = std::make_shared<const query::Snapshot>(snapshot);
  EXPECT_EQ(ScheduleInFocus(context), inferred);
  EXPECT_EQ(ScheduleChoices(*context.snapshot).size(), 1u);
  snapshot.meta["imported"] = "kineto";
  context.snapshot = std::make_shared<const query::Snapshot>(snapshot);
  EXPECT_EQ(ScheduleInFocus(context), std::nullopt);
  EXPECT_TRUE(ScheduleChoices(*context.snapshot).empty());
}

}  // namespace
}  // namespace shardscope::ui
