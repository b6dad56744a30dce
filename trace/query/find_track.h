// A track of a Snapshot, and the stream of a GPU that it is, by its id.
#pragma once

#include <algorithm>
#include <unordered_map>

#include "trace/query/snapshot.h"

namespace shardscope::query {

// nullptr if there is none. Looks at all tracks: for one a row there is RolesOfTracks().
inline const Track* FindTrack(const Snapshot& snapshot, TrackId id) {
  const auto found = std::ranges::find(snapshot.tracks, id, &Track::id);
  return found == snapshot.tracks.end() ? nullptr : &*found;
}

// nullptr if that track is no stream of a GPU.
inline const GpuStream* FindStream(const Snapshot& snapshot, TrackId track) {
  const auto found = std::ranges::find(snapshot.gpu_streams, track, &GpuStream::track);
  return found == snapshot.gpu_streams.end() ? nullptr : &*found;
}

inline std::unordered_map<TrackId, TrackRole> RolesOfTracks(const Snapshot& snapshot) {
  std::unordered_map<TrackId, TrackRole> roles;
  for (const Track& track : snapshot.tracks) roles[track.id] = track.role;
  return roles;
}

}  // namespace shardscope::query
