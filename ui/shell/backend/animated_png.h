// AnimatedPng: frames as one animated PNG file (https://wiki.mozilla.org/APNG_Specification): a
// viewer without animation shows the first. A frame takes what has changed since the one
// before.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "trace/base/output_file.h"
#include "trace/base/status.h"
#include "ui/shell/backend/png.h"

namespace shardscope::shell {

class AnimatedPng {
 public:
  // Of `frames` pictures that are shown for `frame_ns` each (a millisecond to a minute), over and
  // over.
  static Result<AnimatedPng> Create(const std::string& path, int frames, int64_t frame_ns);

  // All of one size. Errors: no memory, those of OutputFile.
  Status Add(const Image& image);

  // After all frames; without it there is no file.
  Status Close();

 private:
  AnimatedPng(OutputFile file, int frames, int64_t frame_ns)
      : file_(std::move(file)), frames_(frames), frame_ns_(frame_ns) {}
  Status WriteChunk(std::string_view type, std::string_view data);
  Status Begin(std::string_view header);

  OutputFile file_;
  int frames_;
  int64_t frame_ns_;
  Image last_;
  uint32_t sequence_ = 0;  // of the chunks of the animation
};

}  // namespace shardscope::shell
