#include "ui/shell/backend/png.h"

#include <fmt/format.h>

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

Status WritePng(const Image& image, const std::string& path) {
  SHARDSCOPE_ASSIGN_OR_RETURN(OutputFile file, OutputFile::Create(path));
  const auto write = [](void* context, void* data, int size) {
    // Close() has the error.
    static_cast<void>(static_cast<OutputFile*>(context)->Write(
        {static_cast<const char*>(data), static_cast<size_t>(size)}));
  };
  const int encoded = stbi_write_png_to_func(write, &file, image.width, image.height, 4,
                                             image.rgba.data(), image.width * 4);
  if (encoded == 0) {
    return Status::Error(fmt::format("no memory to make {}: ask for a smaller --size", path));
  }
  return file.Close();
}

}  // namespace shardscope::shell
