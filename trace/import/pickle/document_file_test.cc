#include "trace/import/pickle/document_file.h"

#include <gtest/gtest.h>

#include <string>

#include "trace/base/pickle/repr_test_util.h"

namespace shardscope::imports {
namespace {

TEST(DocumentFileTest, JsonIsTheSame) {
  const Result<Document> json =
      ParseJson(R"({"a": [1, -2, 2.5, true, null, "text", {}], "b": 18446744073709551615})");
  ASSERT_TRUE(json.ok()) << json.message();
  EXPECT_EQ(pickle::Repr(*json, json->root()),
            "{'a':[1,-2,2.5,True,None,'text',{},],'b':1.8446744073709552e+19,}");
  EXPECT_FALSE(ParseJson("{\"a\": ").ok());
  EXPECT_FALSE(ParseJson("").ok());
  EXPECT_NE(ParseJson(std::string(1'000'000, '[')).message().find("nested more than 64 deep"),
            std::string::npos);
}

}  // namespace
}  // namespace shardscope::imports
