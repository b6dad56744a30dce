#include "ui/shell/backend/animated_png.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include "trace/base/check.h"
#include "trace/base/time.h"

namespace shardscope::shell {
namespace {

constexpr std::string_view kSignature = "\x89PNG\r\n\x1a\n";
constexpr size_t kChunkFrame = 12;  // length, type and checksum

// Of the PNG specification, annex D.
uint32_t Checksum(std::string_view type, std::string_view data) {
  static const std::array<uint32_t, 256> kTable = [] {
    std::array<uint32_t, 256> table{};
    for (uint32_t at = 0; at < table.size(); ++at) {
      uint32_t value = at;
      for (int bit = 0; bit < 8; ++bit) {
        value = (value & 1) != 0 ? 0xEDB88320U ^ (value >> 1) : value >> 1;
      }
      table[at] = value;
    }
    return table;
  }();
  uint32_t sum = 0xFFFFFFFFU;
  for (const std::string_view part : {type, data}) {
    for (const char byte : part)
      sum = kTable[(sum ^ static_cast<uint8_t>(byte)) & 0xFF] ^ (sum >> 8);
  }
  return sum ^ 0xFFFFFFFFU;
}

void AppendInt(uint32_t value, int bytes, std::string* to) {
  for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8) {
    to->push_back(static_cast<char>(value >> shift & 0xFF));
  }
}

uint32_t IntAt(std::string_view bytes, size_t at) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i) value = value << 8 | static_cast<uint8_t>(bytes[at + i]);
  return value;
}

// The data of the chunks of `type` of a PNG file, one behind the other.
std::string ChunksOf(std::string_view png, std::string_view type) {
  std::string data;
  for (size_t at = kSignature.size(); at + kChunkFrame <= png.size();) {
    const size_t length = IntAt(png, at);
    if (png.substr(at + 4, 4) == type) data += png.substr(at + 8, length);
    at += kChunkFrame + length;
  }
  return data;
}

struct Part {
  int x = 0;
  int y = 0;
  int width = 1;  // of what has not changed one pixel is written: a frame cannot be empty
  int height = 1;
};

// The smallest that holds all pixels in which two pictures of one size differ.
Part ChangedPart(const Image& before, const Image& after) {
  int left = after.width;
  int right = 0;
  int top = after.height;
  int bottom = 0;
  const size_t row_bytes = static_cast<size_t>(after.width) * 4;
  for (int y = 0; y < after.height; ++y) {
    const uint8_t* a = before.rgba.data() + static_cast<size_t>(y) * row_bytes;
    const uint8_t* b = after.rgba.data() + static_cast<size_t>(y) * row_bytes;
    if (std::memcmp(a, b, row_bytes) == 0) continue;
    top = std::min(top, y);
    bottom = y + 1;
    const auto first = std::mismatch(a, a + row_bytes, b).first - a;
    std::ptrdiff_t last = static_cast<std::ptrdiff_t>(row_bytes) - 1;
    while (a[last] == b[last]) --last;
    left = std::min(left, static_cast<int>(first / 4));
    right = std::max(right, static_cast<int>(last / 4) + 1);
  }
  if (bottom == 0) return {};
  return {left, top, right - left, bottom - top};
}

Image Cut(const Image& image, const Part& part) {
  Image cut{part.width, part.height, {}};
  cut.rgba.reserve(static_cast<size_t>(part.width) * static_cast<size_t>(part.height) * 4);
  for (int y = part.y; y < part.y + part.height; ++y) {
    const auto row = image.rgba.begin() + (std::ptrdiff_t{y} * image.width + part.x) * 4;
    cut.rgba.insert(cut.rgba.end(), row, row + std::ptrdiff_t{part.width} * 4);
  }
  return cut;
}

}  // namespace

Result<AnimatedPng> AnimatedPng::Create(const std::string& path, int frames, int64_t frame_ns) {
  SHARDSCOPE_ASSIGN_OR_RETURN(OutputFile file, OutputFile::Create(path));
  return AnimatedPng(std::move(file), frames, frame_ns);
}

Status AnimatedPng::WriteChunk(std::string_view type, std::string_view data) {
  std::string chunk;
  AppendInt(static_cast<uint32_t>(data.size()), 4, &chunk);
  chunk += type;
  chunk += data;
  AppendInt(Checksum(type, data), 4, &chunk);
  return file_.Write(chunk);
}

Status AnimatedPng::Begin(std::string_view header) {
  SHARDSCOPE_RETURN_IF_ERROR(file_.Write(kSignature));
  SHARDSCOPE_RETURN_IF_ERROR(WriteChunk("IHDR", header));
  std::string control;
  AppendInt(static_cast<uint32_t>(frames_), 4, &control);
  AppendInt(0, 4, &control);  // plays without end
  return WriteChunk("acTL", control);
}

Status AnimatedPng::Add(const Image& image) {
  const bool is_first = last_.rgba.empty();
  SHARDSCOPE_CHECK(is_first || last_.rgba.size() == image.rgba.size());
  const Part part = is_first ? Part{0, 0, image.width, image.height} : ChangedPart(last_, image);
  SHARDSCOPE_ASSIGN_OR_RETURN(const std::string png, EncodePng(Cut(image, part)));
  if (is_first) SHARDSCOPE_RETURN_IF_ERROR(Begin(ChunksOf(png, "IHDR")));
  std::string control;
  AppendInt(sequence_++, 4, &control);
  for (const int value : {part.width, part.height, part.x, part.y}) {
    AppendInt(static_cast<uint32_t>(value), 4, &control);
  }
  AppendInt(static_cast<uint32_t>(frame_ns_ / kNsPerMs), 2, &control);
  AppendInt(1000, 2, &control);  // of a second
  AppendInt(0, 2, &control);     // stays, and replaces what it covers
  SHARDSCOPE_RETURN_IF_ERROR(WriteChunk("fcTL", control));
  last_ = image;
  if (is_first) return WriteChunk("IDAT", ChunksOf(png, "IDAT"));
  std::string data;
  AppendInt(sequence_++, 4, &data);
  return WriteChunk("fdAT", data + ChunksOf(png, "IDAT"));
}

Status AnimatedPng::Close() {
  SHARDSCOPE_RETURN_IF_ERROR(WriteChunk("IEND", ""));
  return file_.Close();
}

}  // namespace shardscope::shell
