// Bpe: a word becomes token ids by merging neighbours, the earliest rank first. Words come again,
// so what they became is kept.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/tokenizer/vocabulary.h"

namespace shardscope::tokenizer {

struct BpeSettings {
  bool ignore_merges = false;  // a word that is a token is that one
  TokenId unknown = -1;        // for bytes that no token has; -1: every byte has one
  bool fuse_unknown = false;   // neighbours that are unknown are one
};

// One thread at a time. Allocates nothing once its buffers have grown to the largest word.
class Bpe {
 public:
  // Borrowed, and outlives this.
  Bpe(const Vocabulary* vocabulary, const BpeSettings& settings);

  // Appends the ids of `word`, which is not empty.
  void Encode(std::string_view word, std::vector<TokenId>* ids);

 private:
  // Words and their ids lie one after the other in two arrays; when either is full, all are
  // forgotten.
  struct Entry {
    uint32_t hash = 0;
    uint32_t word = 0;        // where it starts in words_
    uint32_t ids = 0;         // in ids_
    uint16_t word_bytes = 0;  // 0: free
    uint16_t num_ids = 0;
  };
  struct Symbol {
    TokenId id = 0;
    int32_t before = 0;  // its neighbours; -1: none
    int32_t after = 0;
  };
  struct Candidate {
    uint32_t rank = 0;
    int32_t left = 0;                   // the symbol that takes its neighbour
    TokenId left_id = 0, right_id = 0;  // when it was found: else it is out of date
    TokenId merged = 0;
    bool operator<(const Candidate& other) const {  // the top of a heap: rank, then place
      return rank != other.rank ? rank > other.rank : left > other.left;
    }
  };

  void MergeWord(std::string_view word, std::vector<TokenId>* ids);
  void Start(std::string_view word);
  void Consider(int32_t left);
  void Keep(std::string_view word, uint32_t hash, const TokenId* ids, size_t num_ids);

  const Vocabulary& vocabulary_;
  const BpeSettings settings_;
  std::vector<Entry> entries_;
  size_t num_entries_ = 0;
  std::string words_;
  std::vector<TokenId> ids_;
  std::vector<Symbol> symbols_;
  std::vector<Candidate> heap_;
};

}  // namespace shardscope::tokenizer
