// What happens to a text before BPE: it is cut at added tokens, normalised, and cut into words.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/tokenizer/expression.h"
#include "engine/tokenizer/vocabulary.h"
#include "trace/base/status.h"

namespace shardscope::tokenizer {

// Bytes of a text: from `start` to before `end`.
struct Extent {
  size_t start = 0;
  size_t end = 0;
  bool operator==(const Extent&) const = default;
};

// A token that is found in the text itself, as "<|im_start|>".
struct AddedToken {
  std::string text;
  TokenId id = 0;
  bool special = false;      // left out when decoding
  bool normalized = false;   // looked for after the text is normalised, else before
  bool lstrip = false;       // takes the white space before it with it
  bool rstrip = false;       // and behind it
  bool single_word = false;  // only where no letter, digit or _ stands beside it
};

// Finds added tokens from left to right, the longest first: a trie over their bytes. Immutable;
// threads: any.
class AddedTokens {
 public:
  AddedTokens() : nodes_(1) {}
  // `text` as it is looked for: the token's, normalised if need be; not empty.
  void Insert(std::string_view text, const AddedToken& token);
  bool empty() const { return tokens_.empty(); }

  struct Found {
    size_t start = 0;
    size_t end = 0;
    TokenId id = 0;
  };
  // The first at `from` or later; white space that it takes never reaches to before `from`.
  std::optional<Found> Find(std::string_view text, size_t from) const;

 private:
  struct Node {
    std::vector<std::pair<char, uint32_t>> next;
    int32_t token = -1;  // index into tokens_
  };
  uint32_t NextOf(uint32_t node, char byte) const;

  std::vector<Node> nodes_;
  std::vector<AddedToken> tokens_;
  std::array<bool, 256> starts_{};  // bytes that a token begins with
};

enum class Normalizer { kNone, kNfc };

// The text in its normal form: `text` itself where it is in it already, else in `storage`. `text`
// is valid UTF-8.
std::string_view Normalize(Normalizer normalizer, std::string_view text, std::string* storage);

// `extents`, which lie in the normal form of `text`, become those in `text` itself. What lies
// inside of characters that were composed with one another is all of them.
void MoveToSource(Normalizer normalizer, std::string_view text, std::span<Extent> extents);

// One step of a pre-tokeniser; each works on the pieces that the one before it left.
struct SplitStep {
  std::optional<Expression> expression;  // none: only the space
  bool keeps_matches = true;
  bool keeps_gaps = true;   // what lies between matches
  bool adds_space = false;  // in front of a piece that does not begin with one, before it is cut
};

}  // namespace shardscope::tokenizer
