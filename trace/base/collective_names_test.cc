#include "trace/base/collective_names.h"

#include <gtest/gtest.h>

namespace shardscope {
namespace {

TEST(CollectiveNames, OfCallsInOurWords) {
  EXPECT_EQ(CollectiveKindOf("_allgather_base"), "all_gather");
  EXPECT_EQ(CollectiveKindOf("nccl:_reduce_scatter_base"), "reduce_scatter");
  EXPECT_EQ(CollectiveKindOf("allreduce_coalesced"), "all_reduce");
  EXPECT_EQ(CollectiveKindOf("all_to_all_single"), kAllToAll);
  EXPECT_EQ(CollectiveKindOf("ncclGather"), "gather");
  EXPECT_EQ(CollectiveKindOf("recv"), "receive");
  EXPECT_EQ(CollectiveKindOf("coalesced"), kCoalesced);
  EXPECT_EQ(CollectiveKindOf("monitored"), "monitored");
}

TEST(CollectiveNames, DescriptionsOfGroupsMaySayNothing) {
  EXPECT_TRUE(SaysPurpose(kDefaultGroup));
  EXPECT_TRUE(SaysPurpose("mesh_shard"));
  EXPECT_FALSE(SaysPurpose("undefined"));
  EXPECT_FALSE(SaysPurpose(""));
}

TEST(CollectiveNames, OfKernelsByWhatStandsBeforeTheirAlgorithm) {
  EXPECT_EQ(CollectiveKindOfKernel("ncclDevKernel_AllGather_RING_LL"), "all_gather");
  EXPECT_EQ(CollectiveKindOfKernel("ncclDevKernel_Reduce_Sum_bf16_RING_LL(x)"), "reduce");
  EXPECT_EQ(CollectiveKindOfKernel("ncclDevKernel_Broadcast_AllGather"), "broadcast");
  EXPECT_EQ(CollectiveKindOfKernel("ncclDevKernel_SendRecv(x)"), "send_receive");
  EXPECT_EQ(CollectiveKindOfKernel("ncclDevKernel_Generic"), "");
}

TEST(CollectiveNames, TellKernelsOfCollectives) {
  for (const char* name : {"ncclDevKernel_AllGather", "ncclSymkDevKernel_ReduceScatter",
                           "ncclKernel_AllReduce_RING_LL_Sum_float", "void ncclKernel<int>(x)"}) {
    EXPECT_TRUE(IsCommunicationKernel(name)) << name;
  }
  EXPECT_FALSE(IsCommunicationKernel("reduce_kernel"));
  EXPECT_FALSE(IsCommunicationKernel("ampere_sgemm_128x64_tn"));
}

TEST(CollectiveNames, SizesAreEqualUnlessThereIsARootOrEachSendsWhatItLikes) {
  EXPECT_TRUE(HasEqualSizes(CollectiveKindOf("reduce_scatter_tensor")));
  EXPECT_TRUE(HasEqualSizes(CollectiveKindOf("all_gather_into_tensor")));
  EXPECT_TRUE(HasEqualSizes(CollectiveKindOf("barrier")));
  EXPECT_FALSE(HasEqualSizes(CollectiveKindOf("ALLTOALL_BASE")));
  EXPECT_FALSE(HasEqualSizes(CollectiveKindOf("scatter")));
  EXPECT_FALSE(HasEqualSizes(CollectiveKindOf("gather")));
}

}  // namespace
}  // namespace shardscope
