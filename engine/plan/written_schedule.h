// Schedules that a user has written: read from a file, one op moved, compared with what a
// strategy's builder makes. docs/schedule.md, "A Schedule of your own".
#pragma once

#include <string>

#include "engine/plan/schedule.h"
#include "trace/base/status.h"

namespace shardscope::plan {

// What the file says, valid. Errors name the file, and the line or the op at fault.
Result<Schedule> ReadSchedule(const std::string& path);

// Whether ranks that are set up for `built` can run `written`, a valid one, in its place, with the
// same results bit for bit: the same mesh, model, state, streams, communicators and buffers, and in
// each program the same ops, of which those that use a buffer write and read it in the same order.
// What may differ is the order of ops otherwise, their waits, on which stream they communicate or
// copy, and when buffers are allocated and freed. The error begins with `path`, and names what
// differs.
Status CheckSameWork(const Schedule& built, const Schedule& written, const std::string& path);

// Issues op `from` where op `to` stands; those between move by one. Waits go on naming the same
// ops, so that one may come to wait for what is issued after it, which the validator refuses.
void MoveOp(OpIndex from, OpIndex to, Program* program);

// Issues `op` and those right before it that it needs (it waits for them, or they touch the same
// buffer) before the op that stands in front of them. Returns where it stands now: the same place
// if nothing does.
OpIndex IssueEarlier(OpIndex op, Program* program);
// The same the other way, with those right behind it that need it.
OpIndex IssueLater(OpIndex op, Program* program);

}  // namespace shardscope::plan
