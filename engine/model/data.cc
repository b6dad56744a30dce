#include "engine/model/data.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/checkpoint/blocks.h"
#include "engine/model/initialize.h"
#include "trace/base/mapped_file.h"
#include "trace/base/text.h"

namespace shardscope::model {
namespace {

namespace fs = std::filesystem;

// Tells text from binaries, which may be well-formed but have NUL bytes.
bool IsUtf8Text(std::string_view text) {
  const auto is_no_ascii = [](char byte) { return static_cast<signed char>(byte) <= 0; };
  while (true) {
    // ASCII, which nearly all is, at the speed of memory.
    text.remove_prefix(
        static_cast<size_t>(std::find_if(text.begin(), text.end(), is_no_ascii) - text.begin()));
    if (text.empty()) return true;
    const std::optional<char32_t> point = TakeCodePoint(&text);
    if (!point || *point == 0) return false;
  }
}

// Nothing if it is no text. A NUL says so before the rest is read: binaries may be larger than
// memory.
Result<std::optional<std::string>> ReadText(const fs::path& path, std::string_view key) {
  std::ifstream file(path, std::ios::binary);
  const auto cannot_read = [&] {
    return Status::Error(
        fmt::format("{}: cannot read {}; check its permissions", key, path.string()));
  };
  if (!file) return cannot_read();
  std::string text;
  std::array<char, size_t{1} << 15> block;  // folders have thousands of small files
  while (file) {
    file.read(block.data(), static_cast<std::streamsize>(block.size()));
    const std::string_view read(block.data(), static_cast<size_t>(file.gcount()));
    if (read.find('\0') != std::string_view::npos) return std::optional<std::string>();
    text += read;
  }
  if (file.bad()) return cannot_read();
  if (!IsUtf8Text(text)) return std::optional<std::string>();
  return std::optional<std::string>(std::move(text));
}

// What a run writes is no data, and grows while its processes start.
bool IsSkippedFolder(const fs::path& path) {
  const std::string name = path.filename().string();
  std::error_code error;
  return name.starts_with(".") || name == "build" || name == "runs" ||
         fs::exists(path / "run.toml", error);
}

Result<std::vector<fs::path>> ListFiles(const fs::path& folder, std::string_view key,
                                        int64_t* num_broken_links) {
  std::vector<fs::path> files;
  std::error_code error;
  fs::recursive_directory_iterator walk(folder, error);
  for (; !error && walk != fs::recursive_directory_iterator(); walk.increment(error)) {
    std::error_code unreachable;
    const fs::file_status status = walk->status(unreachable);
    if (fs::is_directory(status)) {
      if (IsSkippedFolder(walk->path())) walk.disable_recursion_pending();
    } else if (fs::is_regular_file(status)) {
      files.push_back(walk->path());
    } else if (!fs::exists(status) && walk->is_symlink(unreachable)) {
      ++*num_broken_links;
    }
  }
  if (error) {
    return Status::Error(
        fmt::format("{}: cannot list {}: {}", key, folder.string(), error.message()));
  }
  std::sort(files.begin(), files.end(), [](const fs::path& left, const fs::path& right) {
    return left.generic_string() < right.generic_string();
  });
  return files;
}

struct Place {
  std::vector<fs::path> files;
  bool is_folder = false;
};

Result<Place> FilesAt(const std::string& path, std::string_view key, int64_t* num_broken_links) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (error == std::errc::permission_denied) {
    return Status::Error(
        fmt::format("{}: no permission to reach {}; name another file", key, path));
  }
  if (!fs::exists(status)) {
    return Status::Error(
        fmt::format("{}: {} is not there; name a text file or a folder", key, path));
  }
  if (fs::is_directory(status)) {
    SHARDSCOPE_ASSIGN_OR_RETURN(std::vector<fs::path> files,
                                ListFiles(path, key, num_broken_links));
    return Place{std::move(files), true};
  }
  // A pipe may never say anything, and a device never end.
  if (!fs::is_regular_file(status)) {
    return Status::Error(fmt::format("{}: {} is no file; name a text file or a folder", key, path));
  }
  return Place{{path}, false};
}

Status NoText(const std::string& path, std::string_view key) {
  return Status::Error(fmt::format(
      "{}: {} is no UTF-8 text; name a text file, or convert it (iconv -t UTF-8)", key, path));
}

std::string Digits(uint64_t checksum) { return fmt::format("{:016x}", checksum); }

Status NothingIn(const std::string& path, std::string_view key) {
  return Status::Error(
      fmt::format("{}: {} has no text in it; name another file or folder", key, path));
}

}  // namespace

std::string FingerprintOf(const tokenizer::Tokenizer* tokenizer) {
  return tokenizer == nullptr ? std::string(kByteTokens) : Digits(tokenizer->ids_fingerprint());
}

Result<Corpus> LoadCorpus(const std::string& path, std::string_view key) {
  Corpus corpus;
  SHARDSCOPE_ASSIGN_OR_RETURN(const Place place, FilesAt(path, key, &corpus.num_broken_links));
  for (const fs::path& file : place.files) {
    Result<std::optional<std::string>> text = ReadText(file, key);
    if (!text.ok()) return text.status();
    if (!text->has_value()) {
      if (!place.is_folder) return NoText(path, key);
      continue;
    }
    corpus.bytes += **text;
    ++corpus.num_files;
    if (corpus.json_lines.empty() && HasNameOfJsonLines(file.string())) {
      corpus.json_lines = file.string();
    }
  }
  if (corpus.bytes.empty()) return NothingIn(path, key);
  corpus.tokenizer = FingerprintOf(nullptr);
  corpus.content = Digits(checkpoint::HashOf(std::as_bytes(std::span(corpus.bytes))));
  return corpus;
}

Result<Corpus> LoadTokens(const std::string& path, const TokenizeOptions& options) {
  Corpus corpus;
  SHARDSCOPE_ASSIGN_OR_RETURN(const Place place,
                              FilesAt(path, options.key, &corpus.num_broken_links));
  std::vector<std::string> files;
  for (const fs::path& file : place.files) {
    const Result<MappedFile> mapped = MappedFile::Open(file.string());
    if (!mapped.ok()) return Status::Error(options.key + ": " + mapped.message());
    const std::string_view text(reinterpret_cast<const char*>(mapped->bytes().data()),
                                mapped->bytes().size());
    if (text.find('\0') == std::string_view::npos && IsUtf8Text(text)) {
      files.push_back(file.string());
    } else if (!place.is_folder) {
      return NoText(path, options.key);
    }
  }
  SHARDSCOPE_ASSIGN_OR_RETURN(const std::shared_ptr<const TokenFile> tokens,
                              TokenFile::Open(files, options));
  corpus.num_files = static_cast<int64_t>(files.size());
  corpus.tokens = tokens->tokens();
  corpus.is_masked = tokens->is_masked();
  corpus.num_documents = tokens->num_documents();
  corpus.tokenizer = FingerprintOf(options.tokenizer.get());
  corpus.content = Digits(tokens->checksum());
  corpus.token_storage = tokens;
  if (corpus.tokens.empty()) return NothingIn(path, options.key);
  return corpus;
}

double UnigramEntropy(const std::string& bytes) {
  std::array<int64_t, 256> counts{};
  for (const char byte : bytes) ++counts[static_cast<unsigned char>(byte)];
  double entropy = 0;
  for (const int64_t count : counts) {
    if (count == 0) continue;
    const double share = static_cast<double>(count) / static_cast<double>(bytes.size());
    entropy -= share * std::log(share);
  }
  return entropy;
}

int64_t NumSamples(int64_t num_tokens, int64_t seq) { return num_tokens / (seq + 1); }

Sampler::Sampler(const Shape& shape) : shape_(shape) {
  if (shape_.takers == 0) shape_.takers = shape_.num_ranks;
}

Result<Sampler> Sampler::Make(const Shape& shape) {
  if (shape.num_samples / shape.num_ranks < shape.samples_per_step) {
    const int64_t needed = shape.num_ranks * shape.samples_per_step;
    return Status::Error("the data have " + std::to_string(shape.num_samples) +
                         " samples, but one step of all ranks takes " + std::to_string(needed) +
                         ": give more text (data.path), or lower model.seq, train.batch, "
                         "train.micro_batches or run.ranks");
  }
  return Sampler(shape);
}

void Sampler::SetTakers(int64_t step, int takers) {
  if (takers == shape_.takers) return;
  shape_.start = StartOf(step);
  shape_.takers = takers;
}

// Where no step was done since, what is left of the epoch may be enough for fewer takers.
Sampler::Start Sampler::StartOf(int64_t step) const {
  return step == shape_.start.step ? shape_.start : BeginOf(step);
}

Sampler::Start Sampler::BeginOf(int64_t step) const {
  const Start& start = shape_.start;
  const int64_t samples = shape_.takers * shape_.samples_per_step;
  const int64_t of_first_epoch = std::max<int64_t>(0, shape_.num_samples - start.used) / samples;
  const int64_t done = step - start.step;
  if (done < of_first_epoch) return {step, start.epoch, start.used + done * samples};
  const int64_t beyond = done - of_first_epoch;
  return {step, start.epoch + 1 + beyond / steps_per_epoch(), beyond % steps_per_epoch() * samples};
}

std::vector<int64_t> Sampler::Samples(int64_t step, int index) {
  const Start at = BeginOf(step);
  if (at.epoch != epoch_) {
    order_.resize(static_cast<size_t>(shape_.num_samples));
    std::iota(order_.begin(), order_.end(), 0);
    const uint64_t key = MixedBits(shape_.seed, static_cast<uint64_t>(at.epoch));
    for (size_t i = order_.size(); i > 1; --i) {  // Fisher-Yates
      std::swap(order_[i - 1], order_[MixedBits(key, i) % i]);
    }
    epoch_ = at.epoch;
  }
  std::vector<int64_t> samples;
  for (int64_t i = 0; i < shape_.samples_per_step; ++i) {
    samples.push_back(order_[static_cast<size_t>(at.used + i * shape_.takers + index)]);
  }
  return samples;
}

void AppendSample(const Corpus& corpus, int64_t index, int64_t seq, std::vector<int64_t>* tokens) {
  const auto first = static_cast<size_t>(index * (seq + 1));
  const size_t end = first + static_cast<size_t>(seq) + 1;
  for (size_t i = first; i < end; ++i) {
    if (corpus.tokens.empty()) {
      tokens->push_back(static_cast<unsigned char>(corpus.bytes[i]));
      continue;
    }
    const auto id = static_cast<int64_t>(corpus.tokens[i] & ~kNotCounted);
    tokens->push_back((corpus.tokens[i] & kNotCounted) != 0 ? ~id : id);
  }
}

int64_t CountedTargets(const Corpus& corpus, int64_t index, int64_t seq) {
  if (!corpus.is_masked) return seq;
  const auto first = static_cast<size_t>(index * (seq + 1)) + 1;
  return std::ranges::count_if(corpus.tokens.subspan(first, static_cast<size_t>(seq)),
                               [](uint32_t token) { return (token & kNotCounted) == 0; });
}

int64_t CountedTargets(const Corpus& corpus, Sampler* sampler, int64_t step, int64_t seq) {
  int64_t targets = 0;
  for (int taker = 0; taker < sampler->takers(); ++taker) {
    for (const int64_t sample : sampler->Samples(step, taker)) {
      targets += CountedTargets(corpus, sample, seq);
    }
  }
  return targets;
}

}  // namespace shardscope::model
