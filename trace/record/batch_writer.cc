#include "trace/record/batch_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace shardscope::record {
namespace {

// Rows of all threads are committed in the order of these times, as far as one batch goes.
int64_t TimeOf(const OpRecord& record) { return record.run.ended_ns; }
int64_t TimeOf(const schema::StepRow& row) { return row.end_ns; }
int64_t TimeOf(const schema::SpanRow& row) { return row.start_ns; }
int64_t TimeOf(const schema::MemoryEventRow& row) { return row.executed_ns; }
int64_t TimeOf(const schema::CounterRow& row) { return row.time_ns; }

}  // namespace

Result<std::unique_ptr<BatchWriter>> BatchWriter::Create(const std::string& folder,
                                                         int64_t max_bytes) {
  if (max_bytes > 0 && max_bytes < kMinMaxBytes) {
    return Status::Error(
        fmt::format("record.max_bytes must be 0 (no limit) or at least {} bytes", kMinMaxBytes));
  }
  std::unique_ptr<BatchWriter> batches(new BatchWriter(max_bytes));
  Result<std::unique_ptr<store::TraceWriter>> writer =
      store::TraceWriter::Create(folder, batches->bound_.checkpoint_pages());
  if (!writer.ok()) return writer.status();
  batches->writer_ = std::move(writer).value();
  return batches;
}

template <typename Row>
Status BatchWriter::InsertHot(const Row& row) {
  Row stored = row;
  stored.id = ++last_hot_id_[schema::TableOf<Row>::kIndex];
  return writer_->Insert(stored);
}

Status BatchWriter::InsertHot(const OpRecord& record) {
  SHARDSCOPE_RETURN_IF_ERROR(InsertHot(record.run));
  if (record.collective.kind.empty()) return Status::Ok();
  schema::CollectiveRow collective = record.collective;
  collective.op_run = last_hot_id_[schema::TableOf<schema::OpRunRow>::kIndex];
  return InsertHot(collective);
}

// Rows leave the rings only here, whether they were written or not.
template <typename T>
Status BatchWriter::WriteKind(const std::vector<ThreadRings*>& rings, size_t share, bool* more) {
  std::vector<const T*> rows;
  std::vector<std::pair<SpscRing<T>*, size_t>> taken;
  for (ThreadRings* thread : rings) {
    SpscRing<T>* ring = std::get<LazyRing<T>>(thread->rings).Get();
    if (ring == nullptr) continue;
    const size_t readable = ring->NumReadable();
    const size_t count = std::min(readable, share);
    if (count < readable) *more = true;
    share -= count;
    for (size_t i = 0; i < count; ++i) rows.push_back(&ring->Peek(i));
    taken.emplace_back(ring, count);
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [](const T* a, const T* b) { return TimeOf(*a) < TimeOf(*b); });
  const size_t kind = static_cast<size_t>(kKindOf<T>);
  Status status;
  if (!gone_.ok()) {
    lost_to_errors_[kind] += static_cast<int64_t>(rows.size());
  } else if (bound_.full()) {
    lost_to_bound_[kind] += static_cast<int64_t>(rows.size());
  } else {
    for (const T* row : rows) {
      if (!bound_.Admit(*row)) continue;
      ++batch_rows_[kind];
      if (status.ok()) status = InsertHot(*row);
    }
  }
  for (const auto& [ring, count] : taken) ring->Pop(count);
  return status;
}

Status BatchWriter::WriteRareRows() {
  Status status;
  schema::ForEachTable(schema::AllRows(), [&]<typename Row>() {
    for (const Row& row : rare_backlog_.Get<Row>()) {
      if (status.ok()) status = writer_->Insert(row);
    }
  });
  return status;
}

// Every kind has its own share of the batch, or a flood of one would keep the others waiting in
// their rings. Most rows are op runs and memory events.
Status BatchWriter::WriteAllKinds(const std::vector<ThreadRings*>& rings, bool* more) {
  const size_t share = bound_.batch_rows() / 2;
  SHARDSCOPE_RETURN_IF_ERROR(WriteKind<OpRecord>(rings, share, more));
  SHARDSCOPE_RETURN_IF_ERROR(WriteKind<schema::StepRow>(rings, share, more));
  SHARDSCOPE_RETURN_IF_ERROR(WriteKind<schema::SpanRow>(rings, share, more));
  SHARDSCOPE_RETURN_IF_ERROR(WriteKind<schema::MemoryEventRow>(rings, share, more));
  return WriteKind<schema::CounterRow>(rings, share, more);
}

// A hot row may refer to a rare row that was added just before it. Both end in one transaction, so
// the rare rows may be taken last; no reader sees one without the other.
Status BatchWriter::WriteTransaction(const std::vector<ThreadRings*>& rings, RareRows* rare,
                                     bool* more) {
  SHARDSCOPE_RETURN_IF_ERROR(writer_->Begin());
  Status status = WriteAllKinds(rings, more);
  store::RowBatch fresh = rare->Take();
  store::AppendRows(&fresh, &rare_backlog_);
  if (status.ok()) status = WriteRareRows();
  if (status.ok()) {
    HotCounts rows = committed_;
    for (size_t kind = 0; kind < kNumHotKinds; ++kind) rows[kind] += batch_rows_[kind];
    counter_.BeforeCommit(rows);
    status = writer_->Commit();
    if (status.ok()) {
      counter_.AfterCommit();
      committed_ = rows;
    }
  }
  if (!status.ok()) writer_->Rollback();
  return status;
}

Status BatchWriter::WriteBatch(const std::vector<ThreadRings*>& rings, RareRows* rare, bool* more) {
  *more = false;
  if (!gone_.ok()) {
    (void)rare->Take();
    (void)WriteAllKinds(rings, more);
    return gone_;
  }
  batch_rows_ = {};
  const auto ids_before = last_hot_id_;
  const Status status = WriteTransaction(rings, rare, more);
  bound_.EndBatch(status.ok());
  if (status.ok()) {
    rare_backlog_ = {};
  } else {
    last_hot_id_ = ids_before;
    for (size_t kind = 0; kind < kNumHotKinds; ++kind) lost_to_errors_[kind] += batch_rows_[kind];
  }
  const int64_t last_memory_id = last_hot_id_[schema::TableOf<schema::MemoryEventRow>::kIndex];
  const Status kept = bound_.Keep(last_memory_id, writer_.get());
  return status.ok() ? kept : status;
}

Status BatchWriter::CheckFile() {
  if (!gone_.ok()) return gone_;
  gone_ = writer_->CheckFile();
  if (gone_.ok()) return gone_;
  for (size_t kind = 0; kind < kNumHotKinds; ++kind) lost_to_errors_[kind] += committed_[kind];
  return gone_;
}

}  // namespace shardscope::record
