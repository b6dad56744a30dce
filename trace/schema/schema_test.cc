#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

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
  const std::filesystem::path source = SHARDSCOPE_SOURCE_DIR;
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
