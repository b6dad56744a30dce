#include "trace/analysis/lesson_snapshot.h"

#include <gtest/gtest.h>

#include "trace/analysis/names.h"
#include "trace/analysis/report.h"

namespace shardscope::analysis {
namespace {

TEST(LessonSnapshot, Prints) {
  const query::SnapshotPtr s = MakeLessonSnapshot(4, 30, 12);
  puts(PrintReportText(MakeReport(*s)).c_str());
}

}  // namespace
}  // namespace shardscope::analysis
