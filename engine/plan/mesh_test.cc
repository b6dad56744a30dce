#include "engine/plan/mesh.h"

#include <gtest/gtest.h>

#include <set>

namespace shardscope::plan {
namespace {

constexpr Mesh kMesh = {{2, 2, 3, 2}};  // 24 ranks

TEST(MeshTest, TensorIsTheFastestDimension) {
  EXPECT_EQ(kMesh.num_ranks(), 24);
  for (int32_t rank = 0; rank < kMesh.num_ranks(); ++rank) {
    EXPECT_EQ(kMesh.Coordinate(rank, MeshDimension::kTensor), rank % 2);
    EXPECT_EQ(kMesh.Coordinate(rank, MeshDimension::kShard), rank / 2 % 3);
    EXPECT_EQ(kMesh.Coordinate(rank, MeshDimension::kReplicate), rank / 6 % 2);
    EXPECT_EQ(kMesh.Coordinate(rank, MeshDimension::kPipeline), rank / 12);
  }
}

TEST(MeshTest, GroupsOfEveryCommunicatorTileTheRanks) {
  for (unsigned dimensions = 0; dimensions <= kAllDimensions; ++dimensions) {
    const auto set = static_cast<MeshDimensions>(dimensions);
    const int32_t size = kMesh.SizeOf(set);
    std::set<int32_t> seen;
    for (int32_t group = 0; group < kMesh.num_ranks() / size; ++group) {
      const std::vector<int32_t> members = MembersOf(kMesh, {"", set}, group);
      ASSERT_EQ(members.size(), static_cast<size_t>(size));
      for (int32_t place = 0; place < size; ++place) {
        const int32_t rank = members[static_cast<size_t>(place)];
        EXPECT_TRUE(seen.insert(rank).second);
        EXPECT_EQ(PlaceOf(kMesh, set, rank), (GroupPlace{group, place}));
        // Ranks of a group differ in these dimensions alone.
        for (size_t other = 0; other < kNumMeshDimensions; ++other) {
          if ((dimensions >> other & 1U) != 0) continue;
          const auto dimension = static_cast<MeshDimension>(other);
          EXPECT_EQ(kMesh.Coordinate(rank, dimension), kMesh.Coordinate(members[0], dimension));
        }
      }
    }
    EXPECT_EQ(seen.size(), 24U);
  }
}

TEST(MeshTest, ShardGroupsInsideReplicasAreNeighbours) {
  const Mesh mesh = {{1, 2, 2, 1}};
  EXPECT_EQ(MembersOf(mesh, {"", Only(MeshDimension::kShard)}, 0), (std::vector<int32_t>{0, 1}));
  EXPECT_EQ(MembersOf(mesh, {"", Only(MeshDimension::kShard)}, 1), (std::vector<int32_t>{2, 3}));
  EXPECT_EQ(MembersOf(mesh, {"", Only(MeshDimension::kReplicate)}, 1),
            (std::vector<int32_t>{1, 3}));
}

TEST(MeshTest, RunsOfNeighboursDivideEachGroup) {
  const Mesh mesh = {{1, 2, 4, 1}};
  const Communicator pairs = {"", Only(MeshDimension::kShard), 2};
  EXPECT_EQ(GroupSize(mesh, pairs), 2);
  for (int32_t group = 0; group < 4; ++group) {
    const std::vector<int32_t> members = MembersOf(mesh, pairs, group);
    EXPECT_EQ(members, (std::vector<int32_t>{2 * group, 2 * group + 1}));
    EXPECT_EQ(PlaceOf(mesh, pairs, members[1]), (GroupPlace{group, 1}));
  }
}

TEST(MeshTest, PrintsItsDimensions) {
  EXPECT_EQ(Print(Only(MeshDimension::kReplicate) | Only(MeshDimension::kShard)),
            "replicate,shard");
  EXPECT_EQ(Print(0), "");
}

}  // namespace
}  // namespace shardscope::plan
