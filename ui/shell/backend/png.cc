#include "ui/shell/backend/png.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

// stb's code is third-party: its warnings are not ours.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wold-style-cast"
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
#pragma GCC diagnostic ignored "-Wunused-function"
#define STB_IMAGE_WRITE_IMPLEMENTATION
#define STB_IMAGE_WRITE_STATIC
#include <stb/stb_image_write.h>
#pragma GCC diagnostic pop

namespace shardscope::shell {

Status WritePng(const Image& image, const std::string& path) {
  std::FILE* file = std::fopen(path.c_str(), "wb");
  if (file == nullptr) {
    return Status::Error(fmt::format("cannot write {}: {}; choose another place with -o", path,
                                     std::strerror(errno)));
  }
  const auto write = [](void* context, void* data, int size) {
    std::fwrite(data, 1, static_cast<size_t>(size), static_cast<std::FILE*>(context));
  };
  const int encoded = stbi_write_png_to_func(write, file, image.width, image.height, 4,
                                             image.rgba.data(), image.width * 4);
  const bool failed = std::ferror(file) != 0;
  if (std::fclose(file) != 0 || failed || encoded == 0) {
    const int error = errno;
    std::remove(path.c_str());
    return Status::Error(
        fmt::format("writing {} failed: {}; is the disk full?", path, std::strerror(error)));
  }
  return Status::Ok();
}

}  // namespace shardscope::shell
