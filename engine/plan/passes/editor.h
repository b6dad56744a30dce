// ProgramEditor: how passes change a program. Inside it an op is named by a stable id, so ops may
// move while dependencies keep naming the right op; Apply() renumbers once, at the end.
#pragma once

#include <list>
#include <vector>

#include "engine/plan/schedule.h"

namespace shardscope::plan {

class ProgramEditor {
 public:
  using OpId = OpIndex;  // the op's position before the edit

  // `program` must outlive the editor; it is consistent again after Apply().
  explicit ProgramEditor(Program& program);

  // Moves the ops of `group`, in that order, to just before `anchor`, which is not one of them.
  void MoveBefore(const std::vector<OpId>& group, OpId anchor);

  // Adds a dependency, whose target is a stable id, unless `op` has it already.
  void AddDependency(OpId op, Dependency dependency);

  // Writes order and dependencies back. Moving an op before what it waits for is a programming
  // error. Stream waits keep naming a stream: what they wait for follows from the new position.
  void Apply();

 private:
  Program& program_;
  std::list<OpId> order_;
  std::vector<std::list<OpId>::iterator> place_;  // by id
};

}  // namespace shardscope::plan
