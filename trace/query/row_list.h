// RowList: an append-only list whose copies are cheap and share storage: one writer appends, any
// number of readers hold copies that never change. Rows live in fixed chunks, so a published row
// never moves. Rows with a step are found by it without looking at most of them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <vector>

#include "trace/base/check.h"

namespace shardscope::query {

template <typename T>
class RowList {
 public:
  static constexpr size_t kChunkRows = 4096;

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  const T& operator[](size_t index) const {
    return (*chunks_[index / kChunkRows])[index % kChunkRows];
  }
  const T& back() const { return (*this)[size_ - 1]; }

  // Only the one owner that builds the list appends; copies taken before do not see the row. A list
  // may be appended to only if no other copy of it was ever appended to.
  void Append(T row) {
    if (size_ % kChunkRows == 0) {
      NoteSteps();
      auto chunk = std::make_shared<std::vector<T>>();
      chunk->reserve(kChunkRows);  // never reallocates: readers keep reading rows below their size
      chunks_.push_back(std::move(chunk));
    }
    SHARDSCOPE_CHECK(chunks_.back()->size() == size_ % kChunkRows);
    chunks_.back()->push_back(std::move(row));
    ++size_;
  }

  // Calls visit(row, index) for every row of the steps [first, last], in order.
  template <typename Visit>
  void ForEachOfSteps(int first, int last, Visit&& visit) const {
    for (size_t chunk = 0; chunk * kChunkRows < size_; ++chunk) {
      const bool elsewhere =
          chunk < steps_.size() && (steps_[chunk].largest < first || steps_[chunk].smallest > last);
      if (elsewhere) continue;
      const size_t end = std::min((chunk + 1) * kChunkRows, size_);
      for (size_t at = chunk * kChunkRows; at < end; ++at) {
        const T& row = (*this)[at];
        if (row.step >= first && row.step <= last) visit(row, at);
      }
    }
  }

  class Iterator {
   public:
    using iterator_category = std::random_access_iterator_tag;
    using value_type = T;
    using difference_type = std::ptrdiff_t;
    using pointer = const T*;
    using reference = const T&;

    Iterator() = default;
    Iterator(const RowList* list, size_t index) : list_(list), index_(index) {}
    reference operator*() const { return (*list_)[index_]; }
    pointer operator->() const { return &(*list_)[index_]; }
    reference operator[](difference_type n) const { return *(*this + n); }
    Iterator& operator++() {
      ++index_;
      return *this;
    }
    Iterator operator++(int) {
      Iterator old = *this;
      ++index_;
      return old;
    }
    Iterator& operator--() {
      --index_;
      return *this;
    }
    Iterator operator--(int) {
      Iterator old = *this;
      --index_;
      return old;
    }
    Iterator& operator+=(difference_type n) {
      index_ = static_cast<size_t>(static_cast<difference_type>(index_) + n);
      return *this;
    }
    Iterator& operator-=(difference_type n) { return *this += -n; }
    friend Iterator operator+(Iterator it, difference_type n) { return it += n; }
    friend Iterator operator+(difference_type n, Iterator it) { return it += n; }
    friend Iterator operator-(Iterator it, difference_type n) { return it -= n; }
    friend difference_type operator-(const Iterator& a, const Iterator& b) {
      return static_cast<difference_type>(a.index_) - static_cast<difference_type>(b.index_);
    }
    friend bool operator==(const Iterator& a, const Iterator& b) { return a.index_ == b.index_; }
    friend auto operator<=>(const Iterator& a, const Iterator& b) { return a.index_ <=> b.index_; }

   private:
    const RowList* list_ = nullptr;
    size_t index_ = 0;
  };
  Iterator begin() const { return Iterator(this, 0); }
  Iterator end() const { return Iterator(this, size_); }

 private:
  struct StepRange {
    int32_t smallest = 0;
    int32_t largest = 0;
  };

  // The steps of the chunk that just became full.
  void NoteSteps() {
    if constexpr (requires(const T& row) { row.step; }) {
      if (chunks_.empty()) return;
      StepRange range{chunks_.back()->front().step, chunks_.back()->front().step};
      for (const T& row : *chunks_.back()) {
        range.smallest = std::min(range.smallest, row.step);
        range.largest = std::max(range.largest, row.step);
      }
      steps_.push_back(range);
    }
  }

  std::vector<std::shared_ptr<std::vector<T>>> chunks_;
  std::vector<StepRange> steps_;  // of the full chunks, but for the last
  size_t size_ = 0;
};

}  // namespace shardscope::query
