#include "engine/tokenizer/vocabulary.h"

#include <algorithm>
#include <utility>

#include "trace/base/text.h"

namespace shardscope::tokenizer {
namespace {

// Bytes that are written as themselves: '!' to '~' and two stretches of Latin-1.
bool IsWrittenAsItself(unsigned byte) {
  return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

constexpr char32_t kFirstStandIn = 0x100;
constexpr size_t kNumStandIns = 68;

// The other bytes, in order, stand at U+0100 and on.
std::array<unsigned char, kNumStandIns> BytesOfStandIns() {
  std::array<unsigned char, kNumStandIns> bytes{};
  size_t next = 0;
  for (unsigned byte = 0; byte < 256; ++byte) {
    if (!IsWrittenAsItself(byte)) bytes[next++] = static_cast<unsigned char>(byte);
  }
  return bytes;
}

}  // namespace

std::optional<std::string> BytesOfWritten(std::string_view written) {
  static const std::array<unsigned char, kNumStandIns> kStandIns = BytesOfStandIns();
  std::string bytes;
  while (!written.empty()) {
    const std::optional<char32_t> point = TakeCodePoint(&written);
    if (!point) return std::nullopt;
    if (*point < 256 && IsWrittenAsItself(static_cast<unsigned>(*point))) {
      bytes += static_cast<char>(*point);
    } else if (*point >= kFirstStandIn && *point < kFirstStandIn + kNumStandIns) {
      bytes += static_cast<char>(kStandIns[*point - kFirstStandIn]);
    } else {
      return std::nullopt;
    }
  }
  return bytes;
}

void MergeTable::Reserve(size_t count) {
  size_t size = 2;
  while (size < 2 * count) size *= 2;
  slots_.assign(size, {});
}

void MergeTable::Insert(TokenId left, TokenId right, Merge merge) {
  const uint64_t key = Key(left, right);
  size_t slot = SlotOf(key);
  while (slots_[slot].key != kEmpty && slots_[slot].key != key) {
    slot = (slot + 1) & (slots_.size() - 1);
  }
  slots_[slot] = {key, merge};
}

Status Vocabulary::Store(std::string bytes, std::string_view name, int64_t id) {
  const std::string token = "the token '" + Printable(name) + "'";
  if (id < 0 || id > kMaxTokenId) {
    return Status::Error(token + " has the id " + std::to_string(id) + ", which is not from 0 to " +
                         std::to_string(kMaxTokenId));
  }
  const auto index = static_cast<size_t>(id);
  if (index >= bytes_.size()) {
    bytes_.resize(index + 1);
    present_.resize(index + 1);
  }
  if (present_[index]) {
    return Status::Error(token + " has the id " + std::to_string(id) + ", which another one has");
  }
  present_[index] = true;
  bytes_[index] = std::move(bytes);
  return Status::Ok();
}

Status Vocabulary::Add(std::string_view written, int64_t id) {
  std::optional<std::string> bytes = BytesOfWritten(written);
  // One with other characters is never found in a text; decoded, it is its text.
  SHARDSCOPE_RETURN_IF_ERROR(Store(bytes ? *bytes : std::string(written), written, id));
  const auto token = static_cast<TokenId>(id);
  by_written_.emplace(written, token);
  if (!bytes) return Status::Ok();
  if (bytes->size() == 1) of_byte_[static_cast<unsigned char>(bytes->front())] = token;
  by_bytes_.emplace(*std::move(bytes), token);
  return Status::Ok();
}

Status Vocabulary::AddText(std::string_view text, int64_t id) {
  if (const std::optional<TokenId> known = IdOfWritten(text); known) {
    if (*known == id) return Status::Ok();
    return Status::Error("the added token '" + Printable(text) + "' has the id " +
                         std::to_string(id) + ", but in the vocabulary " + std::to_string(*known));
  }
  // A text of nothing but the table's characters is decoded as if it were written in them.
  SHARDSCOPE_RETURN_IF_ERROR(Store(BytesOfWritten(text).value_or(std::string(text)), text, id));
  by_written_.emplace(text, static_cast<TokenId>(id));
  return Status::Ok();
}

Status Vocabulary::AddMerges(const std::vector<std::pair<std::string, std::string>>& merges) {
  merges_.Reserve(merges.size());
  std::string joined;
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const auto& [left, right] = merges[rank];
    joined.assign(left).append(right);
    const std::optional<TokenId> ids[] = {IdOfWritten(left), IdOfWritten(right),
                                          IdOfWritten(joined)};
    const std::string* names[] = {&left, &right, &joined};
    for (size_t i = 0; i < 3; ++i) {
      if (ids[i]) continue;
      return Status::Error("merge " + std::to_string(rank) + " needs the token '" +
                           Printable(*names[i]) + "', which the vocabulary does not have");
    }
    merges_.Insert(*ids[0], *ids[1], {static_cast<uint32_t>(rank), *ids[2]});
  }
  return Status::Ok();
}

std::optional<TokenId> Vocabulary::IdOfWritten(std::string_view written) const {
  const auto found = by_written_.find(written);
  if (found == by_written_.end()) return std::nullopt;
  return found->second;
}

std::optional<TokenId> Vocabulary::IdOfBytes(std::string_view bytes) const {
  const auto found = by_bytes_.find(bytes);
  if (found == by_bytes_.end()) return std::nullopt;
  return found->second;
}

std::string_view Vocabulary::BytesOf(TokenId id) const {
  return Has(id) ? std::string_view(bytes_[static_cast<size_t>(id)]) : std::string_view();
}

int Vocabulary::NumMissingBytes() const {
  return static_cast<int>(std::count(of_byte_.begin(), of_byte_.end(), -1));
}

}  // namespace shardscope::tokenizer
