#include "trace/import/pickle/stacks.h"

#include <fmt/format.h>

#include "trace/base/text.h"

namespace shardscope::imports {
namespace {

constexpr size_t kMostFrames = 100;
constexpr size_t kMostStackBytes = 16 << 10;
constexpr size_t kMostNameBytes = 512;

std::string Clipped(std::string_view text) { return Printable(text.substr(0, kMostNameBytes)); }

}  // namespace

void UnknownFields::Count(std::string_view of, const Value& key) {
  std::string what = fmt::format("field \"{}\" of {}", Describe(key), of);
  const auto known = counts_.find(what);
  if (known != counts_.end()) {
    ++known->second;
  } else if (counts_.size() < kMostNames) {
    counts_.emplace(std::move(what), 1);
  } else {
    ++counts_["fields with yet other names"];
  }
}

const std::string& Stacks::FrameText(const Value& frame) {
  const auto [known, is_new] = frame_of_.try_emplace(frame.container());
  if (!is_new) return known->second;
  std::string_view name;
  std::string_view file;
  int64_t line = -1;
  for (const auto& [field, value] : document_.FieldsOf(frame)) {
    const std::string_view key = field.text();
    if (key == "name") {
      name = value.text();
    } else if (key == "filename") {
      file = value.text();
    } else if (key == "line") {
      line = value.whole().value_or(-1);
    } else {
      unknown_.Count("a frame", field);
    }
  }
  std::string& text = known->second;
  text = name.empty() ? "?" : Clipped(name);
  if (!file.empty() && line >= 0) {
    text += fmt::format(" ({}:{})", Clipped(file), line);
  } else if (!file.empty()) {
    text += fmt::format(" ({})", Clipped(file));
  }
  return text;
}

Names::Index Stacks::Take(const Value& frames) {
  const std::span<const Value> list = document_.Items(frames);
  if (list.empty() || frames.kind() == ValueKind::kDict) return 0;
  const auto [known, is_new] = stack_of_.try_emplace(frames.container(), 0);
  if (!is_new) return known->second;
  std::string text;
  size_t taken = 0;
  for (const Value& frame : list) {
    if (frame.kind() != ValueKind::kDict) continue;
    if (taken == kMostFrames || text.size() > kMostStackBytes) {
      text += fmt::format("\n({} more)", list.size() - taken);
      break;
    }
    ++taken;
    if (!text.empty()) text += '\n';
    text += FrameText(frame);
  }
  return known->second = names_.Add(text);
}

}  // namespace shardscope::imports
