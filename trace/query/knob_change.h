// Which markers of a run are changes of a knob.
#pragma once

namespace shardscope::query {

// Whether a marker (query::Marker, or its row in the file) says that a knob was turned; not that
// the run found a value for `auto`, nor that it was set to what it was.
template <typename AnyMarker>
bool IsKnobChange(const AnyMarker& marker) {
  return marker.kind == "change" && !marker.key.empty() && marker.old_value != marker.new_value &&
         !marker.old_value.starts_with("auto:");
}

}  // namespace shardscope::query
