// Checkpoints that are written by several ranks and read in other parts, and every way in which one
// can be broken.
#include "engine/checkpoint/checkpoint.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <sstream>

#include "engine/checkpoint/blocks.h"
#include "engine/checkpoint/folder.h"
#include "engine/checkpoint/safetensors.h"

namespace shardscope::checkpoint {
namespace {

namespace fs = std::filesystem;

std::span<const std::byte> BytesOf(const std::vector<float>& values) {
  return std::as_bytes(std::span(values));
}

class CheckpointTest : public testing::Test {
 protected:
  static constexpr int64_t kRows = 700;
  static constexpr int64_t kColumns = 1000;  // 2.8 MB: three blocks

  void SetUp() override {
    root_ = (fs::temp_directory_path() / ("checkpoint-" + std::to_string(getpid()))).string();
    fs::create_directories(root_ + "/checkpoints");
  }
  void TearDown() override { fs::remove_all(root_); }

  std::string checkpoints() const { return root_ + "/checkpoints"; }

  // A matrix of which element i is i, and a vector. Rank 0 has all columns below 300 and the
  // vector, rank 1 the other columns.
  std::string Write(int64_t step) {
    const std::string partial = PartialFolder(checkpoints(), step);
    fs::create_directories(partial);
    Index index{.step = step, .num_ranks = 2, .tool_version = "1", .run = "a"};
    index.config = {{"model.dim", "24"}};
    index.scalars = {{"scale", 0.1}};
    index.data.used = 7;
    for (int rank = 0; rank < 2; ++rank) Merge(WriteRank(rank, partial), &index);
    EXPECT_TRUE(WriteText(partial + "/index.json", PrintIndex(index)).ok());
    const Status published = Publish(partial, StepFolder(checkpoints(), step));
    EXPECT_TRUE(published.ok()) << published.message();
    return StepFolder(checkpoints(), step);
  }

  Index WriteRank(int rank, const std::string& partial) {
    const int64_t first = rank == 0 ? 0 : 300;
    const int64_t count = rank == 0 ? 300 : kColumns - 300;
    std::vector<float> values;
    Part matrix{.file = 0};
    for (int64_t row = 0; row < kRows; ++row) {
      AppendRun(row * kColumns + first, count, &matrix.runs);
      for (int64_t at = 0; at < count; ++at) {
        values.push_back(static_cast<float>(row * kColumns + first + at));
      }
    }
    EXPECT_EQ(matrix.runs.size(), 1u);
    const std::vector<float> vector = {5, 6, 7};
    std::vector<TensorBytes> tensors = {{{"parameter.m", "F32", {kRows, count}}, BytesOf(values)}};
    if (rank == 0) tensors.push_back({{"exp_avg.v", "F32", {3}}, BytesOf(vector)});
    Index part{.num_ranks = 2};
    std::vector<int64_t> offsets;
    Result<FileEntry> file =
        WriteTensors(partial + "/rank-" + std::to_string(rank) + ".safetensors", tensors, &offsets);
    EXPECT_TRUE(file.ok()) << file.message();
    part.files.push_back(*file);
    matrix.offset = offsets[0];
    part.parameters.push_back({"m", {kRows, kColumns}, {{"parameter", "F32", {matrix}}}});
    if (rank == 0) {
      part.parameters.push_back(
          {"v", {3}, {{"exp_avg", "F32", {{.offset = offsets[1], .runs = {{.count = 3}}}}}}});
    }
    // As it goes from rank to rank.
    Result<Index> read = ParseRankIndex(PrintIndex(part), "rank");
    EXPECT_TRUE(read.ok()) << read.message();
    return *read;
  }

  static std::string Text(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path, std::ios::binary).rdbuf();
    return text.str();
  }
  static void Replace(const std::string& path, const std::string& text) {
    std::ofstream(path, std::ios::binary) << text;
  }

  // The error of opening and reading all.
  static std::string ErrorOf(const std::string& folder) {
    const Result<Checkpoint> checkpoint = Checkpoint::Open(folder);
    if (!checkpoint.ok()) return checkpoint.message();
    for (const FileEntry& file : checkpoint->index().files) {
      const Status status = checkpoint->VerifyFile(file.name);
      if (!status.ok()) return status.message();
    }
    return "";
  }

  std::string root_;
};

TEST_F(CheckpointTest, AnyRangeIsReadWhoeverWroteIt) {
  const Result<Checkpoint> checkpoint = Checkpoint::Open(Write(40));
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.message();
  EXPECT_EQ(checkpoint->index().step, 40);
  EXPECT_EQ(checkpoint->index().scalars.at("scale"), 0.1);
  EXPECT_EQ(checkpoint->index().data.used, 7);
  const ParameterEntry* matrix = checkpoint->index().Find("m");
  ASSERT_NE(matrix, nullptr);
  for (const ElementRun& run :
       {ElementRun{.first = 0, .count = kRows * kColumns}, ElementRun{.first = 299, .count = 2},
        ElementRun{.first = 1300, .count = 1}, ElementRun{.first = 298, .count = 4000},
        ElementRun{.first = 290, .count = 20, .stride = kColumns, .times = kRows},
        ElementRun{.first = kRows * kColumns - 1, .count = 1}}) {
    std::vector<float> values(static_cast<size_t>(run.elements()));
    const Status status = checkpoint->Read(*matrix->Find(kParameter), {&run, 1},
                                           reinterpret_cast<std::byte*>(values.data()));
    ASSERT_TRUE(status.ok()) << status.message();
    size_t next = 0;
    for (int64_t at = 0; at < run.times; ++at) {
      for (int64_t element = 0; element < run.count; ++element) {
        ASSERT_EQ(values[next++], static_cast<float>(run.first + at * run.stride + element));
      }
    }
  }
  const ParameterEntry* vector = checkpoint->index().Find("v");
  const auto all = checkpoint->ReadAll(*vector, "exp_avg");
  ASSERT_TRUE(all.ok());
  EXPECT_EQ(all->size(), 12u);
  EXPECT_NE(checkpoint->ReadAll(*vector).message().find("has no 'parameter' of v"),
            std::string::npos);
  for (const FileEntry& file : checkpoint->index().files) {
    EXPECT_TRUE(checkpoint->VerifyFile(file.name).ok()) << file.name;
  }
}

TEST_F(CheckpointTest, WhatTheDataAreIsKeptAndUnknownOfOlderVersions) {
  Index index{.num_ranks = 1};
  const std::string older = PrintIndex(index);
  EXPECT_EQ(older.find("tokenizer"), std::string::npos);
  EXPECT_EQ(older.find("content"), std::string::npos);
  const Result<Index> unknown = ParseIndex(older, "older");
  ASSERT_TRUE(unknown.ok()) << unknown.message();
  EXPECT_EQ(unknown->data.tokenizer + unknown->data.content, "");
  index.data.tokenizer = "bytes";
  index.data.content = "0123456789abcdef";
  const Result<Index> read = ParseIndex(PrintIndex(index), "newer");
  ASSERT_TRUE(read.ok()) << read.message();
  EXPECT_EQ(read->data.tokenizer, "bytes");
  EXPECT_EQ(read->data.content, "0123456789abcdef");
}

TEST_F(CheckpointTest, OnlyBlocksThatAreReadAreChecked) {
  const std::string folder = Write(1);
  std::string bytes = Text(folder + "/rank-1.safetensors");
  bytes[bytes.size() - 5] ^= 1;
  Replace(folder + "/rank-1.safetensors", bytes);
  const Result<Checkpoint> checkpoint = Checkpoint::Open(folder);
  ASSERT_TRUE(checkpoint.ok());
  const TensorEntry& tensor = *checkpoint->index().Find("m")->Find(kParameter);
  float value = 0;
  const auto out = reinterpret_cast<std::byte*>(&value);
  const ElementRun first{.first = 300, .count = 1};
  EXPECT_TRUE(checkpoint->Read(tensor, {&first, 1}, out).ok());
  EXPECT_EQ(value, 300);
  const ElementRun last{.first = kRows * kColumns - 1, .count = 1};
  const Status damaged = checkpoint->Read(tensor, {&last, 1}, out);
  EXPECT_NE(damaged.message().find("rank-1.safetensors is damaged"), std::string::npos);
}

TEST_F(CheckpointTest, TheNewestWholeOneIsFound) {
  std::vector<std::string> passed;
  EXPECT_NE(FindCheckpoint(root_, &passed).message().find("has no checkpoint"), std::string::npos);
  const std::string old = Write(9);
  const std::string newest = Write(10);
  for (const std::string& path : {root_, root_ + "/", checkpoints(), newest, newest + "/."}) {
    const Result<std::string> found = FindCheckpoint(path, &passed);
    ASSERT_TRUE(found.ok()) << found.message();
    EXPECT_TRUE(fs::equivalent(*found, newest)) << path;
  }
  EXPECT_TRUE(passed.empty());
  fs::create_directories(PartialFolder(checkpoints(), 11));
  fs::resize_file(newest + "/rank-0.safetensors", 1000);
  EXPECT_EQ(*FindCheckpoint(root_, &passed), old);
  ASSERT_EQ(passed.size(), 1u);
  EXPECT_NE(passed[0].find("1000 bytes"), std::string::npos);
  // A file is no checkpoint, whatever its name.
  Replace(checkpoints() + "/step-99", "x");
  passed.clear();
  EXPECT_EQ(*FindCheckpoint(root_, &passed), old);
  EXPECT_EQ(passed.size(), 1u);
  fs::remove(checkpoints() + "/step-99");
  EXPECT_EQ(RemovePartials(checkpoints()), 1);
  EXPECT_EQ(RemovePartials(checkpoints()), 0);
  RemoveCheckpoint(newest);
  RemoveCheckpoint(old);
  EXPECT_TRUE(fs::is_empty(checkpoints()));
}

TEST_F(CheckpointTest, ARunMayBeNamedAsCheckpointsAre) {
  const std::string newest = fs::path(Write(10)).filename().string();
  const std::string run = root_ + "/step-5";
  fs::create_directories(run);
  std::vector<std::string> passed;
  EXPECT_EQ(*FindCheckpoint(run, &passed), run) << "a damaged checkpoint";
  fs::rename(checkpoints(), run + "/checkpoints");
  EXPECT_EQ(*FindCheckpoint(run, &passed), run + "/checkpoints/" + newest);
  EXPECT_TRUE(passed.empty());
}

TEST_F(CheckpointTest, ADamagedOneNamesTheNextThatIsWhole) {
  const std::string old = Write(8);
  const std::string broken = Write(9);
  const std::string newest = Write(10);
  fs::remove(broken + "/rank-1.safetensors");
  for (const char* file : {"rank-0.safetensors", "rank-1.safetensors"}) {
    std::string bytes = Text((newest + "/") + file);
    bytes.back() ^= 1;
    Replace((newest + "/") + file, bytes);
    const Result<Checkpoint> checkpoint = Checkpoint::Open(newest + "/");
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.message();
    EXPECT_NE(checkpoint->VerifyFile(file).message().find("take another checkpoint, as " + old),
              std::string::npos)
        << checkpoint->VerifyFile(file).message();
  }
  EXPECT_TRUE(Checkpoint::Open(newest)->VerifyFile("not there").ok());
  EXPECT_EQ(WholeBeside(old), newest);
  fs::remove_all(old);
  EXPECT_TRUE(ErrorOf(newest).ends_with("take another checkpoint")) << ErrorOf(newest);
}

TEST_F(CheckpointTest, TheLastStepIsThatOfOneThatIsWhole) {
  Write(8);
  fs::remove(Write(9) + "/rank-1.safetensors");
  EXPECT_EQ(LastStepBehind(checkpoints(), 7), 8);
  EXPECT_EQ(LastStepBehind(checkpoints(), 8), std::nullopt);
}

TEST_F(CheckpointTest, OneOfTheSameNameIsReplaced) {
  const std::string before = Text(Write(3) + "/index.json");
  std::ofstream(StepFolder(checkpoints(), 3) + "/stale") << "x";
  EXPECT_EQ(Text(Write(3) + "/index.json"), before);
  EXPECT_FALSE(fs::exists(StepFolder(checkpoints(), 3) + "/stale"));
  EXPECT_EQ(std::distance(fs::directory_iterator(checkpoints()), {}), 1);
}

TEST_F(CheckpointTest, AFolderIsNamedInOneWay) {
  const std::string here = fs::current_path().string();
  for (const char* name : {"x", "x/", "x/.", "./x", "y/../x//"}) {
    EXPECT_EQ(CleanedFolder(name), here + "/x") << name;
  }
  EXPECT_EQ(CleanedFolder("/a/b/"), "/a/b");
}

TEST_F(CheckpointTest, APartialFolderThatIsThereIsNotTakenForANewOne) {
  const std::string partial = root_ + "/a.partial";
  ASSERT_TRUE(CreatePartial(partial, "an import").ok());
  EXPECT_NE(CreatePartial(partial, "an import").message().find("is there already: an import"),
            std::string::npos);
  const std::string message = CreatePartial(partial + "/b/c", "an import").message();
  EXPECT_NE(message.find("cannot create"), std::string::npos) << message;
  EXPECT_TRUE(message.ends_with("; name another folder")) << message;
}

TEST_F(CheckpointTest, EachWayToBeBrokenHasItsError) {
  const auto broken = [this](const std::string& text, const auto& how) {
    const std::string folder = Write(5);
    how(folder);
    const std::string error = ErrorOf(folder);
    EXPECT_NE(error.find(text), std::string::npos) << error;
    fs::remove_all(folder);
  };
  const auto with_index = [](const std::string& from, const std::string& to) {
    return [from, to](const std::string& folder) {
      std::string text = Text(folder + "/index.json");
      ASSERT_NE(text.find(from), std::string::npos);
      text.replace(text.find(from), from.size(), to);
      Replace(folder + "/index.json", text);
    };
  };
  broken("no folder", [](const std::string& folder) { fs::remove_all(folder); });
  broken("has no index.json",
         [](const std::string& folder) { fs::remove(folder + "/index.json"); });
  broken("No such file",
         [](const std::string& folder) { fs::remove(folder + "/rank-1.safetensors"); });
  broken("2 bytes",
         [](const std::string& folder) { Replace(folder + "/rank-1.safetensors", "{}"); });
  broken("is damaged", [](const std::string& folder) {
    fs::resize_file(folder + "/index.json", fs::file_size(folder + "/index.json") / 2);
  });
  broken("is no index", [](const std::string& folder) { Replace(folder + "/index.json", "{}"); });
  broken("is no index", [](const std::string& folder) { Replace(folder + "/index.json", "[1]"); });
  broken("does not say its version", with_index("\"version\": 1,", ""));
  broken("use the newer program", with_index("\"version\": 1", "\"version\": 2"));
  broken("its checksum is another one", with_index("\"step\": 5", "\"step\": 6"));
  EXPECT_NE(ErrorOf(PartialFolder(checkpoints(), 5)).find("not there"), std::string::npos);
  fs::create_directories(PartialFolder(checkpoints(), 5));
  EXPECT_NE(ErrorOf(PartialFolder(checkpoints(), 5)).find("half written"), std::string::npos);
}

// Whoever makes an index with a right checksum may still say anything in it.
TEST_F(CheckpointTest, AnIndexIsBelievedOnlyWhereItFitsTogether) {
  const Result<Checkpoint> checkpoint = Checkpoint::Open(Write(5));
  ASSERT_TRUE(checkpoint.ok());
  const auto error_with = [&](const auto& change) {
    Index index = checkpoint->index();
    change(index);
    return ParseIndex(PrintIndex(index), "x").message();
  };
  const auto part = [](Index& index) -> Part& { return index.parameters[0].tensors[0].parts[0]; };
  EXPECT_EQ(error_with([](Index&) {}), "");
  for (const auto& change : std::vector<std::function<void(Index&)>>{
           [&](Index& index) { part(index).offset += 1 << 20; },
           [&](Index& index) { part(index).offset = -1; },
           [&](Index& index) { part(index).file = 2; },
           [&](Index& index) { part(index).runs[0].first = 1; },
           [&](Index& index) { part(index).runs[0].count = 301; },
           [&](Index& index) { part(index).runs[0].times = int64_t{1} << 60; },
           [&](Index& index) { part(index).runs.clear(); },
           [](Index& index) {
             index.parameters[0].shape = {int64_t{1} << 40, int64_t{1} << 40};
           },
           [](Index& index) { index.parameters[0].tensors[0].dtype = "F31"; },
           [](Index& index) { index.files[0].name = "../x"; },
           [](Index& index) { index.files[0].blocks.pop_back(); }}) {
    EXPECT_NE(error_with(change).find("x is damaged"), std::string::npos);
  }
}

TEST_F(CheckpointTest, WhatElseDecidesAboutTheArithmeticMayBeUnknown) {
  const Result<Checkpoint> older = Checkpoint::Open(Write(5));
  ASSERT_TRUE(older.ok()) << older.message();
  EXPECT_EQ(PrintIndex(older->index()).find("\"model\""), std::string::npos);
  EXPECT_TRUE(older->index().model.empty());
  Index index = older->index();
  index.model = {{"rope_theta", "10000"}};
  const Result<Index> read = ParseIndex(PrintIndex(index), "x");
  ASSERT_TRUE(read.ok()) << read.message();
  EXPECT_EQ(read->model, index.model);
}

TEST(SafetensorsTest, ElementsOfEveryDTypeHaveBytes) {
  for (const char* dtype : {"F64", "F32", "F16", "BF16"}) {
    EXPECT_GT(BytesOfDType(dtype), 0) << dtype;
  }
  EXPECT_EQ(BytesOfDType("F8_E4M3"), 1);
  EXPECT_EQ(BytesOfDType("U16"), 2);
  EXPECT_EQ(BytesOfDType("F33"), 0);
}

TEST(BlocksTest, HashesAreOfBlocksHoweverTheyAreWritten) {
  std::vector<std::byte> bytes(2 * kBlockBytes + 17);
  for (size_t at = 0; at < bytes.size(); ++at) bytes[at] = static_cast<std::byte>(at * 7);
  BlockHasher hasher;
  const std::span<const std::byte> all(bytes);
  hasher.Add(all.subspan(0, 100));
  hasher.Add(all.subspan(100, kBlockBytes));
  hasher.Add(all.subspan(kBlockBytes + 100));
  EXPECT_EQ(hasher.Finish(), (std::vector<uint64_t>{HashOf(all.subspan(0, kBlockBytes)),
                                                    HashOf(all.subspan(kBlockBytes, kBlockBytes)),
                                                    HashOf(all.subspan(2 * kBlockBytes))}));
}

}  // namespace
}  // namespace shardscope::checkpoint
