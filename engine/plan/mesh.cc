#include "engine/plan/mesh.h"

#include "trace/base/check.h"

namespace shardscope::plan {
namespace {

bool Has(MeshDimensions dimensions, size_t dimension) {
  return (dimensions >> dimension & 1U) != 0;
}

}  // namespace

int32_t Mesh::SizeOf(MeshDimensions dimensions) const {
  int32_t size = 1;
  for (size_t dimension = 0; dimension < sizes.size(); ++dimension) {
    if (Has(dimensions, dimension)) size *= sizes[dimension];
  }
  return size;
}

int32_t Mesh::Coordinate(int32_t rank, MeshDimension dimension) const {
  for (size_t faster = sizes.size() - 1; faster > static_cast<size_t>(dimension); --faster) {
    rank /= sizes[faster];
  }
  return rank % size(dimension);
}

Mesh MeshOf(MeshDimension dimension, int32_t num_ranks) {
  Mesh mesh;
  mesh.sizes[static_cast<size_t>(dimension)] = num_ranks;
  return mesh;
}

GroupPlace PlaceOf(const Mesh& mesh, MeshDimensions dimensions, int32_t rank) {
  SHARDSCOPE_CHECK(rank >= 0 && rank < mesh.num_ranks());
  GroupPlace place;
  for (size_t dimension = 0; dimension < mesh.sizes.size(); ++dimension) {
    const int32_t coordinate = mesh.Coordinate(rank, static_cast<MeshDimension>(dimension));
    int32_t& number = Has(dimensions, dimension) ? place.place : place.group;
    number = number * mesh.sizes[dimension] + coordinate;
  }
  return place;
}

GroupPlace PlaceOf(const Mesh& mesh, const Communicator& communicator, int32_t rank) {
  const GroupPlace whole = PlaceOf(mesh, communicator.dimensions, rank);
  const int32_t run = communicator.run;
  if (run == 0) return whole;
  const int32_t num_runs = mesh.SizeOf(communicator.dimensions) / run;
  return {whole.group * num_runs + whole.place / run, whole.place % run};
}

std::vector<int32_t> MembersOf(const Mesh& mesh, const Communicator& communicator, int32_t group) {
  std::vector<int32_t> members;
  for (int32_t rank = 0; rank < mesh.num_ranks(); ++rank) {
    if (PlaceOf(mesh, communicator, rank).group == group) members.push_back(rank);
  }
  return members;
}

int32_t GroupSize(const Mesh& mesh, const Communicator& communicator) {
  return communicator.run > 0 ? communicator.run : mesh.SizeOf(communicator.dimensions);
}

Group GroupOf(const Mesh& mesh, const Communicator& communicator, int32_t rank) {
  const GroupPlace at = PlaceOf(mesh, communicator, rank);
  return {at.group, at.place, MembersOf(mesh, communicator, at.group)};
}

std::string Print(MeshDimensions dimensions) {
  std::string text;
  for (size_t dimension = 0; dimension < kNumMeshDimensions; ++dimension) {
    if (!Has(dimensions, dimension)) continue;
    if (!text.empty()) text += ',';
    text += Name(static_cast<MeshDimension>(dimension));
  }
  return text;
}

}  // namespace shardscope::plan
