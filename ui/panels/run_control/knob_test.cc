#include "ui/panels/run_control/knob.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "ui/key_choices.h"
#include "ui/text.h"

namespace shardscope::panels {
namespace {

constexpr KnobSection kSections[] = {KnobSection::kSharding, KnobSection::kLink,
                                     KnobSection::kTraining};

const Knob* FindKnob(std::string_view key) {
  for (const KnobSection section : kSections) {
    for (const Knob& knob : KnobsOf(section)) {
      if (knob.key->name == key) return &knob;
    }
  }
  return nullptr;
}

std::vector<std::string> NamesIn(KnobSection section) {
  std::vector<std::string> names;
  for (const Knob& knob : KnobsOf(section)) names.push_back(knob.key->name);
  return names;
}

TEST(Knob, EveryLiveKeyIsInOneSection) {
  std::multiset<std::string> shown = {"preset"};  // at the panel's title
  for (const KnobSection section : kSections) {
    for (const Knob& knob : KnobsOf(section)) shown.insert(knob.key->name);
  }
  std::multiset<std::string> live;
  for (const config::KeyInfo& key : config::AllKeys()) {
    if (key.live) live.insert(key.name);
  }
  EXPECT_EQ(shown, live);
}

// Groups of four ranks are no choice of their own, but stand there where they are in force.
TEST(Knob, ANumberBesideOnAndOffIsAmongTheChoices) {
  using testing::ElementsAre;
  const Knob& knob = *FindKnob("reshard_after_forward");
  EXPECT_THAT(knob.values, ElementsAre("true", "2", "false"));
  EXPECT_THAT(ui::ChoicesOf(*knob.key, "false"), ElementsAre("true", "2", "false"));
  EXPECT_THAT(ui::ChoicesOf(*knob.key, "4"), ElementsAre("true", "4", "false"));
  EXPECT_THAT(ui::ChoicesOf(*FindKnob("unit.root")->key, "true"), ElementsAre("true", "false"));
  EXPECT_THAT(ui::ChoicesOf(*FindKnob("prefetch.forward")->key, "4"), testing::IsEmpty());
}

TEST(Knob, SectionsHaveTheKeysOfTheirSubject) {
  using testing::ElementsAre;
  EXPECT_THAT(NamesIn(KnobSection::kSharding),
              ElementsAre("strategy", "mesh.replicate", "mesh.shard", "mesh.pipeline",
                          "mesh.tensor", "tensor.sequence_parallel", "tensor.async",
                          "pipeline.schedule", "pipeline.chunks", "reshard_after_forward",
                          "prefetch.backward", "prefetch.backward_depth", "prefetch.forward",
                          "prefetch.forward_list", "prefetch.backward_list", "prefetch.limit",
                          "host.run_ahead", "unit.policy", "unit.root", "checkpointing", "offload",
                          "ddp.bucket_cap", "zero.reduce_bucket_size", "zero.overlap_comm",
                          "zero.prefetch_bucket_size", "zero.max_live_parameters",
                          "zero.max_reuse_distance", "zero.persistence_threshold"));
  EXPECT_THAT(NamesIn(KnobSection::kLink), testing::Each(testing::StartsWith("link.")));
  EXPECT_THAT(NamesIn(KnobSection::kTraining),
              ElementsAre("schedule.file", "accumulation", "reshard_after_backward",
                          "is_last_backward", "train.lr", "engine.compute_slots", "record.steps",
                          "checkpoint.every", "checkpoint.keep", "fault.delay", "fault.jitter"));
}

// A live key has a label in ui/catalogue/key_help.inc, or is called by its name here.
TEST(Knob, EveryLiveKeyHasALabel) {
  std::set<std::string> unlabelled;
  for (const config::KeyInfo& key : config::AllKeys()) {
    if (key.live && ui::KeyLabel(ui::Language::kEnglish, key.name) == key.name) {
      unlabelled.insert(key.name);
    }
  }
  EXPECT_EQ(unlabelled, (std::set<std::string>{"checkpoint.every", "checkpoint.keep", "preset",
                                               "schedule.file"}));
}

TEST(Knob, SlidersReachWhatIsUseful) {
  const Knob& limit = *FindKnob("prefetch.limit");
  EXPECT_EQ(limit.maximum, 8);
  EXPECT_LT(limit.maximum, limit.key->maximum);
  const Knob& run_ahead = *FindKnob("host.run_ahead");
  EXPECT_EQ(KnobValue(run_ahead, run_ahead.maximum), "-1");
  EXPECT_EQ(KnobValue(run_ahead, run_ahead.maximum - 1), "8");
  EXPECT_EQ(KnobPosition(run_ahead, "-1"), run_ahead.maximum);
  EXPECT_EQ(FindKnob("prefetch.backward")->values.front(), "none");
  const Knob& threshold = *FindKnob("zero.persistence_threshold");
  EXPECT_TRUE(threshold.logarithmic);
  EXPECT_EQ(threshold.maximum, 1e6);
  EXPECT_EQ(ShowValue(ui::Language::kEnglish, threshold, "0"), "off");
  const Knob& bucket = *FindKnob("zero.reduce_bucket_size");
  EXPECT_TRUE(bucket.logarithmic);
  EXPECT_EQ(bucket.minimum, 1e5);
  EXPECT_EQ(bucket.maximum, 1e9);
  EXPECT_EQ(ShowValue(ui::Language::kEnglish, *FindKnob("engine.compute_slots"), "0"), "auto");
}

TEST(Knob, EverySliderPositionIsAValueThatTheKeyTakes) {
  for (const KnobSection section : kSections) {
    for (const Knob& knob : KnobsOf(section)) {
      if (knob.kind != KnobKind::kSlider) continue;
      for (const double share : {0.0, 0.3, 0.5, 0.8, 1.0}) {
        const double position = knob.minimum + share * (knob.maximum - knob.minimum);
        const auto canonical = config::Canonical(*knob.key, KnobValue(knob, position));
        EXPECT_TRUE(canonical.ok()) << knob.key->name << " " << KnobValue(knob, position);
      }
    }
  }
}

TEST(Knob, DefaultsStandOnTheirSliders) {
  for (const KnobSection section : kSections) {
    for (const Knob& knob : KnobsOf(section)) {
      if (knob.kind != KnobKind::kSlider) continue;
      const double position = KnobPosition(knob, knob.key->default_value);
      EXPECT_GE(position, knob.minimum) << knob.key->name;
      EXPECT_LE(position, knob.maximum) << knob.key->name;
      EXPECT_EQ(config::Canonical(*knob.key, KnobValue(knob, position)).value(),
                knob.key->default_value);
    }
  }
}

TEST(Knob, ValuesReadAsPeopleSayThem) {
  using ui::Language;
  EXPECT_EQ(ShowValue(Language::kEnglish, *FindKnob("host.run_ahead"), "-1"), "∞");
  EXPECT_EQ(ShowValue(Language::kEnglish, *FindKnob("prefetch.limit"), "0"), "off");
  EXPECT_EQ(ShowValue(Language::kChinese, *FindKnob("reshard_after_forward"), "true"), "开");
  EXPECT_EQ(ShowValue(Language::kEnglish, *FindKnob("strategy"), "grad_op"), "GRAD_OP");
  EXPECT_EQ(ShowValue(Language::kEnglish, *FindKnob("zero.max_reuse_distance"), "1000000"), "1 M");
  EXPECT_EQ(ShowValue(Language::kEnglish, *FindKnob("zero.prefetch_bucket_size"), "0"), "off");
  EXPECT_EQ(ShowValue(Language::kEnglish, *FindKnob("link.latency"), "50us"), "50 µs");
  EXPECT_EQ(ShowValue(Language::kEnglish, *FindKnob("link.bandwidth"), "1.5GB/s"), "1.5 GB/s");
  EXPECT_EQ(ShowValue(Language::kEnglish, *FindKnob("link.bandwidth"), "2GB/s"), "2 GB/s");
  EXPECT_EQ(ShowChange("500 MB/s", "800 MB/s"), "500 → 800 MB/s");
  EXPECT_EQ(ShowChange("500 MB/s", "1 GB/s"), "500 MB/s → 1 GB/s");
  EXPECT_EQ(FindKnob("model.dim"), nullptr);
}

}  // namespace
}  // namespace shardscope::panels
