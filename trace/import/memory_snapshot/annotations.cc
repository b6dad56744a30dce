#include "trace/import/memory_snapshot/annotations.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string_view>
#include <utility>

#include "trace/base/reasons.h"
#include "trace/base/sane_time.h"
#include "trace/base/text.h"
#include "trace/base/torch_range_names.h"
#include "trace/import/host_context.h"

namespace shardscope::imports {
namespace {

constexpr int32_t kMostAnnotatedDevices = 1024;
// Deeper ones count as open as long as the outer ones.
constexpr size_t kMostOpenRanges = 64;
constexpr size_t kLongestRangeName = 512;

}  // namespace

std::optional<int64_t> NsOfUs(std::optional<int64_t> time_us) {
  constexpr int64_t kMostUs = kLatestSaneNs / 1000;
  if (!time_us || *time_us <= 0 || *time_us > kMostUs) return std::nullopt;
  return *time_us * 1000;
}

Annotations::Annotations(const Document& document, const Value* annotations, UnknownFields* unknown,
                         Recording* recording)
    : recording_(*recording) {
  if (annotations == nullptr) return;
  for (const Value& annotation : document.Items(*annotations)) Take(document, annotation, unknown);
  for (auto& [number, device] : devices_) {
    std::stable_sort(device.moments.begin(), device.moments.end(),
                     [](const Moment& a, const Moment& b) { return a.time_ns < b.time_ns; });
    WriteSpans(number, device);
  }
}

void Annotations::Take(const Document& document, const Value& annotation, UnknownFields* unknown) {
  Moment moment;
  int64_t device = 0;
  std::optional<int64_t> time_ns;
  std::string_view stage;
  for (const auto& [name, value] : document.FieldsOf(annotation)) {
    const std::string_view key = name.text();
    if (key == "name") {
      moment.name = recording_.names.Add(Printable(value.text().substr(0, kLongestRangeName)));
    } else if (key == "stage") {
      stage = value.text();
    } else if (key == "device") {
      device = value.whole().value_or(-1);
    } else if (key == "time_us") {
      time_ns = NsOfUs(value.whole());
    } else {
      unknown->Count("an annotation", name);
    }
  }
  moment.begins = stage == "START";
  if (!time_ns || device < 0 || device >= kMostAnnotatedDevices ||
      (!moment.begins && stage != "END")) {
    ++recording_.not_understood["annotations without a time, a device or a stage that is known"];
    return;
  }
  moment.time_ns = *time_ns;
  first_ns_ = std::min(first_ns_.value_or(*time_ns), *time_ns);
  last_ns_ = std::max(last_ns_.value_or(*time_ns), *time_ns);
  devices_[static_cast<int32_t>(device)].moments.push_back(moment);
}

// Takes the innermost range of this name away; false: there is none.
bool Annotations::Close(std::vector<Open>* open, Names::Index name, Open* closed) {
  const auto found = std::find_if(open->rbegin(), open->rend(),
                                  [name](const Open& one) { return one.name == name; });
  if (found == open->rend()) return false;
  *closed = *found;
  open->erase(std::next(found).base());
  return true;
}

void Annotations::WriteSpans(int32_t number, const Device& device) {
  const auto track = static_cast<uint32_t>(recording_.tracks.size());
  recording_.tracks.push_back({.kind = TrackKind::kThread,
                               .thread = -1,
                               .name = fmt::format(reasons::kRangesWhileRecorded, number)});
  std::vector<Open> open;
  const auto write = [&](const Open& range, int64_t end_ns) {
    recording_.spans.push_back({.start_ns = range.start_ns,
                                .duration_ns = end_ns - range.start_ns,
                                .name = range.name,
                                .track = track});
    const std::string& name = recording_.names[range.name];
    if (!name.starts_with(torch_range_names::kStep)) return;
    int64_t step = -1;
    std::from_chars(name.data() + torch_range_names::kStep.size(), name.data() + name.size(), step);
    if (step >= 0) recording_.steps.push_back({step, range.start_ns, end_ns - range.start_ns});
  };
  for (const Moment& moment : device.moments) {
    if (moment.begins) {
      if (open.size() < kMostOpenRanges) {
        open.push_back({moment.name, moment.time_ns});
      } else {
        ++recording_.not_understood["ranges more than 64 deep"];
      }
      continue;
    }
    Open closed;
    if (Close(&open, moment.name, &closed)) {
      write(closed, moment.time_ns);
    } else {
      ++recording_.not_understood["ends of ranges that began before"];
    }
  }
  for (const Open& left : open) write(left, device.moments.back().time_ns);
}

const Annotations::Owner& Annotations::PartOf(Names::Index name) {
  const auto [known, is_new] = part_of_.try_emplace(name);
  if (is_new) {
    const NamedPart part = PartOfRange(recording_.names[name]);
    known->second = {name, recording_.names.Add(part.unit), part.phase};
  }
  return known->second;
}

Annotations::Owner Annotations::OwnerOf(const std::vector<Open>& open) {
  Owner owner;
  if (!open.empty()) owner.range = open.back().name;
  for (auto range = open.rbegin(); range != open.rend(); ++range) {
    const Owner& part = PartOf(range->name);
    if (owner.unit == 0) owner.unit = part.unit;
    if (!owner.phase) owner.phase = part.phase;
  }
  return owner;
}

Annotations::Owner Annotations::OwnerAt(int32_t number, int64_t time_ns) {
  const auto found = devices_.find(number);
  if (found == devices_.end()) return {};
  Device& device = found->second;
  const size_t before = device.next;
  for (; device.next < device.moments.size() && device.moments[device.next].time_ns <= time_ns;
       ++device.next) {
    const Moment& moment = device.moments[device.next];
    Open closed;
    if (!moment.begins) {
      (void)Close(&device.open, moment.name, &closed);
    } else if (device.open.size() < kMostOpenRanges) {
      device.open.push_back({moment.name, moment.time_ns});
    }
  }
  if (device.next != before) device.owner = OwnerOf(device.open);
  return device.owner;
}

}  // namespace shardscope::imports
