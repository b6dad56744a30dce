#include "engine/model/data.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>

namespace shardscope::model {
namespace {

namespace fs = std::filesystem;

class CorpusTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("corpus-" + std::to_string(getpid()));
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  void Write(const std::string& name, const std::string& text) {
    fs::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name, std::ios::binary) << text;
  }
  fs::path folder_;
};

TEST_F(CorpusTest, TakesUtf8FilesSortedByPathAndSkipsHiddenBuildAndRuns) {
  Write("b.txt", "two");
  Write("a/z.txt", "one\xc3\xa9");
  Write("binary", std::string("\x80\x81", 2));
  Write("zero", std::string("a\0b", 3));
  Write("overlong", "\xc0\xaf");
  Write(".git/config", "hidden");
  Write("build/out.txt", "built");
  Write("runs/x/log.txt", "ran");
  Write("out/run.toml", "[run]");
  Write("out/log.txt", "ran");
  const Result<Corpus> corpus = LoadCorpus(folder_.string());
  ASSERT_TRUE(corpus.ok()) << corpus.message();
  EXPECT_EQ(corpus->bytes, "one\xc3\xa9two");
  EXPECT_EQ(corpus->num_files, 2);
}

TEST_F(CorpusTest, OtherBytesHaveAnotherChecksum) {
  Write("a.txt", "one");
  const Corpus one = *LoadCorpus(folder_.string());
  EXPECT_EQ(one.tokenizer, "bytes");
  EXPECT_EQ(one.content.size(), 16u);
  EXPECT_EQ(LoadCorpus(folder_.string())->content, one.content);
  Write("a.txt", "two");
  EXPECT_NE(LoadCorpus(folder_.string())->content, one.content);
}

TEST_F(CorpusTest, MissingAndEmptyAreErrorsThatNameThePath) {
  const Result<Corpus> missing = LoadCorpus((folder_ / "none").string());
  ASSERT_FALSE(missing.ok());
  EXPECT_NE(missing.message().find("none is not there"), std::string::npos);
  EXPECT_FALSE(LoadCorpus(folder_.string()).ok());
  Write("empty.txt", "");
  EXPECT_FALSE(LoadCorpus((folder_ / "empty.txt").string()).ok());
}

TEST_F(CorpusTest, NeitherPipesNorDevicesAreRead) {
  ASSERT_EQ(mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  for (const std::string& path : {(folder_ / "pipe").string(), std::string("/dev/zero")}) {
    const Result<Corpus> corpus = LoadCorpus(path);
    ASSERT_FALSE(corpus.ok());
    EXPECT_NE(corpus.message().find(path + " is no file"), std::string::npos);
  }
}

TEST_F(CorpusTest, LinksThatLeadNowhereAreLeftOutAndCounted) {
  Write("text", "good");
  fs::create_symlink("second", folder_ / "first");
  fs::create_symlink("first", folder_ / "second");
  fs::create_symlink("nowhere", folder_ / "third");
  fs::create_symlink("text", folder_ / "whole");
  const Result<Corpus> corpus = LoadCorpus(folder_.string());
  ASSERT_TRUE(corpus.ok()) << corpus.message();
  EXPECT_EQ(corpus->bytes, "goodgood");
  EXPECT_EQ(corpus->num_broken_links, 3);
  EXPECT_FALSE(LoadCorpus((folder_ / "first").string()).ok());
}

TEST_F(CorpusTest, BinariesLargerThanMemoryAreNotReadToTheirEnd) {
  Write("text", std::string(3 << 20, 'x') + "\xc3\xa9");  // in several blocks
  Write("sparse", "");
  fs::resize_file(folder_ / "sparse", uintmax_t{1} << 40);
  const Result<Corpus> corpus = LoadCorpus(folder_.string());
  ASSERT_TRUE(corpus.ok()) << corpus.message();
  EXPECT_EQ(corpus->bytes.size(), (3U << 20) + 2);
  EXPECT_EQ(corpus->num_files, 1);
}

TEST(UnigramEntropyTest, OfUniformBytesIsTheLogarithmOfTheirNumber) {
  EXPECT_NEAR(UnigramEntropy("abcdabcd"), std::log(4.0), 1e-12);
  EXPECT_EQ(UnigramEntropy("aaaa"), 0);
}

TEST(SamplerTest, EachSampleAtMostOnceAnEpochAndRanksAreDisjoint) {
  Result<Sampler> sampler =
      Sampler::Make({.num_samples = 47, .num_ranks = 3, .samples_per_step = 4, .seed = 9});
  ASSERT_TRUE(sampler.ok());
  ASSERT_EQ(sampler->steps_per_epoch(), 3);  // 47 / 3 = 15 a rank, 3 steps of 4
  std::vector<std::vector<int64_t>> epochs;
  for (int64_t epoch = 0; epoch < 2; ++epoch) {
    std::vector<int64_t> all;
    for (int64_t step = 3 * epoch; step < 3 * epoch + 3; ++step) {
      for (int rank = 0; rank < 3; ++rank) {
        const auto samples = sampler->Samples(step, rank);
        EXPECT_EQ(samples.size(), 4u);
        all.insert(all.end(), samples.begin(), samples.end());
      }
    }
    const std::set<int64_t> different(all.begin(), all.end());
    EXPECT_EQ(different.size(), 36u);
    EXPECT_GE(*different.begin(), 0);
    EXPECT_LT(*different.rbegin(), 47);
    epochs.push_back(all);
  }
  EXPECT_NE(epochs[0], epochs[1]);  // shuffled anew
}

TEST(SamplerTest, EveryNthEntryOfOneOrderForAllNumbersOfRanks) {
  // One step of one sample: what the ranks take together is the start of the one-rank order.
  Result<Sampler> one =
      Sampler::Make({.num_samples = 40, .num_ranks = 1, .samples_per_step = 8, .seed = 3});
  Result<Sampler> four =
      Sampler::Make({.num_samples = 40, .num_ranks = 4, .samples_per_step = 2, .seed = 3});
  ASSERT_TRUE(one.ok() && four.ok());
  const std::vector<int64_t> order = one->Samples(0, 0);
  for (int rank = 0; rank < 4; ++rank) {
    const std::vector<int64_t> samples = four->Samples(0, rank);
    EXPECT_EQ(samples[0], order[static_cast<size_t>(rank)]);
    EXPECT_EQ(samples[1], order[static_cast<size_t>(4 + rank)]);
  }
}

// Other numbers of takers, now and then: one after the other the entries of one order, each once.
TEST(SamplerTest, TakersThatChangeGoOnBehindWhatIsUsed) {
  constexpr int64_t kSamples = 47;
  const Sampler::Shape shape{
      .num_samples = kSamples, .num_ranks = 4, .samples_per_step = 2, .seed = 5};
  Result<Sampler> sampler = Sampler::Make(shape);
  // A step of it is one entry of the order.
  Result<Sampler> entries = Sampler::Make({.num_samples = kSamples, .seed = shape.seed});
  ASSERT_TRUE(sampler.ok() && entries.ok());
  int64_t epoch = 0;
  int64_t used = 0;
  int64_t step = 0;
  for (const int takers : {4, 1, 3, 2, 4}) {
    for (int i = 0; i < 3; ++i, ++step) {
      sampler->SetTakers(step, takers);  // of each step, also where nothing changes
      const int64_t taken = takers * shape.samples_per_step;
      if (used + taken > kSamples) {
        ++epoch;
        used = 0;
      }
      for (int taker = 0; taker < takers; ++taker) {
        const std::vector<int64_t> samples = sampler->Samples(step, taker);
        for (int64_t row = 0; row < shape.samples_per_step; ++row) {
          const int64_t entry = epoch * kSamples + used + row * takers + taker;
          EXPECT_EQ(samples[static_cast<size_t>(row)], entries->Samples(entry, 0)[0])
              << "step " << step << ", taker " << taker;
        }
      }
      used += taken;
    }
  }
  EXPECT_EQ(epoch, 1);
}

// A change, or none, at any step: as a run that goes on there with the other takers. With the first
// step, too, for which an epoch may have enough left for fewer takers alone.
TEST(SamplerTest, AChangeOfTakersIsAStopAndAStart) {
  const auto expect_same = [](Sampler::Shape shape, int64_t first, int after) {
    Result<Sampler> changed = Sampler::Make(shape);
    ASSERT_TRUE(changed.ok());
    const Sampler::Start start = changed->StartOf(first);
    changed->SetTakers(first, after);
    shape.takers = after;
    shape.start = start;
    Result<Sampler> started = Sampler::Make(shape);
    ASSERT_TRUE(started.ok());
    for (int64_t at = first; at < first + 30; ++at) {
      for (int taker = 0; taker < after; ++taker) {
        ASSERT_EQ(changed->Samples(at, taker), started->Samples(at, taker))
            << after << " takers from step " << first << " on: step " << at;
      }
    }
  };
  for (const int64_t used : {21, 41}) {
    for (const int before : {1, 2, 3, 4}) {
      const Sampler::Shape shape{.num_samples = 47,
                                 .num_ranks = 4,
                                 .takers = before,
                                 .samples_per_step = 2,
                                 .seed = 5,
                                 .start = {.step = 2, .epoch = 1, .used = used}};
      SCOPED_TRACE(std::to_string(before) + " takers, " + std::to_string(used) + " used");
      for (const int after : {1, 2, 3, 4}) {
        for (int64_t step = 0; step < 14; ++step) expect_same(shape, 2 + step, after);
      }
      // Whoever goes on there and stops at once has used nothing.
      EXPECT_EQ(Sampler::Make(shape)->StartOf(2).used, used);
    }
  }
}

TEST(SamplerTest, TooFewSamplesForOneStepIsAnError) {
  const Result<Sampler> sampler =
      Sampler::Make({.num_samples = 7, .num_ranks = 2, .samples_per_step = 4});
  ASSERT_FALSE(sampler.ok());
  EXPECT_NE(sampler.message().find("7 samples"), std::string::npos);
}

TEST(SampleTest, WindowsDoNotOverlap) {
  EXPECT_EQ(NumSamples(10, 3), 2);
  std::vector<int64_t> tokens;
  Corpus corpus;
  corpus.bytes = "abcdefghij";
  AppendSample(corpus, 1, 3, &tokens);
  EXPECT_EQ(tokens, (std::vector<int64_t>{'e', 'f', 'g', 'h'}));
  EXPECT_EQ(CountedTargets(corpus, 1, 3), 3);
}

TEST(SampleTest, TokensThatTheLossLeavesOutAreNegative) {
  const std::vector<uint32_t> ids = {5,  6 | kNotCounted,  7, kNotCounted, 9,
                                     10, 11 | kNotCounted, 12};
  Corpus corpus;
  corpus.tokens = ids;
  corpus.is_masked = true;
  std::vector<int64_t> tokens;
  AppendSample(corpus, 0, 3, &tokens);
  EXPECT_EQ(tokens, (std::vector<int64_t>{5, ~6, 7, ~0}));
  EXPECT_EQ(TokenIdOf(tokens[3]), 0);
  EXPECT_EQ(CountedTargets(corpus, 0, 3), 1);
  EXPECT_EQ(CountedTargets(corpus, 1, 3), 2);  // the first token is no target
}

}  // namespace
}  // namespace shardscope::model
