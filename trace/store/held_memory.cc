#include "trace/store/held_memory.h"

#include <algorithm>
#include <tuple>

namespace shardscope::store {
namespace {

constexpr int64_t kMostBytes = int64_t{1} << 40;  // of one change

// A sum that cannot be stays as it is.
void AddSafely(int64_t bytes, int64_t* sum) {
  int64_t larger = 0;
  if (!__builtin_add_overflow(*sum, bytes, &larger)) *sum = larger;
}

}  // namespace

void HeldMemory::Add(const Change& change) {
  if (change.bytes < -kMostBytes || change.bytes > kMostBytes) return;
  key_.assign(reinterpret_cast<const char*>(&change.rank), sizeof(change.rank));
  for (const std::string_view part : {change.device, change.category, change.unit}) {
    key_.append(part).push_back('\0');
  }
  const auto [at, is_new] = held_.try_emplace(key_);
  if (is_new) at->second = {change.rank, change.device, change.category, change.unit};
  AddSafely(change.bytes, &at->second.bytes);
}

void HeldMemory::Add(const HeldMemory& other) {
  for (const auto& [key, held] : other.held_) {
    const auto [at, is_new] = held_.try_emplace(key, held);
    if (!is_new) AddSafely(held.bytes, &at->second.bytes);
  }
}

template <typename IsTaken>
void HeldMemory::Take(const IsTaken& is_taken, int64_t time_ns,
                      std::vector<schema::MemoryEventRow>* rows) {
  std::vector<Held> taken;
  std::erase_if(held_, [&](const auto& entry) {
    if (!is_taken(entry.second)) return false;
    if (entry.second.bytes != 0) taken.push_back(entry.second);
    return true;
  });
  std::sort(taken.begin(), taken.end(), [](const Held& a, const Held& b) {
    return std::tuple(a.rank, a.device.view(), a.category.view(), a.unit.view()) <
           std::tuple(b.rank, b.device.view(), b.category.view(), b.unit.view());
  });
  for (const Held& held : taken) {
    schema::MemoryEventRow row;
    row.rank = held.rank;
    row.issued_ns = row.executed_ns = time_ns;
    row.bytes = held.bytes;
    row.device = held.device;
    row.category = held.category;
    row.unit = held.unit;
    row.plan_op = schema::PlanOpId::None();
    row.step = -1;
    rows->push_back(std::move(row));
  }
}

void HeldMemory::TakeRowsOf(int64_t rank, int64_t time_ns,
                            std::vector<schema::MemoryEventRow>* rows) {
  Take([rank](const Held& held) { return held.rank == rank; }, time_ns, rows);
}

void HeldMemory::TakeRows(int64_t time_ns, std::vector<schema::MemoryEventRow>* rows) {
  Take([](const Held&) { return true; }, time_ns, rows);
}

}  // namespace shardscope::store
