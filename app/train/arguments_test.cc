// Every key wrong in turn through the command line and through a file, as the program reads them:
// one error of one line that names the key and what it takes. Made from the table of keys, so that
// a new key is tested without a line here. What a program does with such an error (exit code,
// nothing left behind) is tests/wrong_config_test.py.
#include "app/train/arguments.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "engine/config/faults.h"

namespace shardscope::app {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

Result<config::Config> Read(std::vector<const char*> words) {
  words.insert(words.begin(), "shardscope-train");
  const auto arguments = ParseArguments(static_cast<int>(words.size()), words.data());
  if (!arguments.ok()) return arguments.status();
  EXPECT_TRUE(arguments->has_value());
  return ReadSettings(**arguments);
}

// Texts that a key of this type cannot take, each a mistake that people make: a word, a unit that
// is none, a sign too many, a list, nothing at all.
std::vector<std::string> WrongFor(const config::KeyInfo& key) {
  if (key.type == config::KeyType::kString && key.name != "record.steps" &&
      key.name != "unit.policy" && !config::IsFaultKey(key.name)) {
    return {"two\nlines", std::string(100000, 'x')};
  }
  return {"wr\xc3\xb6ng", "12 apples", "--3", "[1,2]", "1e999", "two\nlines"};
}

// `"..."` of TOML.
std::string Quoted(const std::string& text) {
  std::string quoted = "\"";
  for (const char byte : text) quoted += byte == '\n' ? std::string("\\n") : std::string(1, byte);
  return quoted + "\"";
}

class EveryKey : public testing::TestWithParam<config::KeyInfo> {
 protected:
  EveryKey()
      : file_(std::filesystem::temp_directory_path() / fmt::format("arguments-{}.toml", getpid())) {
  }
  ~EveryKey() override { std::filesystem::remove(file_); }

  void ExpectRefused(const Result<config::Config>& read, const std::string& what) const {
    const config::KeyInfo& key = GetParam();
    ASSERT_FALSE(read.ok()) << what.substr(0, 60);
    EXPECT_THAT(read.message(), AllOf(HasSubstr(key.name), Not(HasSubstr("\n"))));
    const std::string remedy = key.settable ? "must be " + config::Allowed(key) : "trainer";
    EXPECT_THAT(read.message(), HasSubstr(remedy)) << what.substr(0, 60);
    EXPECT_LT(read.message().size(), 500U);
  }

  const std::filesystem::path file_;
};

TEST_P(EveryKey, WrongInSet) {
  for (const std::string& value : WrongFor(GetParam())) {
    const std::string setting = GetParam().name + "=" + value;
    ExpectRefused(Read({"--set", "train.steps=3", setting.c_str()}), setting);
  }
}

TEST_P(EveryKey, WrongInAFile) {
  if (!GetParam().settable) return;  // the trainer's own run.toml has it; what it says is not read
  std::vector<std::string> values = {"[1, 2]", "[]", "1979-05-27"};
  for (const std::string& value : WrongFor(GetParam())) values.push_back(Quoted(value));
  const bool takes_a_number =
      GetParam().type == config::KeyType::kInt || GetParam().type == config::KeyType::kFloat;
  if (takes_a_number) values.insert(values.end(), {"true", "-99999999", "1e300", "nan", "inf"});
  for (const std::string& value : values) {
    std::ofstream(file_) << "\n\"" << GetParam().name << "\" = " << value << "\n";
    const Result<config::Config> read = Read({"--config", file_.c_str()});
    ExpectRefused(read, value);
    EXPECT_THAT(read.message(), HasSubstr(file_.string() + ":2: "));
  }
}

TEST_P(EveryKey, WrongInAChangeOfAFile) {
  if (!GetParam().live) return;
  std::ofstream(file_) << "[[change]]\nstep = 1\nset = { \"" << GetParam().name
                       << "\" = \"wrong\\nat all\" }\n";
  ExpectRefused(Read({"--config", file_.c_str()}), "change");
}

INSTANTIATE_TEST_SUITE_P(Keys, EveryKey, testing::ValuesIn(config::AllKeys()), [](const auto& key) {
  std::string name = key.param.name;
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
});

TEST(Arguments, LaterSettingsWinOverEarlierAndOverTheFile) {
  const std::string file =
      std::filesystem::temp_directory_path() / fmt::format("order-{}.toml", getpid());
  std::ofstream(file) << "[train]\nsteps = 5\nbatch = 7\n";
  const auto config = Read({"--set", "train.steps=6", "train.steps=8", "--config", file.c_str(),
                            "--ranks", "3", "--set", "run.ranks=2"});
  std::filesystem::remove(file);
  ASSERT_TRUE(config.ok()) << config.message();
  EXPECT_EQ(config->GetInt("train.steps"), 8);
  EXPECT_EQ(config->GetInt("train.batch"), 7);
  EXPECT_EQ(config->GetInt("run.ranks"), 2);
}

TEST(Arguments, OfRanksAndSetTheLaterOneWins) {
  EXPECT_EQ(Read({"--set", "run.ranks=4", "train.steps=2", "--ranks", "3"})->GetInt("run.ranks"),
            3);
  EXPECT_EQ(Read({"--ranks", "3", "--set", "run.ranks=4"})->GetInt("run.ranks"), 4);
  EXPECT_EQ(
      Read({"--set", "run.ranks=4", "--ranks=3", "--set", "run.ranks=5"})->GetInt("run.ranks"), 5);
}

TEST(Arguments, WhatIsNoOptionIsRefusedWithTheWayToTheHelp) {
  for (const std::vector<const char*>& words : std::initializer_list<std::vector<const char*>>{
           {"--stepz", "3"}, {"train.steps=3"}, {"--out", ""}, {"--out"}, {"--config", ""}}) {
    const auto read = Read(words);
    ASSERT_FALSE(read.ok()) << words.front();
    EXPECT_THAT(read.message(), AllOf(HasSubstr("(see --help)"), Not(HasSubstr("\n"))));
  }
}

}  // namespace
}  // namespace shardscope::app
