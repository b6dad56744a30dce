// RowList: the rows of one kind that a Snapshot holds.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "trace/base/check.h"
#include "trace/query/packed_rows.h"

namespace shardscope::query {

// An append-only list whose copies are cheap and share storage: one writer appends, any
// number of readers hold copies that never change. Rows with a step are found by it without looking
// at most of them.
//
// Rows are in chunks. Those of Packable types are packed as soon as their chunk is full, and are
// given as values: what is to be kept of one is a copy, or where it is (RowRef).
template <typename T>
class RowList {
 public:
  static constexpr size_t kChunkRows = 4096;
  using Row = std::conditional_t<Packable<T>, T, const T&>;

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  [[gnu::always_inline]] inline Row operator[](size_t index) const {
    const size_t chunk = index / kChunkRows;
    if (chunk == full_.size()) return (*last_)[index % kChunkRows];
    return (*full_[chunk])[index % kChunkRows];
  }
  Row back() const { return (*this)[size_ - 1]; }

  // Only the one owner that builds the list appends; copies taken before do not see the row. A list
  // may be appended to only if no other copy of it was ever appended to.
  void Append(T row) {
    if (last_ == nullptr) {
      last_ = std::make_shared<std::vector<T>>();
      last_->reserve(kChunkRows);  // never reallocates: readers keep reading rows below their size
    }
    SHARDSCOPE_CHECK(last_->size() == size_ % kChunkRows);
    last_->push_back(std::move(row));
    ++size_;
    if (last_->size() == kChunkRows) EndChunk();
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
    using reference = Row;

    Iterator() = default;
    Iterator(const RowList* list, size_t index) : list_(list), index_(index) {}
    [[gnu::always_inline]] inline reference operator*() const { return (*list_)[index_]; }
    auto operator->() const {
      if constexpr (Packable<T>) {
        return Held{**this};
      } else {
        return &**this;
      }
    }
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

  // A row that was unpacked, for ->.
  struct Held {
    T row;
    const T* operator->() const { return std::addressof(row); }
  };

 private:
  using Chunk = typename ChunkOf<T>::Type;
  struct StepRange {
    int32_t smallest = 0;
    int32_t largest = 0;
  };

  void EndChunk() {
    if constexpr (requires(const T& row) { row.step; }) {
      StepRange range{last_->front().step, last_->front().step};
      for (const T& row : *last_) {
        range.smallest = std::min(range.smallest, row.step);
        range.largest = std::max(range.largest, row.step);
      }
      steps_.push_back(range);
    }
    if constexpr (Packable<T>) {
      full_.push_back(std::make_shared<const Chunk>(*last_));
    } else {
      full_.push_back(std::move(last_));
    }
    last_ = nullptr;
  }

  std::vector<std::shared_ptr<const Chunk>> full_;
  std::shared_ptr<std::vector<T>> last_;  // null: the next row begins a chunk
  std::vector<StepRange> steps_;          // of the full chunks
  size_t size_ = 0;
};

// Where a row is: as a pointer to it, which packed rows do not have. Valid as long as its list is.
template <typename T>
class RowRef {
 public:
  RowRef() = default;
  RowRef(const RowList<T>& list, size_t index) : list_(&list), index_(index) {}

  explicit operator bool() const { return list_ != nullptr; }
  // Precondition of both: not null.
  typename RowList<T>::Row operator*() const { return (*list_)[index_]; }
  auto operator->() const { return typename RowList<T>::Iterator(list_, index_).operator->(); }
  friend bool operator==(const RowRef& a, const RowRef& b) = default;

 private:
  const RowList<T>* list_ = nullptr;
  size_t index_ = 0;
};

}  // namespace shardscope::query
