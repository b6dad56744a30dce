#include "trace/record/inject/nvtx/payload_schemas.h"

#include "trace/base/mutex.h"

namespace shardscope::inject {
namespace {

constexpr size_t kMaxKnown = 1 << 12;
constexpr size_t kMaxAllTexts = 1 << 14;

bool IsNew(uint64_t id) { return id >= NVTX_PAYLOAD_SCHEMA_ID_DYNAMIC_START; }
bool IsOfNvtx(uint64_t id) { return id < NVTX_PAYLOAD_SCHEMA_ID_STATIC_START; }

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
  const Key key = KeyOf(domain, id);
  Known* const known = Entry(key);
  if (known == nullptr) return key.second;
  if (known->schema == nullptr && known->values == nullptr) {
    known->schema = std::make_unique<const PayloadSchema>(std::move(made));
  } else if (known->schema == nullptr || *known->schema != made) {
    known->is_ambiguous = true;
  }
  return key.second;
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
  const Key key = KeyOf(domain, id);
  Known* const known = Entry(key);
  if (known == nullptr) return key.second;
  if (known->schema == nullptr && known->values == nullptr) {
    known->values = std::make_unique<const PayloadEnum>(std::move(made));
  } else if (known->values == nullptr || *known->values != made) {
    known->is_ambiguous = true;
  }
  return key.second;
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

}  // namespace shardscope::inject
