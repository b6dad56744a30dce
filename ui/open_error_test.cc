#include "ui/open_error.h"

#include <gtest/gtest.h>

namespace shardscope::ui {
namespace {

TEST(OpenError, OfAPathWithoutAnythingIsInTheLanguage) {
  EXPECT_TRUE(IsMissing("/no/such/run"));
  EXPECT_FALSE(IsMissing(testing::TempDir()));
  EXPECT_FALSE(IsMissing(""));
  EXPECT_EQ(OpenErrorText(Language::kEnglish, "/no/such/run", true, "of the reader"),
            "/no/such/run does not exist: give a run folder or a trace file");
  EXPECT_EQ(OpenErrorText(Language::kChinese, "/no/such/run", true, "of the reader"),
            "/no/such/run 不存在：请给出运行文件夹或轨迹文件");
  EXPECT_EQ(OpenErrorText(Language::kChinese, "/tmp", false, "of the reader"), "of the reader");
}

}  // namespace
}  // namespace shardscope::ui
