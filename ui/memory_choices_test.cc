#include "ui/memory_choices.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "engine/config/config.h"
#include "engine/footprint/footprint.h"
#include "trace/analysis/config_at.h"
#include "trace/query/snapshot.h"

namespace shardscope::ui {
namespace {

std::map<std::string, std::string> ValuesOf(const std::map<std::string, std::string>& keys) {
  config::Config config;
  EXPECT_TRUE(config.SetAll(keys).ok());
  return config.Values();
}

int64_t NeededBy(const std::map<std::string, std::string>& keys) {
  config::Config config;
  EXPECT_TRUE(config.SetAll(keys).ok());
  return footprint::FootprintOf(config)->needed_bytes();
}

const MemoryChoice* Find(const MemoryChoices& made, const std::string& key,
                         const std::string& value) {
  for (const MemoryChoice& choice : made.choices) {
    if (choice.settings == std::map<std::string, std::string>{{key, value}}) return &choice;
  }
  return nullptr;
}

TEST(MemoryChoices, AreWhatTheTrainingWouldNeed) {
  const std::map<std::string, std::string> keys = {{"run.ranks", "4"}, {"model.layers", "3"}};
  const MemoryChoices made = MemoryChoicesOf(ValuesOf(keys));
  EXPECT_EQ(made.error, "");
  EXPECT_EQ(made.needed_bytes, NeededBy(keys));
  const MemoryChoice* full = Find(made, "checkpointing", "full");
  ASSERT_NE(full, nullptr);
  EXPECT_EQ(full->effect, footprint::Effect::kNone);
  auto with = keys;
  with["checkpointing"] = "full";
  EXPECT_EQ(full->needed_bytes, NeededBy(with));
  EXPECT_LT(full->needed_bytes, made.needed_bytes);
  // What saves without an effect on the results is on top, by what it saves.
  const auto saves = [&](const MemoryChoice& choice) {
    return choice.needed_bytes < made.needed_bytes;
  };
  EXPECT_EQ(made.choices[0].effect, footprint::Effect::kNone);
  EXPECT_EQ(made.choices[1].effect, footprint::Effect::kNone);
  EXPECT_LE(made.choices[0].needed_bytes, made.choices[1].needed_bytes);
  EXPECT_TRUE(std::is_partitioned(made.choices.begin(), made.choices.end(), saves));
  EXPECT_EQ(EffectText(Language::kEnglish, *full), "same results");
  EXPECT_EQ(EffectText(Language::kChinese, *full), "结果不变");
}

TEST(MemoryChoices, AreOfTheKnobsAsTheyWereTurnedLast) {
  query::Snapshot snapshot;
  snapshot.config = ValuesOf({{"run.ranks", "2"}});
  snapshot.markers = {{10, 5, "change", "checkpointing", "none", "full"}};
  const MemoryChoices made = MemoryChoicesOf(analysis::ConfigAt(snapshot, 5));
  EXPECT_EQ(made.needed_bytes, NeededBy({{"run.ranks", "2"}, {"checkpointing", "full"}}));
}

TEST(MemoryChoices, SayWhyThereAreNone) {
  auto values = ValuesOf({});
  values["model.heads"] = "7";  // does not divide model.dim
  const MemoryChoices made = MemoryChoicesOf(values);
  EXPECT_NE(made.error.find("model.heads"), std::string::npos) << made.error;
  EXPECT_TRUE(made.choices.empty());
}

TEST(MemoryChoices, AreTurnedWhereATrainingAnswersElseShown) {
  const MemoryChoices made = MemoryChoicesOf(ValuesOf({{"run.ranks", "2"}}));
  const MemoryChoice* full = Find(made, "checkpointing", "full");
  ASSERT_NE(full, nullptr);
  ASSERT_TRUE(full->is_live);
  Context context;
  Commands commands = Choose(context, *full);
  ASSERT_EQ(commands.size(), 1u);
  ASSERT_TRUE(std::holds_alternative<ShowKey>(commands[0]));
  EXPECT_EQ(std::get<ShowKey>(commands[0]).key, "checkpointing");
  context.control.connection = ConnectionState::kConnected;
  commands = Choose(context, *full);
  ASSERT_EQ(commands.size(), 1u);
  ASSERT_TRUE(std::holds_alternative<SetKnob>(commands[0]));
  EXPECT_EQ(std::get<SetKnob>(commands[0]).value, "full");
  const MemoryChoice* batch = Find(made, "train.batch", "2");
  ASSERT_NE(batch, nullptr);
  EXPECT_TRUE(std::holds_alternative<ShowKey>(Choose(context, *batch)[0]) == !batch->is_live);
}

}  // namespace
}  // namespace shardscope::ui
