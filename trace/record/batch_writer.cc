#include "trace/record/batch_writer.h"

#include <algorithm>

namespace shardscope::record {
namespace {

// Rows of all threads are committed in the order of these times, as far as one batch goes.
int64_t TimeOf(const OpRecord& record) { return record.run.ended_ns; }
int64_t TimeOf(const schema::StepRow& row) { return row.end_ns; }
int64_t TimeOf(const schema::SpanRow& row) { return row.start_ns; }
int64_t TimeOf(const schema::MemoryEventRow& row) { return row.executed_ns; }
int64_t TimeOf(const schema::CounterRow& row) { return row.time_ns; }

}  // namespace

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
Status BatchWriter::WriteKind(const std::vector<ThreadRings*>& rings, size_t* budget, bool* more) {
  std::vector<const T*> rows;
  std::vector<std::pair<SpscRing<T>*, size_t>> taken;
  for (ThreadRings* thread : rings) {
    SpscRing<T>* ring = std::get<LazyRing<T>>(thread->rings).Get();
    if (ring == nullptr) continue;
    const size_t readable = ring->NumReadable();
    const size_t count = std::min(readable, *budget);
    if (count < readable) *more = true;
    *budget -= count;
    for (size_t i = 0; i < count; ++i) rows.push_back(&ring->Peek(i));
    taken.emplace_back(ring, count);
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [](const T* a, const T* b) { return TimeOf(*a) < TimeOf(*b); });
  const size_t kind = static_cast<size_t>(kKindOf<T>);
  Status status;
  if (over_bound_) {
    lost_to_bound_[kind] += static_cast<int64_t>(rows.size());
  } else {
    batch_rows_[kind] += static_cast<int64_t>(rows.size());
    for (size_t i = 0; i < rows.size() && status.ok(); ++i) status = InsertHot(*rows[i]);
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

Status BatchWriter::WriteAllKinds(const std::vector<ThreadRings*>& rings, bool* more) {
  size_t budget = kMaxBatchRows;
  SHARDSCOPE_RETURN_IF_ERROR(WriteKind<OpRecord>(rings, &budget, more));
  SHARDSCOPE_RETURN_IF_ERROR(WriteKind<schema::StepRow>(rings, &budget, more));
  SHARDSCOPE_RETURN_IF_ERROR(WriteKind<schema::SpanRow>(rings, &budget, more));
  SHARDSCOPE_RETURN_IF_ERROR(WriteKind<schema::MemoryEventRow>(rings, &budget, more));
  return WriteKind<schema::CounterRow>(rings, &budget, more);
}

Status BatchWriter::WriteBatch(const std::vector<ThreadRings*>& rings, RareRows* rare, bool* more) {
  *more = false;
  batch_rows_ = {};
  const auto ids_before = last_hot_id_;
  Status status = writer_->Begin();
  // A hot row may refer to a rare row that was added just before it. Both end in one transaction,
  // so the rare rows may be taken last; no reader sees one without the other.
  if (status.ok()) {
    status = WriteAllKinds(rings, more);
    store::RowBatch fresh = rare->Take();
    store::AppendRows(&fresh, &rare_backlog_);
    if (status.ok()) status = WriteRareRows();
    if (status.ok()) status = writer_->Commit();
    if (!status.ok()) writer_->Rollback();
  }
  if (status.ok()) {
    rare_backlog_ = {};
  } else {
    last_hot_id_ = ids_before;
    for (size_t kind = 0; kind < kNumHotKinds; ++kind) lost_to_errors_[kind] += batch_rows_[kind];
  }
  if (max_bytes_ > 0 && !over_bound_) over_bound_ = writer_->SizeBytes() >= max_bytes_;
  return status;
}

}  // namespace shardscope::record
