#include "trace/base/words.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string_view>
#include <vector>

namespace shardscope::words {
namespace {

TEST(Words, AreReadBackAsTheyAreWritten) {
  const std::vector<std::string_view> flights = {"scheduled", "started", "completed"};
  for (const std::string_view text : flights) {
    ASSERT_TRUE(ParseFlightState(text)) << text;
    EXPECT_EQ(Name(*ParseFlightState(text)), text);
  }
  const std::vector<std::string_view> allocations = {"freed", "in use", "held"};
  for (const std::string_view text : allocations) {
    ASSERT_TRUE(ParseAllocationState(text)) << text;
    EXPECT_EQ(Name(*ParseAllocationState(text)), text);
  }
  EXPECT_EQ(Name(AllocationState::kInUse), "in use");
  for (const std::string_view text : {"", "Started", "in_use", "started "}) {
    EXPECT_FALSE(ParseFlightState(text)) << text;
    EXPECT_FALSE(ParseAllocationState(text)) << text;
  }
}

// Of several entries that are one collective counts the one that has come farthest.
TEST(Words, StatesOfFlightsAreInTheirOrder) {
  EXPECT_EQ(std::max({FlightState::kStarted, FlightState::kScheduled}), FlightState::kStarted);
  EXPECT_EQ(std::max({FlightState::kCompleted, FlightState::kStarted}), FlightState::kCompleted);
}

}  // namespace
}  // namespace shardscope::words
