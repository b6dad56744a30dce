#include "trace/record/cupti/names.h"

#include <cxxabi.h>

#include <cstdlib>
#include <memory>
#include <utility>

namespace shardscope::cupti {

int32_t Names::OfText(std::string_view text) {
  const auto [entry, is_new] = by_text_.try_emplace(std::string(text), size());
  if (is_new) texts_.emplace_back(text);
  return entry->second;
}

int32_t Names::OfPointer(const char* pointer) {
  if (pointer == nullptr) return OfText("");
  const auto known = by_pointer_.find(pointer);
  if (known != by_pointer_.end() && (resolve_ || known->second.text == pointer)) {
    return known->second.name;
  }
  Resolved resolved{resolve_ ? resolve_(pointer) : std::string(pointer)};
  resolved.name = OfText(Demangle(resolved.text));
  return (by_pointer_[pointer] = std::move(resolved)).name;
}

int32_t Names::OfCall(bool driver, uint32_t callback, const std::function<std::string()>& name) {
  const uint64_t call = uint64_t{driver} << 32 | callback;
  const auto known = by_call_.find(call);
  if (known != by_call_.end()) return known->second;
  const int32_t id = OfText(name());
  by_call_.emplace(call, id);
  return id;
}

std::string Demangle(const std::string& mangled) {
  if (!mangled.starts_with("_Z")) return mangled;
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &status), &std::free);
  return status == 0 && text ? std::string(text.get()) : mangled;
}

}  // namespace shardscope::cupti
