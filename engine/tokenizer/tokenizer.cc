#include "engine/tokenizer/tokenizer.h"

#include <algorithm>
#include <utility>

#include "trace/base/check.h"
#include "trace/base/text.h"

namespace shardscope::tokenizer {
namespace {

constexpr int64_t kWordsOfProgress = 4096;
constexpr std::string_view kReplacement = "\xef\xbf\xbd";

// How many bytes at the front of `text`, which is no well-formed character, one U+FFFD stands for:
// the beginning of one that is cut short, else one byte.
size_t BrokenBytes(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  const size_t wanted = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4) return 1;
  size_t size = 1;
  for (; size < wanted && size < text.size(); ++size) {
    const auto byte = static_cast<unsigned char>(text[size]);
    unsigned low = 0x80;
    unsigned high = 0xbf;
    if (size == 1) {  // what would be overlong, a surrogate or too large
      if (first == 0xe0) low = 0xa0;
      if (first == 0xed) high = 0x9f;
      if (first == 0xf0) low = 0x90;
      if (first == 0xf4) high = 0x8f;
    }
    if (byte < low || byte > high) break;
  }
  return size;
}

// How many bytes at the front of `text` are well-formed UTF-8.
size_t WellFormedBytes(std::string_view text) {
  std::string_view rest = text;
  while (!rest.empty()) {
    if (static_cast<unsigned char>(rest.front()) < 0x80) {
      rest.remove_prefix(1);
    } else if (!TakeCodePoint(&rest)) {
      break;
    }
  }
  return text.size() - rest.size();
}

}  // namespace

std::string LossyUtf8(std::string_view bytes) {
  std::string text;
  while (true) {
    const size_t good = WellFormedBytes(bytes);
    text += bytes.substr(0, good);
    bytes.remove_prefix(good);
    if (bytes.empty()) return text;
    text += kReplacement;
    bytes.remove_prefix(BrokenBytes(bytes));
  }
}

std::string Tokenizer::Decode(std::span<const TokenId> ids, bool skip_special) const {
  std::string bytes;
  for (const TokenId id : ids) {
    if (!vocabulary_.Has(id)) continue;
    if (skip_special && special_[static_cast<size_t>(id)]) continue;
    bytes += vocabulary_.BytesOf(id);
  }
  return LossyUtf8(bytes);
}

Encoder::Encoder(std::shared_ptr<const Tokenizer> tokenizer)
    : tokenizer_(std::move(tokenizer)), bpe_(&tokenizer_->vocabulary_, tokenizer_->bpe_) {}

Status Encoder::EncodeBeginning(std::string_view text, std::vector<TokenId>* ids) {
  ids->insert(ids->end(), tokenizer_->prefix_.begin(), tokenizer_->prefix_.end());
  return Encode(text, ids);
}

Status Encoder::EncodeWhole(std::string_view text, std::vector<TokenId>* ids) {
  SHARDSCOPE_RETURN_IF_ERROR(EncodeBeginning(text, ids));
  ids->insert(ids->end(), tokenizer_->suffix_.begin(), tokenizer_->suffix_.end());
  return Status::Ok();
}

Status Encoder::EncodeWithExtents(std::string_view text, std::vector<TokenId>* ids,
                                  std::vector<Extent>* extents) {
  SHARDSCOPE_CHECK(extents->size() == ids->size());
  extents_ = extents;
  const Status status = Encode(text, ids);
  extents_ = nullptr;
  return status;
}

Status Encoder::Encode(std::string_view text, std::vector<TokenId>* ids) {
  if (const size_t good = WellFormedBytes(text); good < text.size()) {
    return Status::Error("the text is no UTF-8 at byte " + std::to_string(good));
  }
  size_t done = 0;
  while (done < text.size()) {
    const std::optional<AddedTokens::Found> found = tokenizer_->raw_tokens_.Find(text, done);
    const size_t end = found ? found->start : text.size();
    const std::string_view source = text.substr(done, end - done);
    const std::string_view piece = Normalize(tokenizer_->normalizer_, source, &normal_form_);
    const size_t first = ids->size();
    piece_start_ = done;
    SHARDSCOPE_RETURN_IF_ERROR(EncodeNormalized(piece, ids));
    if (extents_ != nullptr) {
      const std::span<Extent> added = std::span(*extents_).subspan(first);
      if (piece.data() != source.data()) MoveToSource(tokenizer_->normalizer_, source, added);
      for (Extent& extent : added) extent = {done + extent.start, done + extent.end};
    }
    if (!found) break;
    ids->push_back(found->id);
    if (extents_ != nullptr) extents_->push_back({found->start, found->end});
    done = found->end;
  }
  return Status::Ok();
}

Status Encoder::EncodeNormalized(std::string_view text, std::vector<TokenId>* ids) {
  size_t done = 0;
  while (done < text.size()) {
    const std::optional<AddedTokens::Found> found = tokenizer_->normalized_tokens_.Find(text, done);
    const size_t end = found ? found->start : text.size();
    if (end > done) {
      SHARDSCOPE_RETURN_IF_ERROR(EncodePiece(text.substr(done, end - done), done, 0, ids));
    }
    if (!found) break;
    ids->push_back(found->id);
    if (extents_ != nullptr) extents_->push_back({found->start, found->end});
    done = found->end;
  }
  return Status::Ok();
}

void Encoder::AppendExtents(std::string_view word, size_t start, const std::vector<TokenId>& ids) {
  size_t at = 0;
  for (size_t i = extents_->size(); i < ids.size(); ++i) {
    // Unknown bytes have a token whose text says nothing of how many they are.
    const size_t bytes = tokenizer_->vocabulary_.BytesOf(ids[i]).size();
    const size_t end = i + 1 == ids.size() ? word.size() : std::min(at + bytes, word.size());
    extents_->push_back({start + at, start + end});
    at = end;
  }
}

Status Encoder::EncodePiece(std::string_view piece, size_t start, size_t step,
                            std::vector<TokenId>* ids) {
  if (step == tokenizer_->steps_.size()) {
    bpe_.Encode(piece, ids);
    if (extents_ != nullptr) AppendExtents(piece, start, *ids);
    if (on_progress_ && ++num_words_ % kWordsOfProgress == 0) on_progress_(piece_start_ + start);
    return Status::Ok();
  }
  if (!tokenizer_->steps_[step].adds_space || piece.front() == ' ') {
    return CutPiece(piece, start, step, ids);
  }
  const std::string with_space = std::string(" ").append(piece);
  const size_t first = ids->size();
  SHARDSCOPE_RETURN_IF_ERROR(CutPiece(with_space, start, step, ids));
  if (extents_ == nullptr) return Status::Ok();
  for (Extent& extent : std::span(*extents_).subspan(first)) {
    extent = {std::max(extent.start, start + 1) - 1, std::max(extent.end, start + 1) - 1};
  }
  return Status::Ok();
}

Status Encoder::CutPiece(std::string_view piece, size_t start, size_t step,
                         std::vector<TokenId>* ids) {
  const SplitStep& split = tokenizer_->steps_[step];
  if (!split.expression) return EncodePiece(piece, start, step + 1, ids);
  size_t done = 0;
  while (done < piece.size()) {
    SHARDSCOPE_ASSIGN_OR_RETURN(const Matcher::Match match,
                                matcher_.Find(*split.expression, piece, done));
    const size_t gap_end = match.found ? match.start : piece.size();
    if (split.keeps_gaps && gap_end > done) {
      SHARDSCOPE_RETURN_IF_ERROR(
          EncodePiece(piece.substr(done, gap_end - done), start + done, step + 1, ids));
    }
    if (!match.found) break;
    if (split.keeps_matches) {
      SHARDSCOPE_RETURN_IF_ERROR(EncodePiece(piece.substr(match.start, match.end - match.start),
                                             start + match.start, step + 1, ids));
    }
    done = match.end;
  }
  return Status::Ok();
}

}  // namespace shardscope::tokenizer
