// What targets share that need files.
#pragma once

#include <string>

#include "trace/query/snapshot.h"

namespace shardscope::fuzz {

// A new folder, in memory where there is such a file system; removed when the program ends.
struct Folder {
  explicit Folder(const char* name);
  ~Folder();
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  std::string path;
};

// Both forms of the report.
void PrintReports(const query::Snapshot& snapshot);

}  // namespace shardscope::fuzz
