// The vocabulary and the merges of a byte-level BPE.
//
// Note: Byte-level. tokenizer.json writes each byte of a token as a printable character (GPT-2's
// table: those of Latin-1 that can be seen stand for themselves, the other 68 bytes for U+0100 and
// on). Here tokens are the bytes themselves.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "trace/base/status.h"

namespace shardscope::tokenizer {

using TokenId = int32_t;

// Larger ones are refused: tables are as long as the largest id.
inline constexpr TokenId kMaxTokenId = (1 << 24) - 1;

// The bytes that `written`, a token in the characters of GPT-2's table, stands for; none if it has
// another character.
std::optional<std::string> BytesOfWritten(std::string_view written);

// What two neighbours become.
struct Merge {
  uint32_t rank = 0;  // the smaller, the earlier
  TokenId merged = 0;
};

// Pairs of ids, found by hashing in one array: the innermost loop of encoding asks it for every
// neighbour.
class MergeTable {
 public:
  MergeTable() : slots_(1) {}

  // Room for `count` pairs. Before Insert().
  void Reserve(size_t count);
  // A pair that is there already gets this one, as in `tokenizers`.
  void Insert(TokenId left, TokenId right, Merge merge);

  const Merge* Find(TokenId left, TokenId right) const {
    const uint64_t key = Key(left, right);
    for (size_t slot = SlotOf(key);; slot = (slot + 1) & (slots_.size() - 1)) {
      if (slots_[slot].key == key) return &slots_[slot].merge;
      if (slots_[slot].key == kEmpty) return nullptr;
    }
  }

 private:
  static constexpr uint64_t kEmpty = ~uint64_t{0};
  struct Slot {
    uint64_t key = kEmpty;
    Merge merge;
  };
  static uint64_t Key(TokenId left, TokenId right) {
    return static_cast<uint64_t>(left) << 32 | static_cast<uint32_t>(right);
  }
  size_t SlotOf(uint64_t key) const {
    return (key * 0x9e3779b97f4a7c15U >> 20) & (slots_.size() - 1);  // Fibonacci hashing
  }

  std::vector<Slot> slots_;  // a power of two, at most half full
};

// Ids, bytes and merges; immutable once it is built. Threads: any, when it is built.
class Vocabulary {
 public:
  // `written`: as in the file. Errors: an id that is negative, too large, or given twice.
  Status Add(std::string_view written, int64_t id);
  // An added token: its text is what it is. One that the vocabulary has already must have that id.
  Status AddText(std::string_view text, int64_t id);
  // In the order of their ranks, both as written. Error: a part or the result is no token.
  Status AddMerges(const std::vector<std::pair<std::string, std::string>>& merges);

  // The largest id and one: what a model's vocabulary must have at least.
  int32_t num_ids() const { return static_cast<int32_t>(bytes_.size()); }

  // Of a token as it stands in the file, or of an added token's text.
  std::optional<TokenId> IdOfWritten(std::string_view written) const;
  // Of the token that consists of these bytes.
  std::optional<TokenId> IdOfBytes(std::string_view bytes) const;
  // Empty for an id without a token.
  std::string_view BytesOf(TokenId id) const;
  bool Has(TokenId id) const {
    return id >= 0 && id < num_ids() && present_[static_cast<size_t>(id)];
  }

  // The token of a single byte; -1 where there is none.
  TokenId OfByte(unsigned char byte) const { return of_byte_[byte]; }
  int NumMissingBytes() const;
  const MergeTable& merges() const { return merges_; }

 private:
  struct TextHash : std::hash<std::string_view> {
    using is_transparent = void;
  };
  using IdByText = std::unordered_map<std::string, TokenId, TextHash, std::equal_to<>>;

  Status Store(std::string bytes, std::string_view name, int64_t id);

  std::vector<std::string> bytes_;  // by id
  std::vector<bool> present_;
  IdByText by_written_;
  IdByText by_bytes_;
  std::array<TokenId, 256> of_byte_ = [] {
    std::array<TokenId, 256> none{};
    none.fill(-1);
    return none;
  }();
  MergeTable merges_;
};

}  // namespace shardscope::tokenizer
