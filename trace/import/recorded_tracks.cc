#include "trace/import/recorded_tracks.h"

namespace shardscope::imports {

uint32_t RecordedTracks::Of(const Key& key, const RecordedTrack& track) {
  if (last_ != nullptr && last_->first == key) return last_->second;
  auto known = index_of_.find(key);
  if (known == index_of_.end()) {
    if (tracks_.size() >= kMostTracks) return Others(track.kind);
    known = index_of_.emplace(key, static_cast<uint32_t>(tracks_.size())).first;
    tracks_.push_back(track);
  }
  last_ = &*known;
  return known->second;
}

RecordedTrack* RecordedTracks::Find(const Key& key) {
  const auto known = index_of_.find(key);
  return known == index_of_.end() ? nullptr : &tracks_[known->second];
}

uint32_t RecordedTracks::Others(TrackKind kind) {
  ++not_understood_[std::string(kTooManyTracks)];
  const auto [others, is_new] = index_of_.try_emplace(
      {kind, kOtherTracks, kOtherTracks, kOtherTracks}, static_cast<uint32_t>(tracks_.size()));
  if (is_new) {
    tracks_.push_back({.kind = kind,
                       .process = kOtherTracks,
                       .thread = kOtherTracks,
                       .device = 0,
                       .stream = kOtherTracks,
                       .name = "others"});
  }
  return others->second;
}

uint32_t RecordedShapes::Of(const KernelShape& shape) {
  const auto [known, is_new] = index_of_.try_emplace(shape, static_cast<uint32_t>(shapes_.size()));
  if (is_new) shapes_.push_back(shape);
  return known->second;
}

}  // namespace shardscope::imports
