// Every input that ever broke something, and some random ones: what scripts/fuzz does for minutes,
// for seconds and without clang.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "tests/fuzz/targets.h"
#include "tests/places.h"

namespace shardscope::fuzz {
namespace {

using Target = void (*)(Input);

struct NamedTarget {
  std::string_view name;  // findings/<name>-*
  Target run;
};
constexpr NamedTarget kTargets[] = {{"trace", FuzzTrace},  {"schedule", FuzzSchedule},
                                    {"toml", FuzzToml},    {"control", FuzzControl},
                                    {"tail", FuzzTail},    {"cupti", FuzzCupti},
                                    {"import", FuzzImport}};

std::vector<uint8_t> ReadBytes(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(Fuzz, FindingsStayFixed) {
  const std::filesystem::path folder = SourceDir() + "/tests/fuzz/findings";
  size_t replayed = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    for (const NamedTarget& target : kTargets) {
      if (!name.starts_with(std::string(target.name) + "-")) continue;
      SCOPED_TRACE(name);
      target.run(ReadBytes(entry.path()));
      ++replayed;
    }
  }
  EXPECT_GT(replayed, 0u);
}

TEST(Fuzz, RandomEditsOfATrace) {
  std::mt19937 random(20);
  for (int round = 0; round < 150; ++round) {
    std::vector<uint8_t> input = {
        static_cast<uint8_t>(round % 4 + (round % 8 == 0 ? 8 : 0) + (round % 3 == 0 ? 16 : 0))};
    const size_t edits = 1 + random() % 6;
    for (size_t i = 0; i < edits * 6; ++i) input.push_back(static_cast<uint8_t>(random()));
    FuzzTrace(input);
  }
}

// Bytes cut out, doubled and changed.
std::vector<uint8_t> Mutate(std::vector<uint8_t> text, std::mt19937* random) {
  for (int i = 0; i < 4 && text.size() > 2; ++i) {
    const auto at = static_cast<std::ptrdiff_t>((*random)() % text.size());
    const auto end =
        at + static_cast<std::ptrdiff_t>(
                 (*random)() % std::min<size_t>(40, text.size() - static_cast<size_t>(at)));
    if ((*random)() % 3 == 0) {
      text.erase(text.begin() + at, text.begin() + end);
    } else if ((*random)() % 2 == 0) {
      const std::vector<uint8_t> part(text.begin() + at, text.begin() + end);
      text.insert(text.begin() + at, part.begin(), part.end());
    } else {
      text[static_cast<size_t>(at)] = static_cast<uint8_t>((*random)());
    }
  }
  return text;
}

TEST(Fuzz, RandomEditsOfTexts) {
  std::mt19937 random(21);
  const std::vector<uint8_t> schedule = ReadBytes(SourceDir() + "/tests/fuzz/schedule_seed.txt");
  ASSERT_FALSE(schedule.empty());
  constexpr std::string_view kToml =
      "[train]\nsteps = 9\nlr = 1e-3\n[link]\nbandwidth = \"1GB/s\"\n";
  constexpr std::string_view kRequest = R"({"id":1,"set":{"prefetch.backward":"none"}})";
  constexpr std::string_view kTail =
      "{\"shardscope_tail\":1,\"schema\":2,\"run\":\"a\"}\n"
      "{\"table\":\"meta\",\"rows\":[[\"name\",\"a\"]]}\n{\"state\":\"finished\"}\n";
  for (int round = 0; round < 300; ++round) {
    FuzzSchedule(Mutate(schedule, &random));
    FuzzToml(Mutate({kToml.begin(), kToml.end()}, &random));
    FuzzControl(Mutate({kRequest.begin(), kRequest.end()}, &random));
    FuzzTail(Mutate({kTail.begin(), kTail.end()}, &random));
  }
}

TEST(Fuzz, RandomBuffersOfCupti) {
  std::mt19937 random(22);
  for (int round = 0; round < 300; ++round) {
    std::vector<uint8_t> input(random() % 2000);
    for (uint8_t& byte : input) {
      byte = static_cast<uint8_t>(random() % 3 == 0 ? random() : random() % 54);
    }
    FuzzCupti(input);
  }
}

}  // namespace
}  // namespace shardscope::fuzz
