#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "trace/schema/columns.h"
#include "trace/schema/ddl.h"

namespace shardscope::schema {
namespace {

std::string ReadFile(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

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
  ForEachTable(AllRows(), [&]<typename Row>() {
    EXPECT_EQ(TableOf<Row>::kIndex, tables);
    EXPECT_EQ(Tables()[tables].name, TableOf<Row>::kName);
    Row row;
    size_t fields = 0;
    TableOf<Row>::ForEachField(row, [&](auto&) { ++fields; });
    const std::string insert = TableOf<Row>::kInsert;
    EXPECT_EQ(static_cast<size_t>(std::count(insert.begin(), insert.end(), '?')), fields);
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
