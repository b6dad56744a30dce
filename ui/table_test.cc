#include "ui/table.h"

#include <gtest/gtest.h>

#include <cmath>

namespace shardscope::ui {
namespace {

TEST(Table, IsCsvThatOtherProgramsRead) {
  const Table table{{"step", "events"}, {{"0", "a, b"}, {"1", "said \"no\""}, {"2", ""}}};
  EXPECT_EQ(PrintCsv(table), "step,events\r\n0,\"a, b\"\r\n1,\"said \"\"no\"\"\"\r\n2,\r\n");
  EXPECT_EQ(PrintCsv({{"step"}, {}}), "step\r\n");
}

TEST(Table, NumbersKeepTheirDigits) {
  EXPECT_EQ(ExactText(0.1), "0.1");
  EXPECT_EQ(ExactText(123456789012.0), "123456789012");
  EXPECT_EQ(std::stod(ExactText(1.0 / 3)), 1.0 / 3);
  EXPECT_EQ(ExactText(std::nan("")), "");
}

}  // namespace
}  // namespace shardscope::ui
