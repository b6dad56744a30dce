#include "ui/panels/runs/new_run_form.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>

namespace shardscope::panels {
namespace {

using testing::HasSubstr;

TEST(NewRunForm, StartsValidAndSendsOnlyWhatDiffers) {
  NewRunForm form;
  EXPECT_TRUE(form.valid());
  form.SetValue("train.steps", "200");
  form.SetValue("run.ranks", form.Value("run.ranks"));
  EXPECT_TRUE(form.valid());
  const ui::StartRun start = form.ToCommand("runs/x");
  EXPECT_EQ(start.values, (std::map<std::string, std::string>{{"train.steps", "200"}}));
  form.ResetValue("train.steps");
  EXPECT_EQ(form.num_changed(), 0u);
}

TEST(NewRunForm, SaysWhatIsWrongWithAKeyAndBetweenKeys) {
  NewRunForm form;
  form.SetValue("train.steps", "many");
  EXPECT_FALSE(form.valid());
  EXPECT_THAT(form.KeyError("train.steps"), HasSubstr("train.steps"));
  EXPECT_EQ(form.KeyError("run.ranks"), "");
  form.ResetValue("train.steps");
  form.SetValue("model.dim", "130");
  form.SetValue("model.heads", "4");
  EXPECT_EQ(form.KeyError("model.dim"), "");
  EXPECT_THAT(form.rule_error(), HasSubstr("heads"));
  EXPECT_FALSE(form.valid());
}

TEST(NewRunForm, PresetIsTheStartingPoint) {
  const std::string path = testing::TempDir() + "/preset_test.toml";
  std::ofstream(path) << "train.steps = 77\n";
  NewRunForm form;
  form.SetPreset(path);
  EXPECT_EQ(form.base_error(), "");
  EXPECT_EQ(form.Value("train.steps"), "77");
  EXPECT_EQ(form.num_changed(), 0u);
  EXPECT_EQ(form.ToCommand("x").preset_file, path);
  form.SetPreset("/nowhere.toml");
  EXPECT_NE(form.base_error(), "");
  EXPECT_FALSE(form.valid());
  std::remove(path.c_str());
}

std::vector<std::string> NamesOf(const std::vector<const config::KeyInfo*>& keys) {
  std::vector<std::string> names;
  for (const config::KeyInfo* key : keys) names.push_back(key->name);
  return names;
}

TEST(NewRunForm, WhatWasChangedIsShownWhateverIsSearchedFor) {
  NewRunForm form;
  form.SetValue("train.steps", "many");
  form.SetValue("run.ranks", "2");
  const auto shown = NamesOf(form.KeysToShow(ui::Language::kEnglish, "bandwidth", false));
  EXPECT_THAT(shown, testing::IsSupersetOf({"link.bandwidth", "train.steps", "run.ranks"}));
  EXPECT_THAT(shown, testing::Not(testing::Contains("model.dim")));
  EXPECT_NE(shown.front(), "run.ranks");  // what was searched for comes first
  EXPECT_THAT(NamesOf(form.KeysToShow(ui::Language::kEnglish, "", true)),
              testing::ElementsAre("run.ranks", "train.steps"));
  EXPECT_EQ(form.ChangesText(), "run.ranks  4 → 2\ntrain.steps  100 → many");
}

TEST(NewRunForm, SearchFindsKeysByNameAndHelpInEitherLanguage) {
  const auto names = [](const std::vector<const config::KeyInfo*>& keys) {
    std::vector<std::string> list;
    for (const config::KeyInfo* key : keys) list.push_back(key->name);
    return list;
  };
  EXPECT_THAT(names(MatchingKeys(ui::Language::kEnglish, "BANDWIDTH")),
              testing::Contains("link.bandwidth"));
  EXPECT_THAT(names(MatchingKeys(ui::Language::kChinese, "带宽")),
              testing::Contains("link.bandwidth"));
  EXPECT_TRUE(MatchingKeys(ui::Language::kEnglish, "no such thing").empty());
  EXPECT_THAT(names(MatchingKeys(ui::Language::kEnglish, "")),
              testing::Not(testing::Contains("run.control_socket")));
}

}  // namespace
}  // namespace shardscope::panels
