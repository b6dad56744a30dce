#include "app/commands.h"

#include <gmock/gmock.h>

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

#include "app/folder_of_now.h"

namespace shardscope::app {
namespace {

using testing::HasSubstr;

TEST(FolderOfNow, IsNamedByTheTime) {
  EXPECT_THAT(FolderOfNow("record-"), testing::MatchesRegex("runs/record-[0-9]+-[0-9]+"));
  EXPECT_THAT(FolderOfNow(""), testing::MatchesRegex("runs/[0-9]+-[0-9]+"));
}

struct Refusal {
  std::string text;
  int code = 0;
};

Refusal Refuse(const std::string& arguments) {
  int exit_code = 0;
  CLI::App app("", "shardscope");
  app.require_subcommand(0, 1);
  AddPlanCommand(app, &exit_code);
  const std::vector<std::string> nothing;
  AddRecordCommand(app, &nothing, &exit_code);
  AddReportCommand(app, &exit_code);
  try {
    app.parse(arguments);
  } catch (const CLI::ParseError& error) {
    return {ParseErrorText(app, error), ParseErrorCode(app)};
  }
  return {};
}

TEST(CommandLine, AnUnknownCommandIsNamedWithTheNearestOne) {
  EXPECT_EQ(Refuse("repot x").text,
            "shardscope: there is no command 'repot'; did you mean report?");
  EXPECT_EQ(Refuse("frobnicate").text,
            "shardscope: there is no command 'frobnicate'; there are plan, record, report "
            "(see shardscope --help)");
  EXPECT_EQ(Refuse("frobnicate").code, 1);
}

TEST(CommandLine, ARunInPlaceOfACommandIsToldHowToOpenIt) {
  const std::string folder = testing::TempDir();
  EXPECT_THAT(Refuse(folder).text, HasSubstr("for a run it is: shardscope open " + folder));
}

TEST(CommandLine, ErrorsOfASubcommandNameIt) {
  EXPECT_EQ(Refuse("report").text,
            "shardscope report: run is required (see shardscope report --help)");
  EXPECT_THAT(Refuse("report x --jsn").text, HasSubstr("--jsn (see shardscope report --help)"));
  EXPECT_THAT(Refuse("--jsn").text, HasSubstr("--jsn (see shardscope --help)"));
  EXPECT_EQ(Refuse("report x --json=maybe").text,
            "shardscope report: --json = maybe: it takes no such value (see shardscope report "
            "--help)");
}

TEST(CommandLine, RecordsOwnRefusalsAreNotTakenForTheProgramsCode) {
  EXPECT_EQ(Refuse("record").code, kRecordFailed);
  EXPECT_EQ(Refuse("record --durration").code, kRecordFailed);
  EXPECT_EQ(Refuse("report").code, 1);
}

TEST(CommandLine, WhatIsRecordedIsNotRead) {
  int exit_code = 0;
  const std::vector<std::string> nothing;
  CLI::App app("", "shardscope");
  AddRecordCommand(app, &nothing, &exit_code);
  const auto split = [&app](std::vector<const char*> words) {
    words.insert(words.begin(), "shardscope");
    return SplitRecordedCommand(app, static_cast<int>(words.size()), words.data());
  };
  using Words = std::vector<std::string>;
  EXPECT_EQ(split({"record", "-o", "--", "--", "[1,2]", "", "--", "-o"}).command,
            (Words{"[1,2]", "", "--", "-o"}));
  EXPECT_EQ(split({"record", "--duration", "3s", "python3", "-c", "-o"}).argc, 4);
  EXPECT_EQ(split({"record", "--duration=3s", "python3", "-c"}).command, (Words{"python3", "-c"}));
  EXPECT_EQ(split({"record", "--output", "a", "-ob", "sh", "-o"}).argc, 5);
  EXPECT_EQ(split({"record", "-h", "sh"}).argc, 3);  // takes no value
  EXPECT_EQ(split({"record", "-o"}).argc, 3);
  EXPECT_TRUE(split({"record", "-o"}).command.empty());
  EXPECT_TRUE(split({"record", "--"}).command.empty());
  EXPECT_EQ(split({"report", "--", "x"}).argc, 4);
}

}  // namespace
}  // namespace shardscope::app
