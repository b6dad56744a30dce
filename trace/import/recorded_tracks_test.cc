#include "trace/import/recorded_tracks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace shardscope::imports {
namespace {

using testing::ElementsAre;
using testing::Pair;

TEST(RecordedTracks, OthersOfAKindAreOneTrackAndEachOfTheirEventsIsNoted) {
  Recording recording;
  RecordedTracks tracks(&recording.tracks, &recording.not_understood);
  const auto of_thread = [&](int64_t thread) {
    return tracks.Of({TrackKind::kThread, 1, thread, 0},
                     {.kind = TrackKind::kThread, .process = 1, .thread = thread, .name = ""});
  };
  const auto most = static_cast<int64_t>(kMostTracks);
  for (int64_t thread = 0; thread < most; ++thread) ASSERT_EQ(int64_t{of_thread(thread)}, thread);
  const uint32_t others = of_thread(most);
  EXPECT_EQ(others, kMostTracks);
  EXPECT_EQ(of_thread(most), others);
  EXPECT_EQ(of_thread(most + 1), others);
  EXPECT_EQ(recording.tracks[others].name, "others");
  EXPECT_EQ(of_thread(7), 7U);
  const uint32_t streams = tracks.Of({TrackKind::kStream, 0, 0, 7}, {.kind = TrackKind::kStream});
  EXPECT_EQ(streams, others + 1);
  EXPECT_EQ(recording.tracks[streams].kind, TrackKind::kStream);
  EXPECT_EQ(recording.tracks[streams].name, "others");
  EXPECT_EQ(tracks.Find({TrackKind::kThread, 1, most, 0}), nullptr);
  EXPECT_EQ(tracks.Find({TrackKind::kThread, 1, 7, 0}), &recording.tracks[7]);
  EXPECT_THAT(recording.not_understood, ElementsAre(Pair(std::string(kTooManyTracks), 4)));
}

}  // namespace
}  // namespace shardscope::imports
