#include "trace/store/row_chunk.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "trace/base/byte_width.h"
#include "trace/base/check.h"
#include "trace/schema/columns.h"
#include "trace/schema/read_fields.h"
#include "trace/schema/rows.h"

namespace shardscope::store {
namespace {

static_assert(std::endian::native == std::endian::little);

static_assert(kByteWidthPadding == 8);  // as files have it

template <typename Number>
void Put(Number number, std::string* data) {
  std::array<char, sizeof(Number)> bytes;
  std::memcpy(bytes.data(), &number, sizeof(Number));
  data->append(bytes.data(), bytes.size());
}

// The values of one column: those of its kind.
struct PackedColumn {
  ChunkColumn kind = ChunkColumn::kIntegers;
  std::vector<uint64_t> integers;  // of texts: which each row has
  std::vector<double> reals;
  std::map<std::string, uint64_t, std::less<>> number_of_text;
  std::vector<std::string_view> texts;  // keys of that map
};

// Takes rows apart, one after the other.
class ColumnSink final : public schema::FieldSink {
 public:
  void BeginRow() { column_ = 0; }
  void Integer(int64_t value) override {
    Next(ChunkColumn::kIntegers).integers.push_back(static_cast<uint64_t>(value));
  }
  void Real(double value) override { Next(ChunkColumn::kReals).reals.push_back(value); }
  void Text(std::string_view value) override {
    PackedColumn& column = Next(ChunkColumn::kTexts);
    auto known = column.number_of_text.find(value);
    if (known == column.number_of_text.end()) {
      known = column.number_of_text.emplace(value, column.texts.size()).first;
      column.texts.push_back(known->first);
    }
    column.integers.push_back(known->second);
    text_bytes_ += value.size();
  }

  const std::vector<PackedColumn>& columns() const { return columns_; }
  size_t text_bytes() const { return text_bytes_; }

 private:
  PackedColumn& Next(ChunkColumn kind) {
    if (column_ == columns_.size()) columns_.emplace_back().kind = kind;
    return columns_[column_++];
  }

  std::vector<PackedColumn> columns_;
  size_t column_ = 0;
  size_t text_bytes_ = 0;  // of all rows
};

// A column of integers as it may be written.
struct Coded {
  ChunkColumn kind = ChunkColumn::kIntegers;
  uint64_t base = 0;
  uint64_t start = 0;
  size_t width = 0;
  std::vector<uint64_t> differences;  // of which the base is the least, as signed numbers
};

// Of the differences, whose first row has none where it is one to a row before.
void SetWidth(bool has_start, Coded* coded) {
  std::vector<uint64_t>& all = coded->differences;
  if (has_start) all.front() = all.size() > 1 ? all[1] : 0;
  const auto [least, most] = std::minmax_element(
      all.begin(), all.end(),
      [](uint64_t a, uint64_t b) { return static_cast<int64_t>(a) < static_cast<int64_t>(b); });
  coded->base = *least;
  coded->width = ByteWidth(*most - *least);
}

Coded AsTheyAre(const std::vector<uint64_t>& values) {
  Coded coded;
  coded.differences = values;
  SetWidth(false, &coded);
  return coded;
}

Coded FromRowBefore(const std::vector<uint64_t>& values) {
  Coded coded{.kind = ChunkColumn::kFromRowBefore, .differences = values};
  for (size_t i = values.size() - 1; i > 0; --i) coded.differences[i] -= values[i - 1];
  SetWidth(true, &coded);
  coded.start = values.front() - coded.differences.front();
  return coded;
}

Coded FromColumnBefore(const std::vector<uint64_t>& values, const std::vector<uint64_t>& before) {
  Coded coded{.kind = ChunkColumn::kFromColumnBefore, .differences = values};
  for (size_t i = 0; i < values.size(); ++i) coded.differences[i] -= before[i];
  SetWidth(false, &coded);
  return coded;
}

// Behind its kind.
void PutIntegers(const Coded& coded, std::string* data) {
  Put(coded.base, data);
  Put(coded.start, data);
  Put(static_cast<uint8_t>(coded.width), data);
  size_t at = data->size();
  data->resize(at + coded.width * coded.differences.size());
  for (const uint64_t difference : coded.differences) {
    const uint64_t number = difference - coded.base;
    if (coded.width > 0) std::memcpy(data->data() + at, &number, coded.width);
    at += coded.width;
  }
}

// The smallest way. `before`: the integer column in front; null: none.
void PutBest(const PackedColumn& column, const PackedColumn* before, std::string* data) {
  Coded best = AsTheyAre(column.integers);
  const auto consider = [&best](Coded coded) {
    if (coded.width < best.width) best = std::move(coded);
  };
  consider(FromRowBefore(column.integers));
  if (before != nullptr) consider(FromColumnBefore(column.integers, before->integers));
  Put(best.kind, data);
  PutIntegers(best, data);
}

void PutTexts(const PackedColumn& column, std::string* data) {
  Put(column.kind, data);
  Put(static_cast<uint32_t>(column.texts.size()), data);
  for (const std::string_view text : column.texts) Put(static_cast<uint32_t>(text.size()), data);
  for (const std::string_view text : column.texts) data->append(text);
  PutIntegers(AsTheyAre(column.integers), data);
}

// Says of each field of a row what it is.
class KindSource final : public schema::FieldSource {
 public:
  int64_t Integer() override {
    kinds_.push_back(ChunkColumn::kIntegers);
    return 0;
  }
  double Real() override {
    kinds_.push_back(ChunkColumn::kReals);
    return 0;
  }
  std::string_view Text() override {
    kinds_.push_back(ChunkColumn::kTexts);
    return {};
  }
  const std::vector<ChunkColumn>& kinds() const { return kinds_; }

 private:
  std::vector<ChunkColumn> kinds_;
};

std::vector<ChunkColumn> KindsOf(AnyRows* rows) {
  KindSource source;
  rows->Read(&source);
  rows->RemoveLast();
  return source.kinds();
}

// Bytes that may be anything, taken from the front.
class Bytes {
 public:
  explicit Bytes(std::string_view data) : left_(data) {}

  template <typename Number>
  bool Take(Number* number) {
    std::string_view bytes;
    if (!Take(sizeof(Number), &bytes)) return false;
    std::memcpy(number, bytes.data(), sizeof(Number));
    return true;
  }
  bool Take(uint64_t size, std::string_view* bytes) {
    if (size > left_.size()) return false;
    *bytes = left_.substr(0, size);
    left_.remove_prefix(size);
    return true;
  }
  size_t left() const { return left_.size(); }

 private:
  std::string_view left_;
};

// Where the next value of a column is, and what it is made of.
struct Reading {
  const char* at = nullptr;
  size_t width = 0;
  uint64_t mask = 0;
  uint64_t base = 0;
  uint64_t row_before = 0;
  uint64_t row_mask = 0;     // all bits: a difference to the row before
  uint64_t column_mask = 0;  // all bits: to the integer column before
  std::vector<std::string_view> texts;

  // Numbers end 8 bytes in front of the end of the data, so that 8 can be read.
  uint64_t Next(uint64_t column_before) {
    const uint64_t number = MaskedNumber(at, mask);
    at += width;
    row_before = base + number + (row_before & row_mask) + (column_before & column_mask);
    return row_before;
  }
};

// Gives the values of rows, one row after the other.
class ChunkSource final : public schema::FieldSource {
 public:
  // False: no chunk of rows with these fields.
  bool Open(std::string_view data, const std::vector<ChunkColumn>& kinds) {
    if (data.size() < kByteWidthPadding) return false;
    Bytes bytes(data.substr(0, data.size() - kByteWidthPadding));
    uint32_t format = 0;
    uint32_t num_rows = 0;
    uint32_t num_columns = 0;
    if (!bytes.Take(&format) || !bytes.Take(&num_rows) || !bytes.Take(&num_columns)) return false;
    if (format != kChunkFormat || num_rows == 0 || num_rows > kMostRowsOfChunk) return false;
    if (num_columns != kinds.size()) return false;
    num_rows_ = num_rows;
    columns_.resize(kinds.size());
    for (size_t i = 0; i < kinds.size(); ++i) {
      if (!OpenColumn(kinds[i], &bytes, &columns_[i])) return false;
    }
    return bytes.left() == 0;
  }

  size_t num_rows() const { return num_rows_; }
  void BeginRow() {
    next_ = columns_.data();
    integer_before_ = 0;
  }
  int64_t Integer() override {
    integer_before_ = (next_++)->Next(integer_before_);
    return static_cast<int64_t>(integer_before_);
  }
  double Real() override {
    double value = 0;
    std::memcpy(&value, next_->at, sizeof(value));
    (next_++)->at += sizeof(value);
    return value;
  }
  std::string_view Text() override {
    Reading& column = *next_++;
    return column.texts[column.Next(0)];  // within: OpenTexts() has looked at all
  }

 private:
  bool OpenColumn(ChunkColumn field, Bytes* bytes, Reading* column) {
    ChunkColumn kind = ChunkColumn::kIntegers;
    if (!bytes->Take(&kind)) return false;
    switch (kind) {
      case ChunkColumn::kIntegers:
      case ChunkColumn::kFromRowBefore:
      case ChunkColumn::kFromColumnBefore:
        if (kind == ChunkColumn::kFromRowBefore) column->row_mask = ~uint64_t{0};
        if (kind == ChunkColumn::kFromColumnBefore) column->column_mask = ~uint64_t{0};
        return field == ChunkColumn::kIntegers && OpenIntegers(bytes, column);
      case ChunkColumn::kReals: {
        std::string_view values;
        if (field != kind || !bytes->Take(num_rows_ * sizeof(double), &values)) return false;
        column->at = values.data();
        return true;
      }
      case ChunkColumn::kTexts:
        return field == kind && OpenTexts(bytes, column);
    }
    return false;
  }

  bool OpenIntegers(Bytes* bytes, Reading* column) const {
    uint8_t width = 0;
    if (!bytes->Take(&column->base) || !bytes->Take(&column->row_before) || !bytes->Take(&width)) {
      return false;
    }
    std::string_view numbers;
    if (width > sizeof(uint64_t) || !bytes->Take(num_rows_ * width, &numbers)) return false;
    column->at = numbers.data();
    column->width = width;
    column->mask = ByteMask(width);
    return true;
  }

  bool OpenTexts(Bytes* bytes, Reading* column) {
    uint32_t num_texts = 0;
    if (!bytes->Take(&num_texts) || num_texts > num_rows_) return false;
    std::vector<uint32_t> lengths(num_texts);
    for (uint32_t& length : lengths) {
      if (!bytes->Take(&length)) return false;
    }
    column->texts.resize(num_texts);
    for (size_t i = 0; i < num_texts; ++i) {
      if (!bytes->Take(lengths[i], &column->texts[i])) return false;
    }
    if (!OpenIntegers(bytes, column)) return false;
    Reading numbers;
    numbers.at = column->at;
    numbers.width = column->width;
    numbers.mask = column->mask;
    numbers.base = column->base;
    for (size_t row = 0; row < num_rows_; ++row) {
      const uint64_t text = numbers.Next(0);
      if (text >= num_texts) return false;
      text_bytes_ += lengths[text];
    }
    return text_bytes_ <= kMostTextOfChunk;
  }

  std::vector<Reading> columns_;
  size_t num_rows_ = 0;
  Reading* next_ = nullptr;
  uint64_t integer_before_ = 0;
  size_t text_bytes_ = 0;  // of all rows
};

}  // namespace

std::string PackRows(const AnyRows& rows) {
  SHARDSCOPE_CHECK(rows.size() > 0 && rows.size() <= kMostRowsOfChunk);
  ColumnSink sink;
  for (size_t i = 0; i < rows.size(); ++i) {
    sink.BeginRow();
    rows.Write(i, &sink);
  }
  if (sink.text_bytes() > kMostTextOfChunk) return {};
  std::string data;
  Put(kChunkFormat, &data);
  Put(static_cast<uint32_t>(rows.size()), &data);
  Put(static_cast<uint32_t>(sink.columns().size()), &data);
  const PackedColumn* before = nullptr;
  for (const PackedColumn& column : sink.columns()) {
    switch (column.kind) {
      case ChunkColumn::kReals:
        Put(column.kind, &data);
        for (const double value : column.reals) Put(value, &data);
        break;
      case ChunkColumn::kTexts:
        PutTexts(column, &data);
        break;
      default:
        PutBest(column, before, &data);
        before = &column;
        break;
    }
  }
  data.append(kByteWidthPadding, '\0');
  return data;
}

bool UnpackRows(std::string_view data, AnyRows* rows) {
  ChunkSource source;
  if (!source.Open(data, KindsOf(rows))) return false;
  // Not AnyRows::Read(): its calls of virtual functions would take most of the time.
  schema::ForEachType(schema::AllRows(), [&]<typename Row>() {
    if (schema::TableOf<Row>::kIndex != rows->table().index) return;
    std::vector<Row>& target = static_cast<TypedRows<Row>*>(rows)->rows;
    const size_t before = target.size();
    target.resize(before + source.num_rows());
    for (size_t at = before; at < target.size(); ++at) {
      source.BeginRow();
      schema::ReadFieldsOf(&source, &target[at]);
    }
  });
  return true;
}

}  // namespace shardscope::store
