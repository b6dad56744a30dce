// PayloadSchemas: what the libraries of the process have registered about their structured
// payloads.
//
// Threads: any. Not in a forked child, whose lock may be held for ever.
#pragma once

#include <nvtx3/nvToolsExt.h>

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

  Key KeyOf(const NvtxDomain* domain, std::optional<uint64_t> id) REQUIRES(mutex_);
  PayloadType Find(const NvtxDomain* domain, uint64_t id) const REQUIRES(mutex_);
  Known* Entry(const Key& key) REQUIRES(mutex_);  // null: there are too many
  // The number of what was made, which becomes that member of what the number means.
  template <typename Made>
  uint64_t Keep(const NvtxDomain* domain, std::optional<uint64_t> id, Made made,
                std::unique_ptr<const Made> Known::*member) REQUIRES(mutex_);

  Mutex mutex_;
  std::map<Key, Known> known_ GUARDED_BY(mutex_);
  size_t num_texts_ GUARDED_BY(mutex_) = 0;
  uint64_t last_id_ GUARDED_BY(mutex_) = NVTX_PAYLOAD_SCHEMA_ID_DYNAMIC_START;
};

// What an event of NVTX carries beside its message: a plain number, or structures whose layout the
// library has registered.
//
// Note: NCCL's payloads
// NCCL passes an array of {schema, size, pointer}, as nvToolsExtPayload.h has it, with numbers of
// schemas that are fixed in its source (src/include/nvtx.h); it registers their layout only once
// a communicator is made. The layouts here are those of NCCL 2.28: communicator's hash, bytes of a
// rank, then, of most, one number more. What has another size is read as it was registered.
struct NvtxPayload {
  std::string text;  // becomes part of the range's name: " (communicator 1a2b, 64 bytes, peer 3)"
  std::optional<double> number;  // becomes a counter where the range begins
};

// `event` may be null, and `domain`: the default one. Nothing is read where nothing is recorded.
NvtxPayload PayloadOf(const nvtxEventAttributes_t* event, const NvtxDomain* domain);

}  // namespace shardscope::inject
