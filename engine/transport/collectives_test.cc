// The transports among threads against the plain definition of each collective.
#include "engine/transport/collectives_test_util.h"

#include <gtest/gtest.h>

namespace shardscope::transport {
namespace {

INSTANTIATE_TEST_SUITE_P(Shared, CollectivesTest,
                         testing::ValuesIn(CasesOf("shared",
                                                   [](int num_ranks) {
                                                     return MakeSharedMemoryTransport(num_ranks,
                                                                                      kTimeoutNs);
                                                   })),
                         NameOfCase);
INSTANTIATE_TEST_SUITE_P(Emulated, CollectivesTest,
                         testing::ValuesIn(CasesOf("emulated",
                                                   [](int num_ranks) {
                                                     return MakeEmulatedTransport(
                                                         num_ranks, kTimeoutNs, 1e12, 0);
                                                   })),
                         NameOfCase);

}  // namespace
}  // namespace shardscope::transport
