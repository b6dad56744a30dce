#include "trace/record/memory_account.h"

#include <tuple>

namespace shardscope::record {

MemoryAccount MemoryAccount::Of(const schema::MemoryEventRow& row) {
  return {row.rank, row.device, row.category, row.unit};
}

std::weak_ordering MemoryAccount::operator<=>(const MemoryAccount& other) const {
  const auto key = [](const MemoryAccount& account) {
    return std::tuple(account.rank, account.category.view(), account.unit.view(),
                      account.device.view());
  };
  return key(*this) <=> key(other);
}

schema::MemoryEventRow MemoryAccount::Event(int64_t issued_ns, int64_t executed_ns,
                                            int64_t bytes) const {
  schema::MemoryEventRow row;
  row.rank = rank;
  row.device = device;
  row.issued_ns = issued_ns;
  row.executed_ns = executed_ns;
  row.bytes = bytes;
  row.category = category;
  row.unit = unit;
  row.plan_op = schema::PlanOpId::None();
  row.step = -1;
  return row;
}

}  // namespace shardscope::record
