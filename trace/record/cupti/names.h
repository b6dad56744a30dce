// Names: kernel names (and kinds of overhead) as small numbers.
//
// CUPTI gives a name as a pointer that many records share. Once its module is unloaded another name
// may stand at the same place, so the text is compared each time. Raw buffers kept as fixtures
// bring a table from pointer to text instead.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace shardscope::cupti {

// One thread.
class Names {
 public:
  using Resolve = std::function<std::string(const char* pointer)>;

  // `resolve` turns a record's pointer into text, once; by default the pointer is read.
  explicit Names(Resolve resolve = nullptr) : resolve_(std::move(resolve)) {}

  int32_t OfText(std::string_view text);
  // Null is the empty name.
  int32_t OfPointer(const char* pointer);
  // Of a call of the runtime or driver; `name` is asked once.
  int32_t OfCall(bool driver, uint32_t callback, const std::function<std::string()>& name);
  const std::string& Text(int32_t name) const { return texts_.at(static_cast<size_t>(name)); }
  int32_t size() const { return static_cast<int32_t>(texts_.size()); }

 private:
  Resolve resolve_;
  struct Resolved {
    std::string text;  // as it stood there
    int32_t name = 0;
  };
  std::unordered_map<const char*, Resolved> by_pointer_;
  std::unordered_map<std::string, int32_t> by_text_;
  std::unordered_map<uint64_t, int32_t> by_call_;
  std::vector<std::string> texts_;
};

// `mangled` as C++ writes it, or as it is if it is no mangled name.
std::string Demangle(const std::string& mangled);

}  // namespace shardscope::cupti
