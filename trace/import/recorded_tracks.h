// RecordedTracks and RecordedShapes: tracks and shapes of a Recording, each kept once.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "trace/import/recording.h"

namespace shardscope::imports {

// At most kMostTracks, and one for the others of each kind.
class RecordedTracks {
 public:
  // The kind, and the numbers that tell tracks of that kind apart.
  using Key = std::tuple<TrackKind, int64_t, int64_t, int64_t>;

  // Keeps both. `not_understood`: what was not taken, as Recording has it.
  RecordedTracks(std::vector<RecordedTrack>* tracks, std::map<std::string, int64_t>* not_understood)
      : tracks_(*tracks), not_understood_(*not_understood) {}

  // `track`: what is added if there is none with this key.
  uint32_t Of(const Key& key, const RecordedTrack& track);
  // nullptr: there is none, or it is among the others. Valid until one is added.
  RecordedTrack* Find(const Key& key);

 private:
  uint32_t Others(TrackKind kind);

  std::vector<RecordedTrack>& tracks_;
  std::map<std::string, int64_t>& not_understood_;
  std::map<Key, uint32_t> index_of_;
  // Most events are of the track of the one before; nullptr: there was none.
  const std::pair<const Key, uint32_t>* last_ = nullptr;
};

class RecordedShapes {
 public:
  // Keeps it.
  explicit RecordedShapes(std::vector<KernelShape>* shapes) : shapes_(*shapes) {}

  uint32_t Of(const KernelShape& shape);

 private:
  std::vector<KernelShape>& shapes_;
  std::map<KernelShape, uint32_t> index_of_;
};

}  // namespace shardscope::imports
