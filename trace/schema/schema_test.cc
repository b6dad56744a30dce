#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <type_traits>

#include "tests/places.h"
#include "trace/schema/columns.h"
#include "trace/schema/ddl.h"
#include "trace/schema/fields.h"

namespace shardscope::schema {
namespace {

std::string ReadFile(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

struct Counter final : FieldSink, FieldSource {
  void Integer(int64_t /*value*/) override { ++fields; }
  void Real(double /*value*/) override { ++fields; }
  void Text(std::string_view /*value*/) override { ++fields; }
  int64_t Integer() override { return ++fields; }
  double Real() override { return static_cast<double>(++fields); }
  std::string_view Text() override { return ++fields > 0 ? "text" : ""; }
  int64_t fields = 0;
};

TEST(Schema, CommittedDocsAreFresh) {
  const std::filesystem::path source = SourceDir();
  const std::filesystem::path fresh = std::filesystem::temp_directory_path() /
                                      ("trace-docs-" + std::to_string(std::rand()) + ".md");
  const std::string command = "python3 -B '" + (source / "trace/schema/generate.py").string() +
                              "' --docs '" + fresh.string() + "'";
  ASSERT_EQ(std::system(command.c_str()), 0);
  const std::string expected = ReadFile(fresh);
  std::filesystem::remove(fresh);
  ASSERT_NE(expected, "");
  EXPECT_EQ(ReadFile(source / "docs/trace.md"), expected)
      << "run: python3 trace/schema/generate.py --docs docs/trace.md";
}

TEST(Schema, EveryTableIsVisitedWithAllItsFields) {
  size_t tables = 0;
  ForEachType(AllRows(), [&]<typename Row>() {
    EXPECT_EQ(TableOf<Row>::kIndex, tables);
    EXPECT_EQ(Tables()[tables].name, TableOf<Row>::kName);
    Row row;
    Counter written;
    Counter read;
    WriteFields(row, &written);
    ReadFields(&read, &row);
    const std::string insert = TableOf<Row>::kInsert;
    EXPECT_EQ(std::count(insert.begin(), insert.end(), '?'), written.fields);
    EXPECT_EQ(read.fields, written.fields);
    ++tables;
  });
  EXPECT_EQ(tables, kNumTables);
}

// None passes for that of another table, nor for a number.
static_assert(!std::is_constructible_v<TrackId, OpRunId>);
static_assert(!std::is_convertible_v<int64_t, TrackId>);
static_assert(!std::is_convertible_v<TrackId, int64_t>);
static_assert(std::is_same_v<decltype(OpRunRow::track), decltype(TrackRow::id)>);
static_assert(std::is_same_v<decltype(GpuWorkRow::id), decltype(SpanRow::id)>);
static_assert(sizeof(TrackId) == sizeof(int64_t));

TEST(Ids, EveryIdOfARowIsVisited) {
  OpRunRow row{.id = OpRunId(1), .plan_op = PlanOpId(2), .track = TrackId(3)};
  row.blocking_plan_op = PlanOpId::None();
  EXPECT_TRUE(row.blocking_plan_op.is_none());
  TableOf<OpRunRow>::ForEachId(&row,
                               []<typename Tag>(Id<Tag>* id) { *id = Id<Tag>(id->value() + 10); });
  EXPECT_EQ(row.id, OpRunId(11));
  EXPECT_EQ(row.plan_op, PlanOpId(12));
  EXPECT_EQ(row.track, TrackId(13));
  EXPECT_EQ(row.blocking_plan_op, PlanOpId(9));
}

TEST(ShortText, KeepsWhatFitsAndSaysWhatItCut) {
  EXPECT_EQ(ShortText("communicator_order"), "communicator_order");
  EXPECT_EQ(ShortText(""), "");
  const std::string fits(31, 'x');
  EXPECT_EQ(ShortText(fits), fits);
  EXPECT_EQ(ShortText(fits + "y").view(), std::string(28, 'x') + "...");
  // 27 ASCII bytes and then characters of three bytes: none is cut in two.
  EXPECT_EQ(ShortText(std::string(27, 'x') + "层层").view(), std::string(27, 'x') + "...");
}

}  // namespace
}  // namespace shardscope::schema
