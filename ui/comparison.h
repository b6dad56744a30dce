// What the panel Compare shows: the open run, A, beside another run or beside itself, B.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "trace/analysis/compare/comparison.h"
#include "trace/analysis/scope.h"

namespace shardscope::ui {

// What is compared with the open run.
struct ComparedWith {
  std::string path;                        // of B; empty: the open run itself
  std::optional<analysis::Scope> steps_a;  // none: all
  std::optional<analysis::Scope> steps_b;
  int times = 0;  // grows whenever it is asked for: then B is read again

  bool operator==(const ComparedWith&) const = default;
};

// The answer to one question.
struct Compared {
  ComparedWith with;
  analysis::Comparison comparison;
  std::string error;        // instead of it: why there is none, and what to do
  bool is_missing = false;  // B's path, which is why
  query::SnapshotPtr b;     // null: the open run itself
};

struct BesideStep;  // ui/beside_step.h

struct CompareState {
  std::optional<ComparedWith> asked;     // none: nothing is compared
  double share = 0;                      // of B that has been read; 0: not known
  std::shared_ptr<const Compared> made;  // of `asked`, or of what was asked before; null: none yet

  // B's step in focus under the lanes of A: until it is made, the one before; null: none is made.
  bool under_lanes = false;
  std::shared_ptr<const BesideStep> beside;

  int questions = 0;  // that were asked so far, each with its number

  void Forget() { *this = {.questions = questions}; }
  bool is_making() const { return asked && (made == nullptr || made->with != *asked); }
};

}  // namespace shardscope::ui
