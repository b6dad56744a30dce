#include "ui/shell/backend/png.h"

#include <cstring>

#include "trace/base/output_file.h"

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

Image ImageFromBelow(int width, int height, const std::vector<uint8_t>& bottom_up) {
  const size_t row = static_cast<size_t>(width) * 4;
  Image image{width, height, std::vector<uint8_t>(row * static_cast<size_t>(height))};
  for (size_t y = 0; y < static_cast<size_t>(height); ++y) {
    std::memcpy(&image.rgba[y * row], &bottom_up[(static_cast<size_t>(height) - 1 - y) * row], row);
  }
  for (size_t i = 3; i < image.rgba.size(); i += 4) image.rgba[i] = 0xff;
  return image;
}

Result<std::string> EncodePng(const Image& image) {
  std::string bytes;
  const auto write = [](void* context, void* data, int size) {
    static_cast<std::string*>(context)->append(static_cast<const char*>(data),
                                               static_cast<size_t>(size));
  };
  const int encoded = stbi_write_png_to_func(write, &bytes, image.width, image.height, 4,
                                             image.rgba.data(), image.width * 4);
  if (encoded == 0) return Status::Error("no memory to make the picture: ask for a smaller --size");
  return bytes;
}

Status WritePng(const Image& image, const std::string& path) {
  SHARDSCOPE_ASSIGN_OR_RETURN(const std::string bytes, EncodePng(image));
  return WriteFile(path, bytes);
}

}  // namespace shardscope::shell
