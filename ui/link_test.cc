#include "ui/link.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

namespace shardscope::ui {
namespace {

using testing::HasSubstr;
using LinkProblem = LinkError::Problem;

Link Parsed(const std::string& text) {
  auto link = ParseLink(text);
  if (const auto* error = std::get_if<LinkError>(&link)) {
    ADD_FAILURE() << text << ": " << LinkErrorText(Language::kEnglish, *error);
    return {};
  }
  return std::get<Link>(link);
}

LinkError ErrorOf(const std::string& text) {
  const auto link = ParseLink(text);
  const auto* error = std::get_if<LinkError>(&link);
  if (error == nullptr) {
    ADD_FAILURE() << "no error: " << text;
    return {};
  }
  return *error;
}

TEST(Link, ReadsEveryPart) {
  const Link link = Parsed("step=30&rank=1&op=AG%20block1&nth=2&t=12.5s..13.1s&scope=5:9");
  EXPECT_EQ(link.step, 30);
  EXPECT_EQ(link.rank, 1);
  EXPECT_EQ(link.op, "AG block1");
  EXPECT_EQ(link.nth, 2);
  ASSERT_TRUE(link.times);
  EXPECT_EQ(link.times->from, (LinkTime{12'500'000'000, false}));
  EXPECT_EQ(link.times->to, (LinkTime{13'100'000'000, false}));
  EXPECT_EQ(link.scope, (analysis::Scope{analysis::ScopeKind::kSteps, 5, 8}));
  const Link other = Parsed("rank=0&step=3..5&work=ncclKernel&at=-1.5us&search=kind:forward");
  EXPECT_EQ(other.last_step, 5);
  EXPECT_EQ(other.at, (LinkTime{-1'500, true}));
  EXPECT_EQ(other.search, "kind:forward");
  EXPECT_EQ(Parsed("step=1&rank=0&op=41").op_index, 41);
  EXPECT_EQ(Parsed("step=1&rank=0&op=%341").op, "41");
  EXPECT_EQ(Parsed("step=1&t=-1ms..+4ms").times->from, (LinkTime{-1'000'000, true}));
}

// Seeded: the same links in every run.
Link AnyLink(std::mt19937* random) {
  const auto number = [&](int most) {
    return static_cast<int32_t>((*random)() % static_cast<uint32_t>(most));
  };
  const auto name = [&] {
    static const std::vector<std::string> kParts = {"AG", " ",  "#",          "%", "&", "=",
                                                    "+",  "..", "块",         "7", "é", "'",
                                                    "\"", "$",  "block1.mlp", "/"};
    std::string text;
    for (int i = number(5) + 1; i > 0; --i) text += kParts[static_cast<size_t>(number(16))];
    return text;
  };
  const auto time = [&](bool may_be_of_step) {
    LinkTime one{static_cast<int64_t>((*random)() % 20'000'000'000ULL), false};
    if (may_be_of_step && number(2) == 0) one = {one.ns - 10'000'000'000, true};
    return one;
  };
  Link link;
  if (number(3) > 0) link.step = number(100);
  if (link.step && number(3) == 0) link.last_step = *link.step + number(5);
  if (number(2) == 0) link.rank = number(512);
  if (link.step && link.rank && number(2) == 0) {
    link.op = name();
    link.nth = 1 + number(3);
  } else if (link.step && link.rank && number(2) == 0) {
    link.op_index = number(900);
  } else if (link.rank && number(2) == 0) {
    link.work = name();
    link.at = time(link.step.has_value());
  }
  if (!link.HasOp() && link.work.empty() && number(2) == 0) {
    link.area = LinkTimes{time(false), {30'000'000'000, false}};
  }
  if (link.area && !link.rank) {
    for (int i = number(6), rank = 0; i > 0; --i) link.ranks.push_back(rank += 1 + number(3));
  }
  if (number(2) == 0) {
    const LinkTime from = time(link.step.has_value());
    link.times = LinkTimes{from, {from.ns + 1 + number(1'000'000), from.of_step}};
  }
  if (number(3) == 0) link.search = name();
  if (number(3) == 0) link.scope = analysis::Scope{.kind = analysis::ScopeKind::kLastSteps};
  return link;
}

TEST(Link, WhatIsPrintedIsReadAsTheSame) {
  std::mt19937 random(18);
  for (int i = 0; i < 2000; ++i) {
    const Link link = AnyLink(&random);
    const std::string text = PrintLink(link);
    if (text.empty()) continue;
    EXPECT_EQ(Parsed(text), link) << text;
    // One word in a shell, and no # that a path could be cut at.
    EXPECT_EQ(text.find_first_of(" #'\"$`\\"), std::string::npos) << text;
  }
}

TEST(Link, RanksOfAnAreaAreShortAndAscending) {
  const Link link = Parsed("ranks=0-3,7,9-10&area=1s..2s");
  EXPECT_EQ(link.ranks, (std::vector<int32_t>{0, 1, 2, 3, 7, 9, 10}));
  EXPECT_EQ(PrintLink(link), "ranks=0-3,7,9-10&area=1s..2s");
  EXPECT_THAT(LinkLabel(Language::kEnglish, link), HasSubstr("ranks 0-3,7,9-10"));
  for (const char* ranks : {"", "x", "3-", "-3", "5-4", "3,3", "4,3", "1,,2", "0-2147483647"}) {
    const LinkError error = ErrorOf(std::string("area=1s..2s&ranks=") + ranks);
    EXPECT_EQ(error.problem, LinkProblem::kNoRanks) << ranks;
    EXPECT_THAT(LinkErrorText(Language::kEnglish, error),
                HasSubstr("give ranks in ascending order, as in ranks=0-3,7"));
  }
  EXPECT_EQ(ErrorOf("ranks=1-2").problem, LinkProblem::kNeedsArea);
  EXPECT_EQ(ErrorOf("rank=1&ranks=1-2&area=1s..2s").problem, LinkProblem::kOpAndWork);
}

TEST(Link, TimesAreShortAndExact) {
  const auto printed = [](int64_t ns, bool of_step) {
    return PrintLink({.step = 1, .times = LinkTimes{{ns, of_step}, {ns + 1'000'000'000, of_step}}});
  };
  EXPECT_EQ(printed(12'500'000'000, false), "step=1&t=12.5s..13.5s");
  EXPECT_EQ(printed(1'234'567, true), "step=1&t=+1.234567ms..+1.001234567s");
  EXPECT_EQ(printed(-3'000, true), "step=1&t=-3us..+999.997ms");
  EXPECT_EQ(printed(0, false), "step=1&t=0ns..1s");
}

TEST(Link, SaysWhichPartIsWrongAndWhatMayStandThere) {
  const auto sentence = [](const std::string& text) {
    return LinkErrorText(Language::kEnglish, ErrorOf(text));
  };
  EXPECT_THAT(sentence("color=red"),
              HasSubstr("color=red: a link has no such part; there are step="));
  EXPECT_THAT(sentence("setp=3"), HasSubstr("Did you mean step?"));
  EXPECT_THAT(sentence("step=3&step=4"), HasSubstr("step=4: there is step= already"));
  EXPECT_THAT(sentence("step=x"), HasSubstr("step=x: give a number"));
  EXPECT_THAT(sentence("step=-1"), HasSubstr("step=-1: give a number"));
  EXPECT_THAT(sentence("step=99999999999"), HasSubstr("give a number"));
  EXPECT_THAT(sentence("step=5..3"), HasSubstr("as in step=28..31"));
  EXPECT_THAT(sentence("rank=1&step=1&op=%zz"), HasSubstr("op=%zz: give a text in UTF-8"));
  EXPECT_THAT(sentence("rank=1&step=1&op=%0A"), HasSubstr("give a text in UTF-8"));
  EXPECT_THAT(sentence("t=5"), HasSubstr("t=5: give two times"));
  EXPECT_THAT(sentence("t=5s..4s"), HasSubstr("the later one last"));
  EXPECT_THAT(sentence("t=5..6"), HasSubstr("give two times"));
  EXPECT_THAT(sentence("scope=always"), HasSubstr("scope=always: give since-change"));
  EXPECT_THAT(sentence("op=F%20head"), HasSubstr("op is of a step"));
  EXPECT_THAT(sentence("step=1&op=F%20head"), HasSubstr("op is of a rank"));
  EXPECT_THAT(sentence("t=+1ms..+2ms"), HasSubstr("t is of a step"));
  EXPECT_THAT(sentence(""), HasSubstr("Nothing stands behind the #"));
  EXPECT_EQ(ErrorOf("nth=2&step=1").problem, LinkProblem::kNeedsOp);
  EXPECT_EQ(ErrorOf("rank=0&work=k").problem, LinkProblem::kNeedsAt);
  EXPECT_EQ(ErrorOf("at=1s").problem, LinkProblem::kNeedsWork);
  EXPECT_EQ(ErrorOf("rank=0&step=1&op=1&area=1s..2s").problem, LinkProblem::kOpAndWork);
  EXPECT_EQ(ErrorOf("area=+1s..+2s").problem, LinkProblem::kNeedsStep);
  EXPECT_EQ(ErrorOf("rank=0&step=1&op=1&work=k&at=1s").problem, LinkProblem::kOpAndWork);
}

TEST(Link, HostileTextIsAnErrorWithoutControlCharacters) {
  EXPECT_EQ(ErrorOf(std::string(5000, 'a')).problem, LinkProblem::kTooLong);
  std::mt19937 random(7);
  for (int i = 0; i < 3000; ++i) {
    std::string text = i % 2 == 0 ? "step=1&t=" : "";
    for (uint32_t left = random() % 40; left > 0; --left) {
      text += static_cast<char>(random() % 256);
    }
    const auto link = ParseLink(text);
    const auto* error = std::get_if<LinkError>(&link);
    if (error == nullptr) continue;
    const std::string sentence = LinkErrorText(Language::kEnglish, *error);
    EXPECT_FALSE(sentence.empty());
    EXPECT_EQ(sentence.find_first_of(std::string("\x1b\n\r\0", 4)), std::string::npos);
  }
}

class LinkedRunTest : public testing::Test {
 protected:
  LinkedRunTest() : folder_(testing::TempDir() + "/linked_run") {
    std::filesystem::create_directories(folder_ + "/a#b");
    std::filesystem::create_directories(folder_ + "/run#step=3");
    std::filesystem::create_directories(folder_ + "/run");
  }
  ~LinkedRunTest() override { std::filesystem::remove_all(folder_); }

  LinkedRun Parse(const std::string& text) const {
    const auto run = ParseLinkedRun(folder_ + "/" + text);
    if (const auto* parsed = std::get_if<LinkedRun>(&run)) return *parsed;
    ADD_FAILURE() << text;
    return {};
  }

  std::string folder_;
};

TEST_F(LinkedRunTest, APathMayHaveAHash) {
  EXPECT_EQ(Parse("a#b").path, folder_ + "/a#b");
  EXPECT_FALSE(Parse("a#b").link);
  EXPECT_EQ(Parse("a#b#step=1").path, folder_ + "/a#b");
  EXPECT_EQ(Parse("a#b#step=1").link->step, 1);
  // A file that exists wins.
  EXPECT_EQ(Parse("run#step=3").path, folder_ + "/run#step=3");
  EXPECT_FALSE(Parse("run#step=3").link);
  EXPECT_EQ(Parse("run#step=4").path, folder_ + "/run");
  EXPECT_EQ(Parse("run#search=a#b").link->search, "a#b");
  // Of what does not exist, what opens it says so.
  EXPECT_EQ(Parse("gone#step=4").path, folder_ + "/gone");
  const auto of_open_run = ParseLinkedRun("#step=4");
  EXPECT_EQ(std::get<LinkedRun>(of_open_run).path, "");
  EXPECT_TRUE(std::holds_alternative<LinkError>(ParseLinkedRun(folder_ + "/run#color=1")));
}

}  // namespace
}  // namespace shardscope::ui
