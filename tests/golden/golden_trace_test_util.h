// For tests of the golden GPU scenario: its trace, open for queries.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "tests/golden/gpu_scenario.h"
#include "trace/base/check.h"
#include "trace/schema/ddl.h"
#include "trace/store/database.h"
#include "trace/store/run_source.h"

namespace shardscope::golden {

inline const cupti::CuptiFunctions& Cupti() {
  static const Result<cupti::CuptiFunctions> functions = cupti::LoadCupti(SHARDSCOPE_CUPTI_LIBRARY);
  SHARDSCOPE_CHECK(functions.ok());
  return functions.value();
}

// A scenario as a finished trace, open for queries.
class Trace {
 public:
  explicit Trace(const Scenario& scenario, const Delivery& delivery = {}) {
    std::string pattern = (std::filesystem::temp_directory_path() / "shardscope-XXXXXX").string();
    SHARDSCOPE_CHECK(mkdtemp(pattern.data()) != nullptr);
    folder_ = pattern;
    const Status written = WriteTrace(scenario, Cupti(), folder_, delivery);
    EXPECT_TRUE(written.ok()) << written.message();
    const Result<store::RunFiles> run = store::FindRun(folder_);
    SHARDSCOPE_CHECK(run.ok());
    Result<store::Database> database = store::OpenRunDatabase(run.value());
    SHARDSCOPE_CHECK(database.ok());
    database_ = std::move(database).value();
  }
  explicit Trace(const ScenarioOptions& options) : Trace(MakeScenario(options)) {}
  ~Trace() { std::filesystem::remove_all(folder_); }
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  int64_t Integer(const std::string& sql) {
    const Result<int64_t> value = database_.QueryInteger(sql);
    EXPECT_TRUE(value.ok()) << value.message();
    return value.ok() ? *value : 0;
  }
  std::string Text(const std::string& sql) {
    const Result<std::string> value = database_.QueryText(sql);
    EXPECT_TRUE(value.ok()) << value.message();
    return value.ok() ? *value : std::string();
  }
  // Of every table but those that say when the test ran. Ids of rows that are written live count up
  // in the order in which the writer came to them, so rows are told by all that they say.
  std::vector<std::string> AllRows() {
    std::vector<std::string> rows;
    for (const schema::TableInfo& table : schema::Tables()) {
      if (table.name == "meta" || table.name == "clock") continue;
      const bool beside_span = table.name == "gpu_work";
      const bool of_run = table.name == "collective";  // its second column names the op run
      const std::string sql =
          of_run
              ? "SELECT t.*, r.track, r.started_ns FROM collective t JOIN op_run r ON r.id = op_run"
              : "SELECT * FROM " + table.name + (beside_span ? " JOIN span USING(id)" : "");
      Result<store::Statement> select = database_.Prepare(sql);
      SHARDSCOPE_CHECK(select.ok());
      const int num_ids = of_run ? 2 : table.hot ? 1 : 0;
      while (*select->Step()) {
        std::string row = table.name;
        for (int i = num_ids; i < select->NumColumns(); ++i) {
          row += "|" + std::string(select->Text(i));
        }
        rows.push_back(row);
      }
    }
    std::sort(rows.begin(), rows.end());
    return rows;
  }

 private:
  std::string folder_;
  store::Database database_;
};

// Two ranks, without the time of copies, which are no part of the closed forms.
inline ScenarioOptions Options(plan::BackwardPrefetch prefetch, int run_ahead) {
  ScenarioOptions options;
  options.policy.mesh = plan::MeshOf(plan::MeshDimension::kShard, 2);
  options.policy.backward_prefetch = prefetch;
  options.policy.run_ahead = run_ahead;
  options.costs.copy_ns = 0;
  return options;
}

// Nanoseconds of every rank and step, which must all be alike.
inline int64_t ExposedNs(Trace& trace, const std::string& view) {
  const std::string column = "CAST(round(exposed_ms * 1e6) AS INTEGER)";
  EXPECT_EQ(trace.Integer("SELECT count(*) FROM " + view), 4);
  const int64_t least = trace.Integer("SELECT min(" + column + ") FROM " + view);
  EXPECT_EQ(trace.Integer("SELECT max(" + column + ") FROM " + view), least);
  return least;
}

}  // namespace shardscope::golden
