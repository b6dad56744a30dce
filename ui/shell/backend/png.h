// Pixels as a PNG file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trace/base/status.h"

namespace shardscope::shell {

struct Image {
  int width = 0;
  int height = 0;
  std::vector<uint8_t> rgba;  // rows from the top
};

// Of pixels as OpenGL reads them, from the lowest row on; all are made opaque.
Image ImageFromBelow(int width, int height, const std::vector<uint8_t>& bottom_up);

// The bytes of a PNG file. Error: no memory.
Result<std::string> EncodePng(const Image& image);

// Errors name the path and the system's message; a file half written is removed.
Status WritePng(const Image& image, const std::string& path);

}  // namespace shardscope::shell
