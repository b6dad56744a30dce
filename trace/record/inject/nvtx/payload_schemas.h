// PayloadSchemas: what the libraries of the process have registered about their structured
// payloads.
//
// Threads: any. Not in a forked child, whose lock may be held for ever.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "trace/base/mutex.h"
#include "trace/record/inject/nvtx/payload_schema.h"

namespace shardscope::inject {

struct NvtxDomain;

// Of one number. A payload with ever new values would use up the names that a trace keeps.
inline constexpr size_t kMaxPayloadTexts = 1 << 10;

class PayloadSchemas {
 public:
  // Those of this process; never destroyed, as the recording.
  static PayloadSchemas& OfProcess();

  // The number by which events refer to it: the library's own, which holds in its domain, or a new
  // one; also for what is not read. 0: the number cannot be. `domain` null: the default one, which
  // all copies of NVTX share here; a number that means several things is not read.
  uint64_t Register(const NvtxDomain* domain, const nvtxPayloadSchemaAttr_t& attributes);
  uint64_t RegisterEnum(const NvtxDomain* domain, const nvtxPayloadEnumAttr_t& attributes);

  // As PayloadText(); empty: nothing is known of it. Null: there were too many different ones.
  std::optional<std::string> Text(const NvtxDomain* domain, const nvtxPayloadData_t& data);

 private:
  using Key = std::pair<const NvtxDomain*, uint64_t>;
  // What it points to stays: others may point there, too.
  struct Known {
    std::unique_ptr<const PayloadSchema> schema;
    std::unique_ptr<const PayloadEnum> values;
    bool is_ambiguous = false;
    std::set<std::string> texts;  // so far
  };

  // With mutex_ held, as what follows.
  Key KeyOf(const NvtxDomain* domain, std::optional<uint64_t> id) REQUIRES(mutex_);
  PayloadType Find(const NvtxDomain* domain, uint64_t id) const REQUIRES(mutex_);
  Known* Entry(const Key& key) REQUIRES(mutex_);  // null: there are too many

  Mutex mutex_;
  std::map<Key, Known> known_ GUARDED_BY(mutex_);
  size_t num_texts_ GUARDED_BY(mutex_) = 0;
  uint64_t last_id_ GUARDED_BY(mutex_) = NVTX_PAYLOAD_SCHEMA_ID_DYNAMIC_START;
};

}  // namespace shardscope::inject
