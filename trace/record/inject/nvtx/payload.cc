#include "trace/record/inject/nvtx/payload.h"

#include <fmt/format.h>
#include <nvtx3/nvToolsExtPayload.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "trace/record/inject/nvtx/nvtx_ranges.h"
#include "trace/record/inject/nvtx/payload_schemas.h"
#include "trace/record/inject/process_recording.h"

namespace shardscope::inject {
namespace {

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
    if (!text) recording.CountLost("nvtx", "payloads: more different values than are kept", 1);
    if (!text || text->empty()) continue;
    all += (all.empty() ? " (" : ", ") + *text;
  }
  return all.empty() ? all : all + ")";
}

}  // namespace

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
