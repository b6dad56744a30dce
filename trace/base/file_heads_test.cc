#include "trace/base/file_heads.h"

#include <gtest/gtest.h>

#include <string>

namespace shardscope {
namespace {

using namespace std::string_literals;  // NOLINT: pickles have zeros in them

std::string Head(char protocol = 4) { return "\x80"s + protocol; }

TEST(FileHeads, KeysAreLookedForAsTexts) {
  EXPECT_TRUE(IsMemorySnapshot("{\"device_traces\": []"));
  EXPECT_FALSE(IsMemorySnapshot("device_traces"));
  EXPECT_TRUE(IsMemorySnapshot(Head() + "}\x8c\x0d" + "device_traces"));
  EXPECT_TRUE(IsMemorySnapshot(Head(2) + "}X\x0d\0\0\0"s + "device_traces"));
  EXPECT_FALSE(IsMemorySnapshot(Head() + "}\x8c\x11my device_traces!"));
}

TEST(FileHeads, SnapshotsAreKnownByWhatComesFirst) {
  EXPECT_TRUE(IsMemorySnapshot(R"({"segments": [{"device": 0, "total_size": 1}]})"));
  EXPECT_FALSE(IsMemorySnapshot(R"({"segments": [1, 2]})"));
  EXPECT_FALSE(IsMemorySnapshot(R"({"traceEvents": [{"args": {"device_traces": 1}}]})"));
}

TEST(FileHeads, TracesOfTheProfilerAreJson) {
  EXPECT_TRUE(IsKineto(R"( {"traceEvents": []})"));
  EXPECT_TRUE(IsKineto(R"([{"ph": "X"}])"));
  EXPECT_TRUE(IsKineto("\xef\xbb\xbf\r\n\t{\"traceEvents\": []}"));
  EXPECT_TRUE(IsKineto(R"({"schemaVersion": 1, "deviceProperties": [)"));
  EXPECT_FALSE(IsKineto(R"({"schemaVersion": 1})"));
  EXPECT_FALSE(IsKineto(Head() + "\"traceEvents\""));
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
