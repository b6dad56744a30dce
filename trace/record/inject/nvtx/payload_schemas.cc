#include "trace/record/inject/nvtx/payload_schemas.h"

#include <fmt/format.h>
#include <nvtx3/nvToolsExtPayload.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "trace/base/mutex.h"
#include "trace/base/reasons.h"
#include "trace/record/inject/nvtx/nvtx_ranges.h"
#include "trace/record/inject/process_recording.h"

namespace shardscope::inject {
namespace {

constexpr size_t kMaxKnown = 1 << 12;
constexpr size_t kMaxAllTexts = 1 << 14;

bool IsNew(uint64_t id) { return id >= NVTX_PAYLOAD_SCHEMA_ID_DYNAMIC_START; }
bool IsOfNvtx(uint64_t id) { return id < NVTX_PAYLOAD_SCHEMA_ID_STATIC_START; }

constexpr std::string_view kNcclDomain = "NCCL";
constexpr uint64_t kNcclSchemas = 1 << 24;  // the first of them is this and its own number
constexpr int32_t kMaxParts = 16;           // of an event's payload

// The third number of a payload.
enum class Third : uint8_t { kNone, kReduction, kRoot, kPeer };
struct Schema {
  uint64_t number;
  Third third;
};
constexpr std::array kSchemas = {
    Schema{4, Third::kNone},       // AllGather
    Schema{5, Third::kReduction},  // AllReduce
    Schema{6, Third::kRoot},       // Broadcast
    Schema{7, Third::kReduction},  // ReduceScatter
    Schema{9, Third::kPeer},       // Send
    Schema{10, Third::kPeer},      // Recv
    Schema{16, Third::kNone},      // AlltoAll
};

struct NcclPayload {
  uint64_t communicator;
  uint64_t bytes;
  int32_t third;  // if there is one; four bytes of nothing follow
};
constexpr size_t kSizeWithoutThird = 16;
static_assert(sizeof(NcclPayload) == 24);

// ncclRedOp_t; what a program makes of its own has higher numbers.
std::string ReductionName(int32_t operation) {
  constexpr std::array<std::string_view, 5> kNames = {"sum", "product", "maximum", "minimum",
                                                      "average"};
  const auto index = static_cast<size_t>(operation);
  return index < kNames.size() ? std::string(kNames[index])
                               : fmt::format("operation {}", operation);
}

std::string TextOf(const Schema& schema, const nvtxPayloadData_t& data) {
  const bool has_third = schema.third != Third::kNone;
  const size_t size = has_third ? sizeof(NcclPayload) : kSizeWithoutThird;
  if (data.size != size || data.payload == nullptr) return "";
  NcclPayload payload = {};
  std::memcpy(&payload, data.payload, size);
  std::string text =
      fmt::format(" (communicator {:x}, {} bytes", payload.communicator, payload.bytes);
  switch (schema.third) {
    case Third::kReduction:
      text += ", " + ReductionName(payload.third);
      break;
    case Third::kRoot:
      text += fmt::format(", root {}", payload.third);
      break;
    case Third::kPeer:
      text += fmt::format(", peer {}", payload.third);
      break;
    case Third::kNone:
      break;
  }
  return text + ")";
}

std::string NcclText(const nvtxPayloadData_t& part) {
  for (const Schema& schema : kSchemas) {
    if (part.schemaId == kNcclSchemas + schema.number) return TextOf(schema, part);
  }
  return "";
}

// Of all parts of an extended payload, in parentheses.
std::string TextOf(const nvtxEventAttributes_t& event, const NvtxDomain* domain,
                   ProcessRecording& recording) {
  const auto* const parts = reinterpret_cast<const nvtxPayloadData_t*>(event.payload.ullValue);
  const int32_t num_parts = parts == nullptr ? 0 : std::min(event.reserved0, kMaxParts);
  std::string all;
  for (int32_t i = 0; i < num_parts; ++i) {
    if (domain != nullptr && domain->name == kNcclDomain) {
      std::string text = NcclText(parts[i]);
      if (!text.empty()) return text;
    }
    const std::optional<std::string> text = PayloadSchemas::OfProcess().Text(domain, parts[i]);
    if (!text) recording.CountLost("nvtx", reasons::kNvtxPayloads, 1);
    if (!text || text->empty()) continue;
    all += (all.empty() ? " (" : ", ") + *text;
  }
  return all.empty() ? all : all + ")";
}

}  // namespace

PayloadSchemas& PayloadSchemas::OfProcess() {
  static auto* const schemas = new PayloadSchemas;
  return *schemas;
}

// New numbers hold in all domains.
PayloadSchemas::Key PayloadSchemas::KeyOf(const NvtxDomain* domain, std::optional<uint64_t> id) {
  if (!id) return {nullptr, ++last_id_};
  return {IsNew(*id) ? nullptr : domain, *id};
}

PayloadType PayloadSchemas::Find(const NvtxDomain* domain, uint64_t id) const {
  const auto found = known_.find({IsNew(id) ? nullptr : domain, id});
  if (found == known_.end() || found->second.is_ambiguous) return {};
  return {found->second.schema.get(), found->second.values.get()};
}

PayloadSchemas::Known* PayloadSchemas::Entry(const Key& key) {
  const auto found = known_.find(key);
  if (found != known_.end()) return &found->second;
  return known_.size() < kMaxKnown ? &known_[key] : nullptr;
}

template <typename Made>
uint64_t PayloadSchemas::Keep(const NvtxDomain* domain, std::optional<uint64_t> id, Made made,
                              std::unique_ptr<const Made> Known::*member) {
  const Key key = KeyOf(domain, id);
  Known* const known = Entry(key);
  if (known == nullptr) return key.second;
  std::unique_ptr<const Made>& kept = known->*member;
  if (known->schema == nullptr && known->values == nullptr) {
    kept = std::make_unique<const Made>(std::move(made));
  } else if (kept == nullptr || *kept != made) {
    known->is_ambiguous = true;
  }
  return key.second;
}

uint64_t PayloadSchemas::Register(const NvtxDomain* domain,
                                  const nvtxPayloadSchemaAttr_t& attributes) {
  std::optional<uint64_t> id;
  if ((attributes.fieldMask & NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_SCHEMA_ID) != 0) {
    id = attributes.schemaId;
    if (IsOfNvtx(*id) || IsNew(*id)) return 0;
  }
  const MutexLock lock(mutex_);
  PayloadSchema made = MakePayloadSchema(
      attributes, [&](uint64_t type) REQUIRES(mutex_) { return Find(domain, type); });
  return Keep(domain, id, std::move(made), &Known::schema);
}

uint64_t PayloadSchemas::RegisterEnum(const NvtxDomain* domain,
                                      const nvtxPayloadEnumAttr_t& attributes) {
  std::optional<uint64_t> id;
  if ((attributes.fieldMask & NVTX_PAYLOAD_ENUM_ATTR_FIELD_SCHEMA_ID) != 0) {
    id = attributes.schemaId;
    if (IsOfNvtx(*id) || IsNew(*id)) return 0;
  }
  PayloadEnum made = MakePayloadEnum(attributes);
  const MutexLock lock(mutex_);
  return Keep(domain, id, std::move(made), &Known::values);
}

std::optional<std::string> PayloadSchemas::Text(const NvtxDomain* domain,
                                                const nvtxPayloadData_t& data) {
  Key key;
  PayloadSchema of_nvtx;
  const PayloadSchema* schema = &of_nvtx;
  if (IsOfNvtx(data.schemaId)) {
    key = {domain, data.schemaId};
    of_nvtx = SchemaOfType(data.schemaId, data.size);
  } else {
    const MutexLock lock(mutex_);
    key = KeyOf(domain, data.schemaId);
    schema = Find(domain, data.schemaId).schema;
  }
  if (schema == nullptr) return "";
  std::string text = PayloadText(*schema, data.payload, data.size);
  if (text.empty()) return text;
  const MutexLock lock(mutex_);
  Known* const known = Entry(key);
  if (known == nullptr) return std::nullopt;
  if (known->texts.contains(text)) return text;
  if (known->texts.size() >= kMaxPayloadTexts || num_texts_ >= kMaxAllTexts) return std::nullopt;
  ++num_texts_;
  known->texts.insert(text);
  return text;
}

NvtxPayload PayloadOf(const nvtxEventAttributes_t* event, const NvtxDomain* domain) {
  NvtxPayload payload;
  if (event == nullptr) return payload;
  const auto& value = event->payload;
  switch (event->payloadType) {
    case NVTX_PAYLOAD_TYPE_UNSIGNED_INT64:
      payload.number = static_cast<double>(value.ullValue);
      break;
    case NVTX_PAYLOAD_TYPE_INT64:
      payload.number = static_cast<double>(value.llValue);
      break;
    case NVTX_PAYLOAD_TYPE_DOUBLE:
      payload.number = value.dValue;
      break;
    case NVTX_PAYLOAD_TYPE_UNSIGNED_INT32:
      payload.number = value.uiValue;
      break;
    case NVTX_PAYLOAD_TYPE_INT32:
      payload.number = value.iValue;
      break;
    case NVTX_PAYLOAD_TYPE_FLOAT:
      payload.number = static_cast<double>(value.fValue);
      break;
    case NVTX_PAYLOAD_TYPE_EXT:
      // Null in a forked child, where no lock may be waited for.
      if (ProcessRecording* const recording = ProcessRecording::Taking()) {
        payload.text = TextOf(*event, domain, *recording);
      }
      break;
    default:
      break;
  }
  return payload;
}

}  // namespace shardscope::inject
