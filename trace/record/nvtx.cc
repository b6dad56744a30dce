#include "trace/record/nvtx.h"

#include <nvtx3/nvToolsExt.h>

#include <cstdlib>

namespace shardscope::record {
namespace {

nvtxDomainHandle_t Domain() {
  static const nvtxDomainHandle_t domain = nvtxDomainCreateA("shardscope");
  return domain;
}

}  // namespace

bool NvtxAttached() {
  static const bool attached = std::getenv("NVTX_INJECTION64_PATH") != nullptr;
  return attached;
}

void NvtxRange::Start(const char* name) {
  nvtxEventAttributes_t event = {};
  event.version = NVTX_VERSION;
  event.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  event.messageType = NVTX_MESSAGE_TYPE_ASCII;
  event.message.ascii = name;
  id_ = nvtxDomainRangeStartEx(Domain(), &event);
  started_ = true;
}

void NvtxRange::End() { nvtxDomainRangeEnd(Domain(), id_); }

}  // namespace shardscope::record
