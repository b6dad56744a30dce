#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "engine/config/config.h"
#include "tests/places.h"

namespace shardscope::config {
namespace {

using testing::HasSubstr;

class Toml : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "toml_test_XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string File(const std::string& text) {
    const std::string path = folder_ + "/run.toml";
    std::ofstream(path) << text;
    return path;
  }
  Config Load(const std::string& text) {
    auto config = LoadToml(File(text));
    EXPECT_TRUE(config.ok()) << config.message();
    return config.ok() ? *config : Config();
  }
  std::string ErrorOf(const std::string& text) { return LoadToml(File(text)).message(); }

  std::string folder_;
};

void ExpectSame(const Config& a, const Config& b) {
  EXPECT_EQ(a.Values(), b.Values());
  EXPECT_EQ(a.changes(), b.changes());
  for (const KeyInfo& key : AllKeys())
    EXPECT_EQ(a.IsExplicit(key.name), b.IsExplicit(key.name)) << key.name;
}

TEST_F(Toml, KeysMayBeNestedInAnyWay) {
  const std::string expected = Load("model.layers = 3\nmodel.dim = 64").Get("model.layers");
  EXPECT_EQ(expected, "3");
  EXPECT_EQ(Load("[model]\nlayers = 3").Get("model.layers"), "3");
  EXPECT_EQ(Load("\"model.layers\" = 3").Get("model.layers"), "3");
  EXPECT_EQ(Load("model = { layers = \"3\" }").Get("model.layers"), "3");
}

TEST_F(Toml, WhatIsWrittenIsReadBackTheSame) {
  ExpectSame(Load(PrintToml(Config())), Config());

  Config config;
  for (const char* setting : {"preset=fsdp1", "prefetch.limit=2", "link.bandwidth=auto:0.25",
                              "train.lr=0.00001", "data.path=a \"quoted\" \\ path \xe4\xb8\xad",
                              "run.name=x", "record.steps=1:2", "unit.root=true", "train.steps=90"})
    ASSERT_TRUE(ApplySetting(setting, &config).ok()) << setting;
  config.SetControlSocket("/run/user/0/a.sock");
  config.AddChange({.share = "1/3", .set = {{"prefetch.forward", "1"}, {"train.lr", "0.5"}}});
  config.AddChange({.step = 7, .set = {{"link.bandwidth", "2GB/s"}}});
  ExpectSame(Load(PrintToml(config)), config);
}

// XDG_RUNTIME_DIR may be any.
TEST_F(Toml, ASocketsPathMayHaveAnyCharacter) {
  Config config;
  config.SetControlSocket("/run/a\nb\t\x7f \"c\" \\.sock");
  const std::string path = File(PrintToml(config));
  const auto again = LoadToml(path);
  ASSERT_TRUE(again.ok()) << again.message();
  ExpectSame(*again, config);
  EXPECT_EQ(*ReadControlSocket(path), config.Get("run.control_socket"));
}

TEST_F(Toml, EveryKeyIsWrittenWithItsHelp) {
  const std::string text = PrintToml(Config());
  for (const KeyInfo& key : AllKeys()) EXPECT_THAT(text, HasSubstr("# " + key.help + "\n"));
}

TEST_F(Toml, DefaultsOfAWrittenFileStayDefaults) {
  Config config = Load(PrintToml(Config()));
  ASSERT_TRUE(config.Set("preset", "fsdp1").ok());
  EXPECT_EQ(config.Get("prefetch.limit"), "2");
}

TEST_F(Toml, AValueEditedInAWrittenFileCountsAsSet) {
  std::string text = PrintToml(Config());
  const std::string line = "\nlimit = 0\n";
  ASSERT_NE(text.find(line), std::string::npos);
  text.replace(text.find(line), line.size(), "\nlimit = 3\n");
  Config config = Load(text);
  EXPECT_TRUE(config.IsExplicit("prefetch.limit"));
  EXPECT_EQ(config.Get("prefetch.limit"), "3");
  EXPECT_FALSE(config.IsExplicit("prefetch.forward"));
}

TEST_F(Toml, ChangesHaveAStepOrAShare) {
  const Config config = Load(
      "train.steps = 60\n[[change]]\nstep = 40\nset = { prefetch.forward = 2 }\n"
      "[[change]]\nstep = \"1/3\"\nset = { \"prefetch.backward\" = \"none\", train.lr = 1.0 }\n");
  ASSERT_EQ(config.changes().size(), 2U);
  EXPECT_EQ(config.changes()[0].step, 20);
  EXPECT_EQ(config.changes()[0].set,
            (std::map<std::string, std::string>{{"prefetch.backward", "none"}, {"train.lr", "1"}}));
  EXPECT_EQ(config.changes()[1].step, 40);
}

TEST_F(Toml, ErrorsNameFileLineAndKey) {
  const std::vector<std::vector<std::string>> cases = {
      {"[train]\nsteps = 10\nstep = 3", "run.toml:3: unknown key train.step", "train.steps?"},
      {"\nrun.ranks = 0", "run.toml:2: run.ranks=0", "from 1 to 64"},
      {"run.ranks = [1, 2]", "run.toml:1: run.ranks", "whole number"},
      {"run.ranks = 1979-05-27", "run.toml:1: run.ranks", "whole number"},
      {"run.ranks = 1.5", "run.toml:1: run.ranks=1.5", "whole number"},
      {"train.lr = nan", "run.toml:1: train.lr=nan", "number"},
      {"run = 3", "run.toml:1: unknown key run", ""},
      {"nothing = [3]", "run.toml:1: nothing", "one text"},
      {"a = = 3", "run.toml:1: ", ""},
      {"\n\n[model", "run.toml:3: ", ""},
      {"run.ranks = 1\nrun.ranks = 2", "run.toml:2: ", ""},
      {"change = 3", "run.toml:1: change", "[[change]]"},
      {"change = [3]", "run.toml:1: change", "[[change]]"},
      {"[[change]]\nset = { train.lr = 1 }", "run.toml:1: ", "needs step"},
      {"[[change]]\nstep = -1\nset = { train.lr = 1 }", "run.toml:2: ", "from 0"},
      {"[[change]]\nstep = \"3/2\"\nset = { train.lr = 1 }", "run.toml:2: ", "share"},
      {"[[change]]\nstep = \"1/0\"\nset = { train.lr = 1 }", "run.toml:2: ", "share"},
      {"[[change]]\nstep = \"half\"\nset = { train.lr = 1 }", "run.toml:2: ", "share"},
      {"[[change]]\nstep = 1", "run.toml:1: ", "needs set"},
      {"[[change]]\nstep = 1\nset = { train.lrr = 1 }", "run.toml:3: ", "train.lr?"},
      {"[[change]]\nstep = 1\nset = { train.lr = 99 }", "run.toml:3: train.lr=99", "to 10"},
      {"[[change]]\nstep = 1\nset = { run.ranks = 2 }", "run.toml:3: run.ranks", "cannot change"},
      {"[[change]]\nstep = 1\nwhen = 2\nset = { train.lr = 1 }", "run.toml:3: ", "when"},
      {"chosen = [3]", "run.toml:1: chosen", "list of keys"},
  };
  for (const auto& bad : cases) {
    const std::string error = ErrorOf(bad[0]);
    EXPECT_THAT(error, HasSubstr(bad[1])) << bad[0];
    EXPECT_THAT(error, HasSubstr(bad[2])) << bad[0];
    EXPECT_EQ(error.find('\n'), std::string::npos) << error;
  }
}

TEST_F(Toml, FilesThatAreNoneAreRefused) {
  EXPECT_THAT(LoadToml(folder_ + "/missing.toml").message(), HasSubstr("missing.toml"));
  EXPECT_THAT(LoadToml(folder_).message(), HasSubstr("is a folder"));
  EXPECT_THAT(ErrorOf(std::string((1 << 20) + 1, '#')), HasSubstr("larger than 1.05 MB"));
  EXPECT_FALSE(ErrorOf(std::string("a = \"\0\xff\"", 9)).empty());
  EXPECT_FALSE(ErrorOf("a = " + std::string(100000, '[')).empty());
}

TEST_F(Toml, AnErrorLeavesTheConfigAsItWas) {
  Config config;
  ASSERT_TRUE(config.Set("train.steps", "7").ok());
  const auto before = config.Values();
  EXPECT_FALSE(ApplyToml(File("model.layers = 2\nmodel.dim = 1"), &config).ok());
  EXPECT_EQ(config.Values(), before);
}

TEST_F(Toml, TheControlSocketIsFoundEvenInAFileOfAnotherVersion) {
  const auto socket =
      ReadControlSocket(File("future.key = 1\n[run]\ncontrol_socket = \"/tmp/a.sock\""));
  ASSERT_TRUE(socket.ok()) << socket.message();
  EXPECT_EQ(*socket, "/tmp/a.sock");
  EXPECT_THAT(ReadControlSocket(File("run.ranks = 1")).message(), HasSubstr("no control socket"));
}

TEST(Presets, EachLoadsAndPassesItsChecks) {
  int num_presets = 0;
  for (const auto& file : std::filesystem::directory_iterator(SourceDir() + "/assets/presets")) {
    ASSERT_EQ(file.path().extension(), ".toml");
    const auto config = LoadToml(file.path());
    ASSERT_TRUE(config.ok()) << config.message();
    EXPECT_TRUE(config->Check().ok()) << file.path() << ": " << config->Check().message();
    ++num_presets;
  }
  EXPECT_GE(num_presets, 8);
}

TEST(Presets, TheLessonTurnsPrefetchOnAfterAThird) {
  const auto lesson = LoadToml(SourceDir() + "/assets/presets/prefetch_lesson.toml");
  ASSERT_TRUE(lesson.ok()) << lesson.message();
  EXPECT_EQ(lesson->Get("link.bandwidth"), "auto:0.6");
  EXPECT_EQ(lesson->Get("transport"), "emulated");
  EXPECT_EQ(lesson->Get("prefetch.backward"), "none");
  EXPECT_EQ(lesson->Get("prefetch.forward"), "0");
  ASSERT_EQ(lesson->changes().size(), 1U);
  EXPECT_EQ(lesson->changes()[0].step, lesson->GetInt("train.steps") / 3);
  EXPECT_EQ(lesson->changes()[0].set,
            (std::map<std::string, std::string>{{"prefetch.backward", "pre"},
                                                {"prefetch.forward", "1"}}));
}

// Found by scripts/fuzz: toml++ has undefined behaviour there.
TEST_F(Toml, LettersBeyondAsciiStandInQuotes) {
  for (const char* text :
       {"\xC3\xA9 = 1\n", "a = 1 \xD1\x8C\n", "a = \"\" \xD1\x8C\n", "a = '''x''''\xD1\x8C\n"}) {
    EXPECT_THAT(ErrorOf(text), HasSubstr(":1: a letter beyond ASCII stands outside quotes"))
        << text;
  }
  EXPECT_THAT(ErrorOf("# \xC3\xA9\n\xC3\xA9 = 1\n"), HasSubstr(":2: a letter beyond ASCII"));
  const Config config = Load(
      "\xEF\xBB\xBF# \xE4\xB8\xAD\xE6\x96\x87 \"\n"
      "[data]\npath = \"/tmp/\xE4\xB8\xAD\xE6\x96\x87 \\\" #\"  # \xC3\xA9\n");
  EXPECT_EQ(config.Get("data.path"), "/tmp/\xE4\xB8\xAD\xE6\x96\x87 \" #");
}

// Found by scripts/fuzz: an assertion of toml++ failed.
TEST_F(Toml, HeadersThatAreNone) {
  for (const char* text : {"[/", "[train]\nsteps = 9\n[/s\"\n", "[[,]]\n"}) {
    EXPECT_NE(ErrorOf(text), "") << text;
  }
  EXPECT_THAT(ErrorOf("[/"), HasSubstr("is no TOML"));
}

// What a trace has of a run's keys makes the same configuration again.
TEST(ConfigOfValues, IsTheSameConfiguration) {
  for (const std::map<std::string, std::string>& keys :
       std::vector<std::map<std::string, std::string>>{
           {},
           {{"preset", "fsdp1"}, {"run.ranks", "4"}},
           {{"strategy", "pipeline"}, {"run.ranks", "4"}, {"pipeline.schedule", "interleaved"}},
           {{"strategy", "hybrid"}, {"run.ranks", "8"}, {"mesh.replicate", "4"}},
           {{"strategy", "ddp"}, {"link.bandwidth", "1GB/s"}, {"train.steps", "7"}},
           {{"precision.param", "bf16"}, {"checkpointing", "full"}, {"prefetch.limit", "3"}}}) {
    Config config;
    ASSERT_TRUE(config.SetAll(keys).ok());
    auto values = config.Values();
    values["a.key.of.another.version"] = "1";
    const Config again = Config::OfValues(values);
    EXPECT_EQ(again.Values(), config.Values());
    EXPECT_EQ(again.Check().message(), config.Check().message());
    EXPECT_FALSE(again.IsExplicit("model.dim"));
  }
}

}  // namespace
}  // namespace shardscope::config
