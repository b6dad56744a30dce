// What a new table must not be forgotten in: the rows of a part of a run, and those of a Snapshot.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/places.h"
#include "trace/query/run_part.h"
#include "trace/schema/columns.h"
#include "trace/schema/type_list.h"

namespace shardscope::query {
namespace {

using schema::PartRule;
using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

// Steps 3 to 5 of 0 to 9, at [1300, 1600] ns.
PartFilter ThreeOfTenSteps() { return PartFilter({3, 5, 0, 9, 1}, {1300, 1600, 1400, 1500}); }

// The values of a column that are kept of rows that have nothing else.
template <typename Row>
std::vector<int64_t> Kept(int64_t Row::*column, const std::vector<int64_t>& values) {
  PartFilter filter = ThreeOfTenSteps();
  store::RowBatch batch;
  for (const int64_t value : values) {
    Row row;
    row.*column = value;
    batch.Get<Row>().push_back(row);
  }
  filter.Keep(&batch);
  std::vector<int64_t> kept;
  for (const Row& row : batch.Get<Row>()) kept.push_back(row.*column);
  return kept;
}

TEST(PartRules, SayWhichRowsOfATableAreKept) {
  std::set<std::string> seen;
  schema::ForEachType(schema::AllRows(), [&seen]<typename Row>() {
    using Table = schema::TableOf<Row>;
    SCOPED_TRACE(Table::kName);
    if constexpr (Table::kPart == PartRule::kSteps) {
      seen.insert(Table::kName);
      EXPECT_THAT(Kept(&Row::step, {2, 3, 5, 6}), ElementsAre(3, 5));
    } else if constexpr (Table::kPart == PartRule::kBetweenSteps) {
      seen.insert(Table::kName);
      EXPECT_THAT(Kept(&Row::step, {2, 3, 4, 5, 6}), ElementsAre(4, 5));
    } else if constexpr (Table::kPart == PartRule::kTime) {
      seen.insert(Table::kName);
      EXPECT_THAT(Kept(Table::kTime, {1299, 1300, 1600, 1601}), ElementsAre(1300, 1600));
    } else if constexpr (Table::kPart == PartRule::kSpans) {
      seen.insert(Table::kName);
      EXPECT_THAT(Kept(&Row::start_ns, {1299, 1300, 1599, 1600}), ElementsAre(1300, 1599));
    } else if constexpr (Table::kPart == PartRule::kSegments) {
      seen.insert(Table::kName);
      EXPECT_THAT(Kept(&Row::time_ns, {5, 1400, 1601}), ElementsAre(1300, 1400));
    } else if constexpr (Table::kPart == PartRule::kAll) {
      store::RowBatch batch;
      batch.Get<Row>().resize(3);
      ThreeOfTenSteps().Keep(&batch);
      EXPECT_EQ(batch.Get<Row>().size(), size_t{3});
    }
  });
  EXPECT_THAT(
      seen, UnorderedElementsAre("step", "op_run", "collective", "pause", "checkpoint",
                                 "evaluation", "counter", "event_edge", "span", "memory_segment"));
}

TEST(PartRules, AHotTableHasOne) {
  schema::ForEachType(schema::HotRows(), []<typename Row>() {
    using Table = schema::TableOf<Row>;
    EXPECT_EQ(Table::kPart == PartRule::kAll, Table::kSqlOnly) << Table::kName;
  });
}

TEST(PartRules, ABuilderTakesTheRowsOfEveryTableThatHasOne) {
  std::stringstream builders;
  const std::filesystem::path folder = std::filesystem::path(SourceDir()) / "trace/query";
  for (const char* const name :
       {"snapshot_builder.cc", "gpu_snapshot_builder.cc", "flight_rows.cc"}) {
    std::ifstream file(folder / name);
    ASSERT_TRUE(file.is_open()) << name;
    builders << file.rdbuf();
  }
  schema::ForEachType(schema::AllRows(), [text = builders.str()]<typename Row>() {
    using Table = schema::TableOf<Row>;
    if (!Table::kHot && Table::kPart == PartRule::kAll) return;
    if (Table::kSqlOnly) return;
    std::string type = "Get<schema::";
    bool begins = true;
    for (const char letter : std::string(Table::kName)) {
      const bool is_between = letter == '_';
      if (!is_between) type += begins ? static_cast<char>(letter - 'a' + 'A') : letter;
      begins = is_between;
    }
    EXPECT_THAT(text, ::testing::HasSubstr(type + "Row>()"))
        << "no Snapshot has the rows of " << Table::kName << ": say sql_only, or take them";
  });
}

}  // namespace
}  // namespace shardscope::query
