#include "trace/record/batch_writer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <limits>
#include <tuple>
#include <utility>

namespace shardscope::record {
namespace {

constexpr size_t kCommitted = 0;
constexpr size_t kStarted = 1;
constexpr size_t kRows = 2;

template <typename T>
int64_t TimeOf(const T& record) {
  return schema::RecordOf<T>::TimeOf(record);
}

// Calls visit(time) for the rows that wait in a ring, oldest first, until it returns false. Returns
// how many it took. A row counts as no older than those before it: rings are emptied from the
// front.
template <typename T, typename Visit>
size_t ForEachTime(const SpscRing<T>& ring, Visit&& visit) {
  const size_t readable = ring.NumReadable();
  int64_t time_ns = std::numeric_limits<int64_t>::min();
  for (size_t i = 0; i < readable; ++i) {
    time_ns = std::max(time_ns, TimeOf(ring.Peek(i)));
    if (!visit(time_ns)) return i;
  }
  return readable;
}

// Calls visit(ring) for every ring that has been made, of all threads and kinds.
template <typename Visit>
void ForEachRing(const std::vector<ThreadRings*>& rings, const Visit& visit) {
  for (ThreadRings* thread : rings) {
    std::apply(
        [&](const auto&... lazy) {
          const auto visit_made = [&](const auto* ring) {
            if (ring != nullptr) visit(*ring);
          };
          (visit_made(lazy.Get()), ...);
        },
        thread->rings);
  }
}

}  // namespace

CommitCounter::CommitCounter() {
  const char* path = std::getenv("SHARDSCOPE_COMMIT_COUNTER");
  if (path == nullptr) return;
  const int descriptor = open(path, O_RDWR | O_CLOEXEC);
  if (descriptor < 0) return;
  void* memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  close(descriptor);
  if (memory != MAP_FAILED) words_ = static_cast<Word*>(memory);
}

CommitCounter::~CommitCounter() {
  if (words_ != nullptr) munmap(words_, kBytes);
}

void CommitCounter::BeforeCommit(const HotCounts& rows) {
  if (words_ == nullptr) return;
  const int64_t batch = words_[kCommitted].load() + 1;
  Word* slot = words_ + kRows + (batch % 2 == 0 ? 0 : schema::kNumHotRecords);
  for (size_t kind = 0; kind < schema::kNumHotRecords; ++kind) slot[kind].store(rows[kind]);
  words_[kStarted].store(batch);
}

void CommitCounter::AfterCommit() {
  if (words_ != nullptr) words_[kCommitted].store(words_[kStarted].load());
}

Result<std::unique_ptr<BatchWriter>> BatchWriter::Create(const std::string& folder,
                                                         int64_t max_bytes) {
  if (max_bytes > 0 && max_bytes < kLeastTraceBytes) {
    return Status::Error(fmt::format("record.max_bytes must be 0 (no limit) or at least {} bytes",
                                     kLeastTraceBytes));
  }
  std::unique_ptr<BatchWriter> batches(new BatchWriter(max_bytes));
  SHARDSCOPE_ASSIGN_OR_RETURN(
      std::unique_ptr<store::TraceWriter> writer,
      store::TraceWriter::Create(folder, batches->bound_.checkpoint_pages()));
  batches->writer_ = std::move(writer);
  return batches;
}

template <typename Row>
void BatchWriter::Number(Row* row) {
  row->id = decltype(row->id)(++last_hot_id_[schema::TableOf<Row>::kIndex]);
}

template <typename Row>
Status BatchWriter::InsertNumbered(Row* row) {
  Number(row);
  return writer_->Insert(*row);
}

template <typename T>
Status BatchWriter::InsertHot(const T& record) {
  using Record = schema::RecordOf<T>;
  auto first = Record::First(record);
  SHARDSCOPE_RETURN_IF_ERROR(InsertNumbered(&first));
  if constexpr (Record::kIsPair) {
    if (!Record::HasSecond(record)) return Status::Ok();
    auto second = Record::Second(record, first.id);
    if constexpr (Record::kSharesId) return writer_->Insert(second);
    return InsertNumbered(&second);
  }
  return Status::Ok();
}

// A batch takes the oldest rows of all threads and kinds: none waits behind a flood of another, and
// the rows of a step stay together, on which the size bound counts.
int64_t BatchWriter::LastTimeOfBatch(const std::vector<ThreadRings*>& rings) const {
  // As a rule all that waits fits into the batch, and no row has to be looked at for that.
  size_t waiting = 0;
  ForEachRing(rings, [&](const auto& ring) { waiting += ring.NumReadable(); });
  if (waiting <= bound_.batch_rows()) return std::numeric_limits<int64_t>::max();
  std::vector<int64_t> times;
  times.reserve(waiting);
  ForEachRing(rings, [&](const auto& ring) {
    ForEachTime(ring, [&](int64_t time_ns) {
      times.push_back(time_ns);
      return true;
    });
  });
  const auto last = times.begin() + static_cast<ptrdiff_t>(bound_.batch_rows() - 1);
  std::nth_element(times.begin(), last, times.end());
  return *last;
}

// Rows leave the rings only here, whether they were written or not: where nothing is written, none
// shall be lost to full rings besides. Nothing is written behind an error, `status`.
template <typename T>
Status BatchWriter::WriteKind(const std::vector<ThreadRings*>& rings, int64_t last_ns,
                              Status status, bool* more) {
  std::vector<const T*> rows;
  std::vector<std::pair<SpscRing<T>*, size_t>> taken;
  for (ThreadRings* thread : rings) {
    SpscRing<T>* ring = std::get<LazyRing<T>>(thread->rings).Get();
    if (ring == nullptr) continue;
    const size_t count =
        ForEachTime(*ring, [last_ns](int64_t time_ns) { return time_ns <= last_ns; });
    if (last_ns != std::numeric_limits<int64_t>::max()) *more = true;
    for (size_t i = 0; i < count; ++i) rows.push_back(&ring->Peek(i));
    taken.emplace_back(ring, count);
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [](const T* a, const T* b) { return TimeOf(*a) < TimeOf(*b); });
  const size_t kind = schema::RecordOf<T>::kIndex;
  if (!gone_.ok()) {
    lost_to_errors_[kind] += static_cast<int64_t>(rows.size());
    for (const T* row : rows) lost_memory_.Follow(*row);
  } else if (bound_.full()) {
    lost_to_bound_[kind] += static_cast<int64_t>(rows.size());
  } else {
    for (const T* row : rows) {
      if (!bound_.Admit(*row)) continue;
      ++batch_rows_[kind];
      lost_memory_.Follow(*row);
      if (status.ok()) status = InsertHot(*row);
    }
  }
  for (const auto& [ring, count] : taken) ring->Pop(count);
  return status;
}

Status BatchWriter::WriteRareRows() {
  for (size_t table = 0; table < schema::kNumTables; ++table) {
    const store::AnyRows& rows = rare_backlog_.At(table);
    for (size_t index = 0; index < rows.size(); ++index)
      SHARDSCOPE_RETURN_IF_ERROR(writer_->Insert(rows, index));
  }
  return Status::Ok();
}

Status BatchWriter::WriteLostMemory() {
  for (schema::MemoryEventRow& row : lost_memory_.Rows())
    SHARDSCOPE_RETURN_IF_ERROR(InsertNumbered(&row));
  return Status::Ok();
}

Status BatchWriter::WriteAllKinds(const std::vector<ThreadRings*>& rings, Status status,
                                  bool* more) {
  const int64_t last_ns = LastTimeOfBatch(rings);
  schema::ForEachType(schema::HotRecords(), [&]<typename T>() {
    status = WriteKind<T>(rings, last_ns, std::move(status), more);
  });
  return status;
}

// A hot row may refer to a rare row that was added just before it. Both end in one transaction, so
// the rare rows may be taken last; no reader sees one without the other.
Status BatchWriter::WriteTransaction(const std::vector<ThreadRings*>& rings, RareRows* rare,
                                     bool* more) {
  SHARDSCOPE_RETURN_IF_ERROR(writer_->Begin());
  // What stands for lost events comes before them in time.
  Status status = gone_.ok() ? WriteLostMemory() : Status::Ok();
  status = WriteAllKinds(rings, std::move(status), more);
  store::RowBatch fresh = rare->Take();
  store::AppendRows(&fresh, &rare_backlog_);
  if (status.ok()) status = WriteRareRows();
  if (status.ok()) {
    HotCounts rows = committed_;
    for (size_t kind = 0; kind < schema::kNumHotRecords; ++kind) rows[kind] += batch_rows_[kind];
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
  const Status status = WriteRows(rings, rare, more);
  // They are later than the rows that were in the rings, and go with the next batch, or the end.
  for (ThreadRings* thread : rings) lost_memory_.Add(thread->lost_memory.Take());
  return status;
}

Status BatchWriter::WriteRows(const std::vector<ThreadRings*>& rings, RareRows* rare, bool* more) {
  *more = false;
  if (!gone_.ok()) {
    (void)rare->Take();
    (void)WriteAllKinds(rings, Status::Ok(), more);
    lost_memory_.EndBatch(false);
    return gone_;
  }
  batch_rows_ = {};
  const auto ids_before = last_hot_id_;
  const auto lose_batch = [&] {
    last_hot_id_ = ids_before;
    for (size_t kind = 0; kind < schema::kNumHotRecords; ++kind)
      lost_to_errors_[kind] += batch_rows_[kind];
    lost_memory_.EndBatch(false);
  };
  Status status;
  try {
    status = WriteTransaction(rings, rare, more);
  } catch (const std::exception&) {  // no memory
    writer_->Rollback();
    lose_batch();
    throw;
  }
  bound_.EndBatch(status.ok());
  if (!status.ok()) {
    lose_batch();
    // A new segment would open with a balance that has the lost memory events in it already.
    return status;
  }
  rare_backlog_ = {};
  lost_memory_.EndBatch(true);
  if (batch_rows_ == HotCounts{}) return status;  // the size bound is about hot rows
  const schema::MemoryEventId last_memory_id(
      last_hot_id_[schema::TableOf<schema::MemoryEventRow>::kIndex]);
  return bound_.Keep(last_memory_id, writer_.get());
}

void BatchWriter::LoseRest(const std::vector<ThreadRings*>& rings) {
  if (gone_.ok()) gone_ = Status::Error("the trace cannot be written any more");
  bool more = true;
  while (more) {
    more = false;
    (void)WriteAllKinds(rings, Status::Ok(), &more);
    lost_memory_.EndBatch(false);
  }
}

// A file that was moved away gets none of them: the rows that it has count as lost, too.
Status BatchWriter::WriteLastRareRows(RareRows* rare) {
  writer_->ReleaseReserve();
  SHARDSCOPE_RETURN_IF_ERROR(writer_->CheckFile());
  batch_rows_ = {};
  bool more = false;
  const Status status = WriteTransaction({}, rare, &more);
  if (status.ok()) rare_backlog_ = {};
  return status;
}

Status BatchWriter::Finish(RareRows* rare) {
  store::RowBatch fresh = rare->Take();
  store::AppendRows(&fresh, &rare_backlog_);
  for (schema::MemoryEventRow& row : lost_memory_.Rows()) {
    Number(&row);
    rare_backlog_.Get<schema::MemoryEventRow>().push_back(row);
  }
  return writer_->Finish(rare_backlog_);
}

Status BatchWriter::CheckFile() {
  if (!gone_.ok()) return gone_;
  gone_ = writer_->CheckFile();
  if (gone_.ok()) return gone_;
  for (size_t kind = 0; kind < schema::kNumHotRecords; ++kind)
    lost_to_errors_[kind] += committed_[kind];
  return gone_;
}

}  // namespace shardscope::record
