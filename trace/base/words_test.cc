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

TEST(Words, OfMarkersAndSourcesAreThoseOfTraces) {
  const auto is_same = [](const auto& parse, const std::vector<std::string_view>& texts) {
    size_t at = 0;
    for (const std::string_view text : texts) {
      const auto value = parse(text);
      ASSERT_TRUE(value) << text;
      EXPECT_EQ(static_cast<size_t>(*value), at++) << text;
      EXPECT_EQ(Name(*value), text);
    }
    for (const std::string_view text : {"", "changed", "Error", "on ", "others"}) {
      EXPECT_FALSE(parse(text)) << text;
    }
  };
  is_same(&ParseMarkerKind,
          {"change", "pause", "resume", "checkpoint", "stop", "skip", "error", "note"});
  is_same(&ParseCapabilityStatus, {"on", "off", "partial"});
  is_same(&ParseGpuClockMethod, {"cupti", "events"});
  is_same(&ParsePathKind, {"compute", "optimizer", "transfer", "copy", "host", "slot", "wait"});
  is_same(&ParseMemorySegmentKind, {"device", "managed", "pinned", "pageable", "other"});
  EXPECT_EQ(Name(MarkerKind::kSkip), "skip");
  EXPECT_EQ(Name(CapabilityStatus::kPartial), "partial");
  EXPECT_EQ(Name(GpuClockMethod::kEvents), "events");
}

TEST(Words, OfCategoriesSayWhichPartOfAStepTheyCountTo) {
  EXPECT_EQ(TraitsOf(Category::kCompute).share, OpShare::kCompute);
  EXPECT_EQ(TraitsOf(Category::kOptimizer).share, OpShare::kCompute);
  EXPECT_EQ(TraitsOf(Category::kCommunication).share, OpShare::kCommunication);
  EXPECT_EQ(TraitsOf(Category::kCopy).share, OpShare::kCopy);
  EXPECT_EQ(TraitsOf(Category::kHost).share, OpShare::kNone);
  EXPECT_EQ(TraitsOf(SpanCategory::kWait).share, OpShare::kNone);
  for (const Category category : {Category::kCompute, Category::kOptimizer,
                                  Category::kCommunication, Category::kCopy, Category::kHost}) {
    const auto of_span = ParseSpanCategory(Name(category));
    ASSERT_TRUE(of_span) << Name(category);
    EXPECT_EQ(TraitsOf(*of_span).share, TraitsOf(category).share) << Name(category);
  }
}

// Of several entries that are one collective counts the one that has come farthest.
TEST(Words, StatesOfFlightsAreInTheirOrder) {
  EXPECT_EQ(std::max({FlightState::kStarted, FlightState::kScheduled}), FlightState::kStarted);
  EXPECT_EQ(std::max({FlightState::kCompleted, FlightState::kStarted}), FlightState::kCompleted);
}

}  // namespace
}  // namespace shardscope::words
