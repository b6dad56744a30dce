#include "trace/import/kineto/event.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trace/import/kineto/event_text.h"

namespace shardscope::imports {
namespace {

class EventTest : public testing::Test {
 protected:
  // Valid until the next call.
  const Event& Parsed(const std::string& text) {
    text_ = text + std::string(EventTexts::kPadding, '\0');
    EXPECT_TRUE(parser_.Parse(std::string_view(text_).substr(0, text.size()), &event_)) << text;
    return event_;
  }

  EventParser parser_;

 private:
  std::string text_;
  Event event_;
};

using Values = std::vector<std::pair<std::string_view, double>>;

// "bytes" is an argument of copies, "device" of all work.
TEST_F(EventTest, ValuesOfACounterMayHaveAnyName) {
  const Event& event = Parsed(
      R"({"ph": "C", "name": "heap", "ts": 3, "args": {"bytes": 7, "device": 1, "x": 1.5, "t": "a"}})");
  EXPECT_EQ(event.arguments.values, (Values{{"bytes", 7}, {"device", 1}, {"x", 1.5}}));
  EXPECT_EQ(event.arguments.bytes, -1);
  EXPECT_TRUE(parser_.unknown().empty());
}

// As programs write it that sort names.
TEST_F(EventTest, ArgumentsMayStandInFrontOfThePhase) {
  const Event& counter =
      Parsed(R"({"args": {"a\u0062": 2, "bytes": 7}, "name": "he\u0061p", "ph": "C", "ts": 3})");
  EXPECT_EQ(counter.arguments.values, (Values{{"ab", 2}, {"bytes", 7}}));
  EXPECT_EQ(counter.name, "heap");
  EXPECT_EQ(counter.start_ns, 3000);
  const Event& copy = Parsed(
      R"({"args": {"bytes": 7, "stream": 2, "odd": 1}, "cat": "gpu_memcpy", "name": "Memcpy", "ph": "X"})");
  EXPECT_EQ(copy.arguments.bytes, 7);
  EXPECT_EQ(copy.arguments.stream, 2);
  EXPECT_TRUE(copy.arguments.values.empty());
  EXPECT_EQ(parser_.unknown().size(), 1u);
  EXPECT_TRUE(parser_.unknown().contains("odd"));
}

TEST_F(EventTest, RowsOfOursStandBesideACounter) {
  const Event& event =
      Parsed(R"({"ph": "C", "ts": 3, "args": {"x": 1, "shardscope counter": [[1]]}})");
  EXPECT_EQ(event.arguments.values, (Values{{"x", 1}}));
  ASSERT_EQ(event.arguments.rows.size(), 1u);
  EXPECT_EQ(event.arguments.rows[0].first, "counter");
  EXPECT_EQ(event.arguments.rows[0].second, "[[1]]");
}

}  // namespace
}  // namespace shardscope::imports
