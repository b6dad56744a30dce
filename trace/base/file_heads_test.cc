#include "trace/base/file_heads.h"

#include <gtest/gtest.h>

#include <string>

namespace shardscope {
namespace {

using namespace std::string_literals;  // NOLINT: pickles have zeros in them

std::string Head(char protocol = 4) { return "\x80"s + protocol; }

TEST(FileHeads, KeysAreLookedForAsTexts) {
  EXPECT_TRUE(HasKeys("{\"segments\": []", {"segments"}));
  EXPECT_FALSE(HasKeys("segments", {"segments"}));
  EXPECT_TRUE(HasKeys(Head() + "}\x8c\x08segments", {"segments"}));
  EXPECT_TRUE(HasKeys(Head(2) + "}X\x08\0\0\0segments"s, {"segments"}));
  EXPECT_FALSE(HasKeys(Head() + "}\x8c\x0cmy segments!", {"segments"}));
}

TEST(FileHeads, DumpsOfTheFlightRecorderAreKnownWhateverTheyBeginWith) {
  EXPECT_TRUE(IsFlightRecorder(R"({"version": "2.10", "pg_config": {}, "entries": []})"));
  EXPECT_TRUE(IsFlightRecorder(R"({"pg_config": {}, "nccl_version": "2.26", "version": "2.5"})"));
  EXPECT_TRUE(IsFlightRecorder(R"({"entries": [{"collective_seq_id": 1, "profiling_name": "a"})"));
  EXPECT_TRUE(IsFlightRecorder(Head(2) + "}q\x01(X\x07\0\0\0versionq\x02X\x04\0\0\0002.10"
                                         "X\x09\0\0\0pg_configq\x03}X\x07\0\0\0entries"s));
  EXPECT_FALSE(IsFlightRecorder(R"({"pg_config": {}, "entries": []})"));
  EXPECT_FALSE(IsFlightRecorder(R"(["version", "pg_config", "entries"])"));
  EXPECT_FALSE(IsFlightRecorder("version, pg_config, entries"));
}

}  // namespace
}  // namespace shardscope
