#include "trace/export/format.h"

#include "trace/export/chakra.h"
#include "trace/export/csv.h"
#include "trace/export/kineto.h"
#include "trace/export/perfetto.h"

namespace shardscope::exports {

const std::vector<Format>& Formats() {
  static const std::vector<Format> formats = {
      {"perfetto", "one Chrome JSON file of all ranks, for ui.perfetto.dev", ".json",
       WritePerfetto},
      {"kineto", "a folder of torch.profiler's JSON, a file a rank, for HTA and its like", "",
       WriteKineto},
      {"chakra", "a folder of Chakra execution traces, a file a rank, for ASTRA-sim", "",
       WriteChakra},
      {"csv", "a folder of CSV files, one a view; or with --table one file", "", WriteCsv},
  };
  return formats;
}

}  // namespace shardscope::exports
