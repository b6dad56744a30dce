#include "engine/config/control.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "engine/config/config.h"

namespace shardscope::config {
namespace {

using testing::HasSubstr;

TEST(Messages, HelloRoundTrips) {
  EXPECT_EQ(PrintHello("lesson"), "{\"run\":\"lesson\",\"shardscope\":1}\n");
  EXPECT_EQ(*ParseHello(PrintHello("a \"b\" \n c")), "a \"b\" \n c");
  EXPECT_THAT(ParseHello("{\"shardscope\":2,\"run\":\"a\"}").message(), HasSubstr("version 2"));
  for (const char* line : {"", "{}", "[]", "HTTP/1.1 400", "{\"shardscope\":\"1\",\"run\":\"a\"}"})
    EXPECT_FALSE(ParseHello(line).ok()) << line;
}

TEST(Messages, RequestsRoundTrip) {
  const auto set = ParseRequest(PrintRequest(
      {.id = 5, .body = SetRequest{{{"prefetch.backward", "none"}, {"train.lr", "0.1"}}}}));
  ASSERT_TRUE(set.ok()) << set.message();
  EXPECT_EQ(set->id, 5);
  EXPECT_EQ(
      std::get<SetRequest>(set->body).values,
      (std::map<std::string, std::string>{{"prefetch.backward", "none"}, {"train.lr", "0.1"}}));
  for (const Action action :
       {Action::kPause, Action::kResume, Action::kStep, Action::kStop, Action::kCheckpoint}) {
    const auto request = ParseRequest(PrintRequest({.id = -3, .body = DoRequest{action}}));
    ASSERT_TRUE(request.ok()) << request.message();
    EXPECT_EQ(request->id, -3);
    EXPECT_EQ(std::get<DoRequest>(request->body).action, action);
  }
  const auto get = ParseRequest(PrintRequest({.id = 1, .body = GetRequest{"status"}}));
  ASSERT_TRUE(get.ok()) << get.message();
  EXPECT_EQ(std::get<GetRequest>(get->body).what, "status");
}

TEST(Messages, ValuesMayBeTextsNumbersOrBooleans) {
  const auto request = ParseRequest(
      R"({"id":1,"set":{"a":"x","b":2,"c":-1,"d":0.003,"e":true,"f":1.0,"g":9007199254740993}})");
  ASSERT_TRUE(request.ok()) << request.message();
  EXPECT_EQ(std::get<SetRequest>(request->body).values,
            (std::map<std::string, std::string>{{"a", "x"},
                                                {"b", "2"},
                                                {"c", "-1"},
                                                {"d", "0.003"},
                                                {"e", "true"},
                                                {"f", "1"},
                                                {"g", "9007199254740993"}}));
}

TEST(Messages, ResponsesRoundTrip) {
  Response response{.id = 7, .ok = true, .applies_at = 12, .has_status = true};
  response.status = {.run = "r",
                     .state = RunState::kPaused,
                     .step = 3,
                     .steps = 100,
                     .values = {{"train.lr", "0.003"}},
                     .pending = {{"train.lr", "0.1"}},
                     .pending_step = 4};
  const auto read = ParseResponse(PrintResponse(response));
  ASSERT_TRUE(read.ok()) << read.message();
  EXPECT_EQ(PrintResponse(*read), PrintResponse(response));
  EXPECT_EQ(read->applies_at, 12);
  EXPECT_EQ(read->status.state, RunState::kPaused);
  EXPECT_EQ(read->status.pending, response.status.pending);
  EXPECT_EQ(read->status.pending_step, 4);
  EXPECT_EQ(PrintResponse({.id = 1, .ok = true, .applies_at = 9}),
            "{\"applies_at\":9,\"id\":1,\"ok\":true}\n");
  EXPECT_EQ(PrintResponse({.id = 1, .ok = false, .error = "no"}),
            "{\"error\":\"no\",\"id\":1,\"ok\":false}\n");
  EXPECT_FALSE(ParseResponse("{\"id\":1}").ok());
  EXPECT_FALSE(ParseResponse("{\"id\":1,\"ok\":true,\"status\":3}").ok());
}

TEST(Messages, StatesAreWordsAndThoseOfOtherVersionsAreNone) {
  const auto state_of = [](const std::string& state) {
    return ParseResponse("{\"id\":1,\"ok\":true,\"status\":{" + state +
                         "\"values\":{},\"pending\":{}}}");
  };
  const std::vector<std::pair<std::string, RunState>> states = {{"starting", RunState::kStarting},
                                                                {"training", RunState::kTraining},
                                                                {"paused", RunState::kPaused},
                                                                {"stopping", RunState::kStopping},
                                                                {"finished", RunState::kFinished}};
  for (const auto& [text, state] : states) {
    const auto read = state_of("\"state\":\"" + text + "\",");
    ASSERT_TRUE(read.ok()) << read.message();
    EXPECT_EQ(read->status.state, state) << text;
    EXPECT_THAT(PrintResponse(*read), HasSubstr("\"state\":\"" + text + "\""));
  }
  for (const char* state : {"", "\"state\":\"\",", "\"state\":\"warming up\",", "\"state\":3,"}) {
    const auto read = state_of(state);
    ASSERT_TRUE(read.ok()) << state << read.message();
    EXPECT_EQ(read->status.state, std::nullopt) << state;
    EXPECT_THAT(PrintResponse(*read), HasSubstr("\"state\":\"\""));
  }
}

TEST(Messages, BadRequestsSayWhatIsWrong) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "JSON object"},
      {"[1]", "JSON object"},
      {"{\"id\":1,", "JSON object"},
      {"\xff\xfe\x00", "JSON object"},
      {"{\"do\":\"stop\"}", "needs \"id\""},
      {"{\"id\":\"1\",\"do\":\"stop\"}", "needs \"id\""},
      {"{\"id\":1.5,\"do\":\"stop\"}", "needs \"id\""},
      {"{\"id\":18446744073709551615,\"do\":\"stop\"}", "needs \"id\""},
      {"{\"id\":1}", "one of"},
      {"{\"id\":1,\"d\":\"stop\"}", "one of"},
      {"{\"id\":1,\"do\":\"stop\",\"get\":\"status\"}", "one of"},
      {"{\"id\":1,\"do\":\"explode\"}", "pause, resume, step, stop, checkpoint"},
      {"{\"id\":1,\"do\":1}", "pause, resume"},
      {"{\"id\":1,\"get\":\"weather\"}", "status"},
      {"{\"id\":1,\"set\":[]}", "object"},
      {"{\"id\":1,\"set\":{}}", "no key"},
      {"{\"id\":1,\"set\":{\"a\":null}}", "the value of a"},
      {"{\"id\":1,\"set\":{\"a\":{\"b\":1}}}", "the value of a"},
      {"{\"id\":1,\"set\":{\"a\":\"x\\ny\"}}", "the value of a"},
      {"{\"id\":1,\"set\":{\"a\":\"" + std::string(10000, 'x') + "\"}}", "the value of a"},
      {std::string(kMaxLineBytes + 1, ' '), "JSON object"},
      {std::string(500000, '['), "JSON object"},
  };
  for (const auto& [line, fragment] : cases) {
    const auto request = ParseRequest(line);
    ASSERT_FALSE(request.ok()) << line.substr(0, 100);
    EXPECT_THAT(request.message(), HasSubstr(fragment)) << line.substr(0, 100);
  }
  EXPECT_EQ(IdOf("{\"id\":4,\"do\":\"explode\"}"), 4);
  EXPECT_EQ(IdOf("garbage"), -1);
}

TEST(Messages, ASetOfTooManyKeysIsRefused) {
  SetRequest set;
  for (int i = 0; i < 300; ++i) set.values["key" + std::to_string(i)] = "1";
  EXPECT_THAT(ParseRequest(PrintRequest({.id = 1, .body = set})).message(), HasSubstr("at most"));
}

// Mutated requests: whatever still parses prints and parses to the same again.
TEST(Messages, MutationsNeverBreakTheParser) {
  std::mt19937 random(1);
  const std::string seed = PrintRequest({.id = 5, .body = SetRequest{{{"train.lr", "0.1"}}}});
  int num_parsed = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string line = seed;
    for (uint32_t change = random() % 3; change < 3; ++change)
      line[random() % line.size()] = static_cast<char>(random() % 256);
    line.resize(random() % 4 == 0 ? random() % line.size() : line.size());
    const auto request = ParseRequest(line);
    if (!request.ok()) continue;
    ++num_parsed;
    const auto again = ParseRequest(PrintRequest(*request));
    ASSERT_TRUE(again.ok()) << line;
    EXPECT_EQ(PrintRequest(*again), PrintRequest(*request));
  }
  EXPECT_GT(num_parsed, 100);
}

}  // namespace
}  // namespace shardscope::config
