#include "trace/query/derived.h"

#include <cstdint>
#include <utility>

#include "trace/query/snapshot_builder.h"
#include "trace/store/finished_source.h"
#include "trace/store/finisher.h"

namespace shardscope::query {
namespace {

// Whether the file has all ranks of its run: what is derived compares them.
bool IsWholeRun(const store::RowBatch& tables) {
  for (const schema::ConfigRow& row : tables.Get<schema::ConfigRow>()) {
    if (row.key == "run.ranks") {
      return row.value == std::to_string(tables.Get<schema::RankRow>().size());
    }
  }
  return true;
}

template <typename Row>
void MoveNumbered(std::vector<Row>* rows, store::RowBatch* batch) {
  for (size_t i = 0; i < rows->size(); ++i) (*rows)[i].id = static_cast<int64_t>(i) + 1;
  batch->Get<Row>() = std::move(*rows);
}

Status DeriveSteps(const Deriver& deriver, const store::RowBatch& tables,
                   store::FinishedSource* source, DerivedRows* rows) {
  SHARDSCOPE_ASSIGN_OR_RETURN(const store::StepBounds bounds, source->Bounds());
  for (int64_t first = bounds.first_step; first <= bounds.last_step;) {
    SHARDSCOPE_ASSIGN_OR_RETURN(const int64_t last, source->LastStepOfPart(first));
    store::RowBatch steps;
    SHARDSCOPE_RETURN_IF_ERROR(source->ReadSteps(first, last, &steps));
    SnapshotBuilder part("", "");
    part.Add(tables);
    part.Add(steps);
    deriver.derive_steps(*part.Publish(store::SourceState::kFinished), rows);
    first = last + 1;
    const auto done = static_cast<double>(first - bounds.first_step);
    const auto all = static_cast<double>(bounds.last_step + 1 - bounds.first_step);
    store::TellFinishProgress(store::kCopiedPercent +
                              static_cast<int>((100 - store::kCopiedPercent) * done / all));
  }
  return Status::Ok();
}

Status DeriveMemory(const Deriver& deriver, const store::RowBatch& tables,
                    store::FinishedSource* source, DerivedRows* rows) {
  SnapshotBuilder memory("", "");
  memory.Add(tables);
  store::RowBatch steps;
  SHARDSCOPE_RETURN_IF_ERROR(source->ReadDerived(&steps));  // none yet, but for the steps
  memory.Add(steps);
  while (true) {
    SHARDSCOPE_ASSIGN_OR_RETURN(const store::RowBatch events, source->ReadMemory());
    if (store::IsEmpty(events)) break;
    memory.Add(events);
  }
  deriver.derive_memory(*memory.Publish(store::SourceState::kFinished), rows);
  return Status::Ok();
}

Result<store::RowBatch> Derive(const Deriver& deriver, const std::string& path) {
  store::RowBatch batch;
  SHARDSCOPE_ASSIGN_OR_RETURN(auto source, store::FinishedSource::OpenFile(path));
  store::RowBatch tables;
  SHARDSCOPE_RETURN_IF_ERROR(source->ReadSmallTables(&tables));
  SHARDSCOPE_ASSIGN_OR_RETURN(const bool has_gpu_rows, source->HasGpuRows());
  if (has_gpu_rows || !IsWholeRun(tables)) return batch;
  DerivedRows rows;
  SHARDSCOPE_RETURN_IF_ERROR(DeriveSteps(deriver, tables, source.get(), &rows));
  SHARDSCOPE_RETURN_IF_ERROR(DeriveMemory(deriver, tables, source.get(), &rows));
  MoveNumbered(&rows.step_parts, &batch);
  MoveNumbered(&rows.stalls, &batch);
  MoveNumbered(&rows.slow_collectives, &batch);
  MoveNumbered(&rows.memory_peaks, &batch);
  return batch;
}

}  // namespace

void DeriveWhileFinishing(const Deriver& deriver) {
  store::SetDerive([deriver](const std::string& path) { return Derive(deriver, path); });
}

}  // namespace shardscope::query
