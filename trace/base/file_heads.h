// What files of other programs are, by their first bytes: asked by whoever imports them, and by
// whoever says what a file is that holds no trace.
#pragma once

#include <initializer_list>
#include <string_view>

namespace shardscope {

// Whether a pickle or a JSON object begins with `head`, in which each of `keys` stands as a text.
bool HasKeys(std::string_view head, std::initializer_list<std::string_view> keys);

// Dumps of PyTorch's flight recorder: a pickle, and JSON where it is asked to.
bool IsFlightRecorder(std::string_view head);

}  // namespace shardscope
