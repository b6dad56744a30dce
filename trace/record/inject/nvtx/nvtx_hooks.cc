#include <array>
#include <atomic>
#include <cstddef>
#include <string>
#include <utility>

#include "trace/record/inject/guarded.h"
#include "trace/record/inject/hooks.h"
#include "trace/record/inject/nvtx/nvtx_ranges.h"
#include "trace/record/inject/nvtx/payload_schemas.h"
#include "trace/record/inject/process_recording.h"

namespace shardscope::inject {
namespace {

// Copies of NVTX with handlers of their own; later ones share the last.
constexpr size_t kMaxCopies = 16;

NvtxRanges& RangesOf(size_t copy) {
  // Never destroyed: other threads may still report while the process ends.
  static auto* const ranges = new std::array<NvtxRanges, kMaxCopies>;
  return (*ranges)[copy];
}

void WriteOpenRanges(ProcessRecording& recording) {
  const int64_t end_ns = recording.EndNs();
  ThreadRanges::WriteOpenOfAll(recording, end_ns);
  for (size_t copy = 0; copy < kMaxCopies; ++copy) RangesOf(copy).WriteOpen(recording, end_ns);
}

std::string_view GivenText(const char* text) { return text == nullptr ? "" : text; }

// UTF-8 of what the platform's wchar_t (UTF-32) holds.
std::string Narrow(const wchar_t* wide) {
  std::string text;
  for (; wide != nullptr && *wide != 0; ++wide) {
    const auto code = static_cast<uint32_t>(*wide);
    const auto tail = [&](int shift) {
      text += static_cast<char>(0x80 | ((code >> shift) & 0x3F));
    };
    if (code < 0x80) {
      text += static_cast<char>(code);
    } else if (code < 0x800) {
      text += static_cast<char>(0xC0 | (code >> 6));
      tail(0);
    } else if (code < 0x10000) {
      text += static_cast<char>(0xE0 | (code >> 12));
      tail(6);
      tail(0);
    } else {
      text += static_cast<char>(0xF0 | ((code >> 18) & 7));
      tail(12);
      tail(6);
      tail(0);
    }
  }
  return text;
}

NvtxDomain* DomainOf(nvtxDomainHandle_t handle) { return reinterpret_cast<NvtxDomain*>(handle); }

// Calls `use` with the event's message.
template <typename Use>
auto WithMessage(const nvtxEventAttributes_t* event, Use use) {
  if (event == nullptr) return use(std::string_view());
  switch (event->messageType) {
    case NVTX_MESSAGE_TYPE_ASCII:
      return use(GivenText(event->message.ascii));
    case NVTX_MESSAGE_TYPE_UNICODE:
      return use(std::string_view(Narrow(event->message.unicode)));
    case NVTX_MESSAGE_TYPE_REGISTERED: {
      const auto* registered = reinterpret_cast<const NvtxString*>(event->message.registered);
      return use(registered == nullptr ? std::string_view() : std::string_view(registered->text));
    }
    default:
      return use(std::string_view());
  }
}

// What NVTX calls: its functions carry no pointer to their copy, so each copy gets functions of its
// own.
template <size_t kCopy>
struct Handlers {
  static NvtxRanges& Ranges() { return RangesOf(kCopy); }
  using Event = const nvtxEventAttributes_t*;

  static void MarkEx(Event event) { DomainMarkEx(nullptr, event); }
  static void MarkA(const char* text) { Ranges().Mark(nullptr, GivenText(text)); }
  static void MarkW(const wchar_t* text) { Ranges().Mark(nullptr, Narrow(text)); }
  static nvtxRangeId_t RangeStartEx(Event event) { return DomainRangeStartEx(nullptr, event); }
  static nvtxRangeId_t RangeStartA(const char* text) {
    return Ranges().Start(nullptr, GivenText(text));
  }
  static nvtxRangeId_t RangeStartW(const wchar_t* text) {
    return Ranges().Start(nullptr, Narrow(text));
  }
  static void RangeEnd(nvtxRangeId_t id) { Ranges().End(id); }
  static int RangePushEx(Event event) { return DomainRangePushEx(nullptr, event); }
  static int RangePushA(const char* text) { return Ranges().Push(nullptr, GivenText(text)); }
  static int RangePushW(const wchar_t* text) { return Ranges().Push(nullptr, Narrow(text)); }
  static int RangePop() { return Ranges().Pop(nullptr); }

  static void DomainMarkEx(nvtxDomainHandle_t domain, Event event) {
    WithMessage(event, [&](std::string_view text) {
      Ranges().Mark(DomainOf(domain), text, PayloadOf(event, DomainOf(domain)));
    });
  }
  static nvtxRangeId_t DomainRangeStartEx(nvtxDomainHandle_t domain, Event event) {
    return WithMessage(event, [&](std::string_view text) {
      return Ranges().Start(DomainOf(domain), text, PayloadOf(event, DomainOf(domain)));
    });
  }
  static void DomainRangeEnd(nvtxDomainHandle_t /*domain*/, nvtxRangeId_t id) { Ranges().End(id); }
  static int DomainRangePushEx(nvtxDomainHandle_t domain, Event event) {
    return WithMessage(event, [&](std::string_view text) {
      return Ranges().Push(DomainOf(domain), text, PayloadOf(event, DomainOf(domain)));
    });
  }
  static int DomainRangePop(nvtxDomainHandle_t domain) { return Ranges().Pop(DomainOf(domain)); }
  static nvtxStringHandle_t RegisterStringA(nvtxDomainHandle_t /*domain*/, const char* text) {
    return reinterpret_cast<nvtxStringHandle_t>(Ranges().Register(GivenText(text)));
  }
  static nvtxStringHandle_t RegisterStringW(nvtxDomainHandle_t /*domain*/, const wchar_t* text) {
    return reinterpret_cast<nvtxStringHandle_t>(Ranges().Register(Narrow(text)));
  }
  static nvtxDomainHandle_t DomainCreateA(const char* name) {
    return reinterpret_cast<nvtxDomainHandle_t>(Ranges().Domain(GivenText(name)));
  }
  static nvtxDomainHandle_t DomainCreateW(const wchar_t* name) {
    return reinterpret_cast<nvtxDomainHandle_t>(Ranges().Domain(Narrow(name)));
  }
};

// One module's slots: entries that this copy of NVTX does not have are null or beyond its size.
class Slots {
 public:
  Slots(const NvtxExportTableCallbacks& callbacks, NvtxCallbackModule module) {
    if (callbacks.GetModuleFunctionTable(module, &table_, &size_) != 1) size_ = 0;
  }
  template <auto kFunction>
  void Set(unsigned id) {
    if (id >= size_ || table_ == nullptr || table_[id] == nullptr) return;
    *table_[id] = reinterpret_cast<NvtxFunctionPointer>(&Hook<kFunction>::Call);
  }

 private:
  NvtxFunctionTable table_ = nullptr;
  unsigned size_ = 0;
};

// Functions that are not set stay empty, and NVTX skips them.
template <size_t kCopy>
void Install(const NvtxExportTableCallbacks& callbacks) {
  using H = Handlers<kCopy>;
  Slots core(callbacks, NVTX_CB_MODULE_CORE);
  core.Set<&H::MarkEx>(NVTX_CBID_CORE_MarkEx);
  core.Set<&H::MarkA>(NVTX_CBID_CORE_MarkA);
  core.Set<&H::MarkW>(NVTX_CBID_CORE_MarkW);
  core.Set<&H::RangeStartEx>(NVTX_CBID_CORE_RangeStartEx);
  core.Set<&H::RangeStartA>(NVTX_CBID_CORE_RangeStartA);
  core.Set<&H::RangeStartW>(NVTX_CBID_CORE_RangeStartW);
  core.Set<&H::RangeEnd>(NVTX_CBID_CORE_RangeEnd);
  core.Set<&H::RangePushEx>(NVTX_CBID_CORE_RangePushEx);
  core.Set<&H::RangePushA>(NVTX_CBID_CORE_RangePushA);
  core.Set<&H::RangePushW>(NVTX_CBID_CORE_RangePushW);
  core.Set<&H::RangePop>(NVTX_CBID_CORE_RangePop);
  Slots core2(callbacks, NVTX_CB_MODULE_CORE2);
  core2.Set<&H::DomainMarkEx>(NVTX_CBID_CORE2_DomainMarkEx);
  core2.Set<&H::DomainRangeStartEx>(NVTX_CBID_CORE2_DomainRangeStartEx);
  core2.Set<&H::DomainRangeEnd>(NVTX_CBID_CORE2_DomainRangeEnd);
  core2.Set<&H::DomainRangePushEx>(NVTX_CBID_CORE2_DomainRangePushEx);
  core2.Set<&H::DomainRangePop>(NVTX_CBID_CORE2_DomainRangePop);
  core2.Set<&H::RegisterStringA>(NVTX_CBID_CORE2_DomainRegisterStringA);
  core2.Set<&H::RegisterStringW>(NVTX_CBID_CORE2_DomainRegisterStringW);
  core2.Set<&H::DomainCreateA>(NVTX_CBID_CORE2_DomainCreateA);
  core2.Set<&H::DomainCreateW>(NVTX_CBID_CORE2_DomainCreateW);
}

template <size_t... kCopies>
void InstallCopy(size_t copy, const NvtxExportTableCallbacks& callbacks,
                 std::index_sequence<kCopies...> /*all*/) {
  ((copy == kCopies ? Install<kCopies>(callbacks) : void()), ...);
}

// What the extension for payloads calls, of all copies of NVTX.
uint64_t RegisterSchema(nvtxDomainHandle_t domain, const nvtxPayloadSchemaAttr_t* attributes) {
  if (attributes == nullptr || ProcessRecording::Taking() == nullptr) return 0;
  return PayloadSchemas::OfProcess().Register(DomainOf(domain), *attributes);
}

uint64_t RegisterEnum(nvtxDomainHandle_t domain, const nvtxPayloadEnumAttr_t* attributes) {
  if (attributes == nullptr || ProcessRecording::Taking() == nullptr) return 0;
  return PayloadSchemas::OfProcess().RegisterEnum(DomainOf(domain), *attributes);
}

}  // namespace

int AttachNvtxExtension(nvtxExtModuleInfo_t* module) {
  if (module == nullptr || ProcessRecording::Open() == nullptr) return 0;
  // Of what is not set NVTX makes functions that do nothing.
  if (module->structSize < sizeof(nvtxExtModuleInfo_t) ||
      module->moduleId != NVTX_EXT_PAYLOAD_MODULEID || module->segmentsCount == 0 ||
      module->segments == nullptr) {
    return 1;
  }
  const nvtxExtModuleSegment_t& slots = module->segments[0];
  const auto set = [&](size_t id, auto function) {
    if (slots.functionSlots == nullptr || id >= slots.slotCount) return;
    slots.functionSlots[id] = reinterpret_cast<intptr_t>(function);
  };
  set(NVTX3EXT_CBID_nvtxPayloadSchemaRegister, &Hook<&RegisterSchema>::Call);
  set(NVTX3EXT_CBID_nvtxPayloadEnumRegister, &Hook<&RegisterEnum>::Call);
  return 1;
}

int AttachNvtx(NvtxGetExportTableFunc_t get_export_table) {
  if (get_export_table == nullptr) return 0;
  const auto* callbacks =
      static_cast<const NvtxExportTableCallbacks*>(get_export_table(NVTX_ETID_CALLBACKS));
  if (callbacks == nullptr || callbacks->struct_size < sizeof(NvtxExportTableCallbacks)) return 0;
  ProcessRecording* recording = ProcessRecording::Open();
  if (recording == nullptr) return 0;
  static std::atomic<size_t> num_copies = 0;
  const size_t copy = std::min(num_copies.fetch_add(1), kMaxCopies - 1);
  RangesOf(copy);  // made before a handler needs it
  InstallCopy(copy, *callbacks, std::make_index_sequence<kMaxCopies>());
  if (copy == 0) recording->AddAtEnd(&WriteOpenRanges);
  recording->SourceOn("nvtx");
  return 1;
}

}  // namespace shardscope::inject
