// Turns a live trace into a finished one: one plain file, with indexes and derived tables.
#pragma once

#include <functional>
#include <string>

#include "trace/base/status.h"
#include "trace/base/words.h"
#include "trace/store/database.h"
#include "trace/store/row_io.h"
#include "trace/store/trace_file.h"

namespace shardscope::store {

// Makes the rows of derived tables (but step_range) from a file that has all other rows.
using Derive = std::function<Result<RowBatch>(const std::string& path)>;

// What this process derives whenever it finishes a trace; without it those tables stay empty. Call
// it in main(), before other threads are there.
void SetDerive(Derive derive);

// Called with how much of a trace this process has finished, in percent and ascending, a few ten
// times each, on the thread that finishes. Call it while no trace is being finished.
using FinishProgress = std::function<void(int percent)>;
void SetFinishProgress(FinishProgress progress);

// Copying comes to the first of these, reported by BuildFinished(); deriving to the second,
// reported by the deriver; packing rows, of a large trace, takes the rest (chunk_table.h).
inline constexpr int kCopiedPercent = 50;
inline constexpr int kDerivedPercent = 80;
void TellFinishProgress(int percent);

// The parts of finishing, for a trace that never was live as well (finished_writer.h). A new file
// is configured; once all tables have their rows, within one transaction, it is completed: indexes
// and views are added, meta.state becomes `state`, and the transaction ends; without a connection
// it is published: derived rows are added, of a large one all rows in chunks if `packs_rows`, and
// it takes its place.
Status ConfigureFinished(Database* database);
Status CompleteFinished(words::TraceState state, Database* database);
Status PublishFinished(const std::string& temporary, const TraceFile& file, bool packs_rows);

// Copies the live segments, and `rest`, rare rows for which they had no room, into a new file with
// meta.state = `state`, renames that to <stem>.db in one step and removes the segments. A reader
// that still has one open keeps its view of it. Whoever calls holds the trace's lock. After an
// error the segments are as they were.
Status BuildFinished(const TraceFile& file, words::TraceState state, const RowBatch& rest = {});

// Finishes a trace whose writer has died: state `cut`, or `finished` if the writer died while it
// was finishing. Does nothing if the writer (or another finisher) is alive or there is no live
// file.
Status FinishIfAbandoned(const TraceFile& file);

}  // namespace shardscope::store
