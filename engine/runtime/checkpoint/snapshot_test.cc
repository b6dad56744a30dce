#include "engine/runtime/checkpoint/snapshot.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/runtime/memory/tensor_memory.h"

namespace shardscope::runtime {
namespace {

// Sizes that no block and no number of ranks divides.
const plan::Unit kUnit{.name = "block0",
                       .parameters = {{.name = "weight", .shape = {70, 41}},
                                      {.name = "bias", .shape = {99}},
                                      {.name = "frozen", .shape = {7}, .is_frozen = true}}};
constexpr int64_t kTrained = 70 * 41 + 99;

ShardedUnit MadeUnit(plan::StateForm form) {
  ShardedUnit unit(kUnit, {},
                   {.optimizer_state = plan::StateTensorsOf(plan::OptimizerKind::kAdamw, form,
                                                            /*has_momentum=*/false)});
  unit.Initialize(model::ZeroParameters());
  for (size_t index = 0; index < kUnit.parameters.size(); ++index) {
    for (size_t tensor = 0; tensor < unit.NumStateTensors(index); ++tensor) {
      const at::Tensor values = unit.StateValues(tensor, index);
      for (int64_t at = 0; at < values.numel(); ++at) {
        const double value = std::sin(0.37 * static_cast<double>(at + 1)) * 1e-3;
        values.mutable_data_ptr<float>()[at] =
            static_cast<float>(tensor == 1 ? value * value : value);
      }
      unit.KeepStateValues(tensor, index, values);
    }
  }
  return unit;
}

int64_t Aligned(int64_t bytes) { return (bytes + 63) / 64 * 64; }

class SnapshotTest : public testing::Test {
 protected:
  // What the ranks of `layout`, which all hold `unit`, write of it: by tensor, all elements.
  std::map<std::string, std::vector<float>> Written(const StateLayout& layout,
                                                    const ShardedUnit& unit) {
    std::map<std::string, std::vector<float>> tensors;
    for (int rank = 0; rank < layout.mesh.num_ranks(); ++rank) {
      Snapshot snapshot;
      snapshot.Take(layout, rank, {&unit, 1});
      const std::string name = "rank" + std::to_string(rank);
      const auto index = snapshot.Write(folder_.string(), name);
      EXPECT_TRUE(index.ok()) << index.message();
      std::ifstream file(folder_ / name, std::ios::binary);
      for (const checkpoint::ParameterEntry& parameter : index->parameters) {
        for (const checkpoint::TensorEntry& tensor : parameter.tensors) {
          EXPECT_EQ(tensor.dtype, "F32");
          std::vector<float>& all = tensors[tensor.name + "." + parameter.name];
          all.resize(static_cast<size_t>(plan::NumElements(parameter.shape)), NAN);
          const checkpoint::Part& part = tensor.parts.front();
          EXPECT_EQ(part.runs.size(), 1u);
          file.seekg(part.offset);
          file.read(reinterpret_cast<char*>(all.data() + part.runs.front().first),
                    part.runs.front().count * 4);
          EXPECT_TRUE(file.good());
        }
      }
    }
    return tensors;
  }

  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  const std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("snapshot test " + std::to_string(getpid()));
};

TEST_F(SnapshotTest, StateInBlocksIsCopiedAsItIsKept) {
  InstallTensorMemory();
  const ShardedUnit unit = MadeUnit(plan::StateForm::kBlocks);
  const auto pool = std::make_shared<MemoryPool>(MemoryPool::Options{});
  Snapshot snapshot;
  {
    const TensorScope scope(pool);
    snapshot.Take({}, 0, {&unit, 1});
  }
  EXPECT_EQ(pool->TakePeakBytes(), 0) << "nothing is decoded";
  int64_t bytes = Aligned(4 * 7);
  for (const int64_t elements : {int64_t{70 * 41}, int64_t{99}}) {
    bytes += Aligned(4 * elements) +
             2 * (Aligned(elements) + Aligned(4 * plan::NumStateBlocks(elements)));
  }
  EXPECT_EQ(snapshot.capacity(), bytes);
  EXPECT_LT(snapshot.capacity(), 4 * kTrained * 2) << "three would be fp32";
}

TEST_F(SnapshotTest, WhatIsWrittenOfBlocksIsWhatTheyStandFor) {
  for (const int replicas : {1, 3}) {
    const StateLayout layout{.mesh = plan::MeshOf(plan::MeshDimension::kReplicate, replicas)};
    for (const plan::StateForm form : {plan::StateForm::kMaster, plan::StateForm::kBlocks}) {
      SCOPED_TRACE(std::to_string(replicas) + " " + std::string(Name(form)));
      const ShardedUnit unit = MadeUnit(form);
      const auto written = Written(layout, unit);
      EXPECT_EQ(written.size(), 3u + 2 * 2);
      for (size_t tensor = 0; tensor < 2; ++tensor) {
        for (size_t index = 0; index < 2; ++index) {
          const at::Tensor values = unit.StateValues(tensor, index);
          const std::vector<float>& found =
              written.at(unit.state_tensors()[tensor].name + "." + kUnit.parameters[index].name);
          ASSERT_EQ(std::ssize(found), values.numel());
          EXPECT_EQ(std::memcmp(found.data(), values.const_data_ptr(), values.nbytes()), 0);
        }
      }
    }
  }
}

}  // namespace
}  // namespace shardscope::runtime
