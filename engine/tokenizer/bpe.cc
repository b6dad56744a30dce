#include "engine/tokenizer/bpe.h"

#include <algorithm>
#include <functional>

namespace shardscope::tokenizer {
namespace {

constexpr size_t kNumEntries = 1 << 16;  // of the table; at most half are taken
constexpr size_t kMaxKeptWordBytes = 256;

}  // namespace

Bpe::Bpe(const Vocabulary* vocabulary, const BpeSettings& settings)
    : vocabulary_(*vocabulary), settings_(settings), entries_(kNumEntries) {}

void Bpe::Encode(std::string_view word, std::vector<TokenId>* ids) {
  if (word.size() > kMaxKeptWordBytes) return MergeWord(word, ids);
  const auto hash = static_cast<uint32_t>(std::hash<std::string_view>()(word));
  for (size_t slot = hash % kNumEntries;; slot = (slot + 1) % kNumEntries) {
    const Entry& entry = entries_[slot];
    if (entry.word_bytes == 0) break;
    if (entry.hash == hash &&
        word == std::string_view(words_).substr(entry.word, entry.word_bytes)) {
      const auto first = ids_.begin() + entry.ids;
      ids->insert(ids->end(), first, first + entry.num_ids);
      return;
    }
  }
  const size_t before = ids->size();
  MergeWord(word, ids);
  Keep(word, hash, ids->data() + before, ids->size() - before);
}

void Bpe::Keep(std::string_view word, uint32_t hash, const TokenId* ids, size_t num_ids) {
  if (num_entries_ == kNumEntries / 2) {
    std::fill(entries_.begin(), entries_.end(), Entry());
    num_entries_ = 0;
    words_.clear();
    ids_.clear();
  }
  size_t slot = hash % kNumEntries;
  while (entries_[slot].word_bytes != 0) slot = (slot + 1) % kNumEntries;
  entries_[slot] = {hash, static_cast<uint32_t>(words_.size()), static_cast<uint32_t>(ids_.size()),
                    static_cast<uint16_t>(word.size()), static_cast<uint16_t>(num_ids)};
  ++num_entries_;
  words_ += word;
  ids_.insert(ids_.end(), ids, ids + num_ids);
}

void Bpe::Start(std::string_view word) {
  symbols_.clear();
  heap_.clear();
  for (const char byte : word) {
    TokenId id = vocabulary_.OfByte(static_cast<unsigned char>(byte));
    if (id < 0) {
      id = settings_.unknown;
      if (settings_.fuse_unknown && !symbols_.empty() && symbols_.back().id == id) continue;
    }
    const auto index = static_cast<int32_t>(symbols_.size());
    symbols_.push_back({id, index - 1, index + 1});
  }
  symbols_.back().after = -1;
}

void Bpe::Consider(int32_t left) {
  if (left < 0) return;
  const Symbol& symbol = symbols_[static_cast<size_t>(left)];
  if (symbol.after < 0) return;
  const TokenId right = symbols_[static_cast<size_t>(symbol.after)].id;
  const Merge* merge = vocabulary_.merges().Find(symbol.id, right);
  if (merge == nullptr) return;
  heap_.push_back({merge->rank, left, symbol.id, right, merge->merged});
  std::push_heap(heap_.begin(), heap_.end());
}

void Bpe::MergeWord(std::string_view word, std::vector<TokenId>* ids) {
  if (settings_.ignore_merges) {
    if (const std::optional<TokenId> whole = vocabulary_.IdOfBytes(word); whole) {
      ids->push_back(*whole);
      return;
    }
  }
  Start(word);
  for (size_t i = 0; i + 1 < symbols_.size(); ++i) Consider(static_cast<int32_t>(i));
  while (!heap_.empty()) {
    std::pop_heap(heap_.begin(), heap_.end());
    const Candidate best = heap_.back();
    heap_.pop_back();
    Symbol& left = symbols_[static_cast<size_t>(best.left)];
    if (left.id != best.left_id || left.after < 0) continue;
    Symbol& right = symbols_[static_cast<size_t>(left.after)];
    if (right.id != best.right_id) continue;
    left.id = best.merged;
    right.id = -1;  // gone: no candidate has this id
    left.after = right.after;
    if (left.after >= 0) symbols_[static_cast<size_t>(left.after)].before = best.left;
    Consider(left.before);
    Consider(best.left);
  }
  for (int32_t i = 0; i >= 0; i = symbols_[static_cast<size_t>(i)].after) {
    ids->push_back(symbols_[static_cast<size_t>(i)].id);
  }
}

}  // namespace shardscope::tokenizer
