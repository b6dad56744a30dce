#include "trace/base/number_at.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>

namespace shardscope {
namespace {

TEST(NumberAt, IsReadAtAnyPlaceAndNotBeyondTheEnd) {
  constexpr std::string_view kText("\x01\x02\x03\x04\xff", 5);
  EXPECT_EQ(NumberAt<uint16_t>(kText, 1), 0x0302);
  EXPECT_EQ(NumberAt<uint32_t>(kText, 1), 0xff040302U);
  EXPECT_EQ(NumberAt<int8_t>(kText, 4), -1);
  const std::span<const std::byte> bytes = std::as_bytes(std::span(kText.data(), kText.size()));
  EXPECT_EQ(NumberAt<uint32_t>(bytes, 0), 0x04030201U);
  for (const uint64_t at : {uint64_t{2}, uint64_t{5}, std::numeric_limits<uint64_t>::max()}) {
    EXPECT_EQ(NumberAt<uint32_t>(kText, at), std::nullopt) << at;
    EXPECT_EQ(NumberAt<uint32_t>(bytes, at), std::nullopt) << at;
  }
}

}  // namespace
}  // namespace shardscope
