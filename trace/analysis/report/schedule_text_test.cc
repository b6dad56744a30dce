#include "trace/analysis/report/schedule_text.h"

#include <gmock/gmock.h>

namespace shardscope::analysis {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(ScheduleText, NamesTheParametersOfAUnit) {
  constexpr std::string_view kText =
      "schedule 1 \"ddp\" ranks=2\n"
      "unit 0 \"bucket0\"\n"
      "  parameter \"head.weight\" shape=256,64\n"
      "  parameter \"head.norm.weight\" shape=64\n"
      "unit 1 \"bucket1\" root=1\n"
      "  parameter \"embedding.weight\" shape=256,64\n"
      "segment 0 \"bucket2\" unit=1\n"
      "program 0\n";
  EXPECT_THAT(ParametersOf(kText, "bucket0"), ElementsAre("head.weight", "head.norm.weight"));
  EXPECT_THAT(ParametersOf(kText, "bucket1"), ElementsAre("embedding.weight"));
  EXPECT_THAT(ParametersOf(kText, "bucket2"), IsEmpty());
  EXPECT_THAT(ParametersOf("", "bucket0"), IsEmpty());
}

TEST(ScheduleText, SaysWhichProgramARankRuns) {
  EXPECT_THAT(ProgramsOfRanks("program 0\nprogram 1\nrank_programs ranks=0,0,1,1\n"),
              ElementsAre(0, 0, 1, 1));
  for (const char* damaged :
       {"", "program 0\n", "rank_programs ranks=\n", "rank_programs ranks=0,x\n"})
    EXPECT_THAT(ProgramsOfRanks(damaged), IsEmpty()) << damaged;
}

}  // namespace
}  // namespace shardscope::analysis
