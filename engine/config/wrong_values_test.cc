// Every key with every kind of wrong value, by every way in: one error of one line that names the
// key and what it accepts, and nothing has changed. Made from the table of keys, so that a new key
// is tested without a line here.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "engine/config/config.h"
#include "engine/config/faults.h"

namespace shardscope::config {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// Wrong for a key of this type, whatever its range.
std::vector<std::string> WrongFor(const KeyInfo& key) {
  const std::string invalid = "\xc3\x28";
  if (key.type == KeyType::kString && key.name != "record.steps" && key.name != "unit.policy" &&
      key.name != "checkpointing" && !IsFaultKey(key.name)) {
    return {invalid, "two\nlines", std::string("nul\0", 4), std::string(100000, 'x'), "\x1b[31m"};
  }
  std::vector<std::string> wrong = {
      "nonsense", "nan",  "inf", "-1e400", "1e400", "99999999999999999999999",
      "0x10",     "1,5",  "1 2", "\u4e8c", "true1", std::string(100000, '9'),
      invalid,    "a\nb", "--",  "[1]",    "{}",    "-99999"};
  if (!IsFaultKey(key.name)) wrong.push_back("");
  if (key.type != KeyType::kBool) wrong.push_back("true");
  return wrong;
}

std::string OneLine(const std::string& message) {
  return message.find('\n') == std::string::npos ? message : "more than one line";
}

class EveryKey : public testing::TestWithParam<KeyInfo> {};

TEST_P(EveryKey, RefusesWrongValuesOnTheCommandLine) {
  const KeyInfo& key = GetParam();
  for (const std::string& value : WrongFor(key)) {
    Config config;
    const Status status = ApplySetting(key.name + "=" + value, &config);
    ASSERT_FALSE(status.ok()) << key.name << "=" << value.substr(0, 40);
    EXPECT_THAT(OneLine(status.message()), HasSubstr(key.name));
    EXPECT_THAT(status.message(), HasSubstr(key.settable ? "must be " + Allowed(key) : "trainer"));
    EXPECT_LT(status.message().size(), 500U);
    EXPECT_EQ(config.Values(), Config().Values());
  }
}

TEST_P(EveryKey, RefusesWrongValuesWhileTheRunTrains) {
  const KeyInfo& key = GetParam();
  for (const std::string& value : WrongFor(key)) {
    Config config;
    const Status status = ApplyLive({{key.name, value}}, &config);
    ASSERT_FALSE(status.ok()) << key.name << "=" << value.substr(0, 40);
    EXPECT_THAT(OneLine(status.message()), HasSubstr(key.name));
    EXPECT_EQ(config.Values(), Config().Values());
  }
}

TEST_P(EveryKey, RefusesWrongTypesInAFileAndNamesTheLine) {
  const KeyInfo& key = GetParam();
  if (!key.settable) return;
  const std::string path =
      std::filesystem::temp_directory_path() / ("wrong-" + std::to_string(getpid()) + ".toml");
  for (const char* value :
       {"[1, 2]", "{ a = 1 }", "1979-05-27", "[]", "\"\\u0000\"", "\"line\\nline\""}) {
    std::ofstream(path) << "# a comment\n\"" << key.name << "\" = " << value << "\n";
    Config config;
    const Status status = ApplyToml(path, &config);
    ASSERT_FALSE(status.ok()) << key.name << " = " << value;
    EXPECT_THAT(OneLine(status.message()), AllOf(HasSubstr(path + ":2: "), HasSubstr(key.name)))
        << value;
    EXPECT_EQ(config.Values(), Config().Values());
  }
  std::filesystem::remove(path);
}

TEST_P(EveryKey, IsSuggestedForItsMisspelling) {
  const KeyInfo& key = GetParam();
  std::string misspelt = key.name;
  std::swap(misspelt[misspelt.size() - 2], misspelt[misspelt.size() - 3]);
  if (misspelt == key.name) misspelt += "x";
  Config config;
  EXPECT_THAT(ApplySetting(misspelt + "=1", &config).message(),
              HasSubstr("did you mean " + key.name + "?"));
}

TEST_P(EveryKey, TakesItsOwnDefaultAndItsLimits) {
  const KeyInfo& key = GetParam();
  if (!key.settable) return;
  Config config;
  EXPECT_TRUE(config.Set(key.name, key.default_value).ok());
  if (key.type != KeyType::kInt) return;
  EXPECT_TRUE(config.Set(key.name, std::to_string(static_cast<int64_t>(key.minimum))).ok());
  EXPECT_TRUE(config.Set(key.name, std::to_string(static_cast<int64_t>(key.maximum))).ok());
  EXPECT_FALSE(config.Set(key.name, std::to_string(static_cast<int64_t>(key.minimum) - 1)).ok());
  EXPECT_FALSE(config.Set(key.name, std::to_string(static_cast<int64_t>(key.maximum) + 1)).ok());
}

INSTANTIATE_TEST_SUITE_P(Keys, EveryKey, testing::ValuesIn(AllKeys()), [](const auto& key) {
  std::string name = key.param.name;
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
});

}  // namespace
}  // namespace shardscope::config
