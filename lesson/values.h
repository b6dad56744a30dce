// Values: the numbers of a lesson, found in a run, in Schedules and in one another.
//
// Each object by one thread. Errors name the file and the number, with SQLite's own words.
#pragma once

#include <map>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "lesson/lesson.h"
#include "trace/query/select.h"
#include "trace/store/database.h"

namespace shardscope::lesson {

class Values {
 public:
  // `lesson` is borrowed. `run`: a run folder or trace file; empty: there is none, and numbers that
  // need one are errors.
  Values(const Lesson& lesson, std::string run, std::stop_token stop = {});

  // None: it is NULL, as what a run that has just begun does not show yet. The name is known.
  Result<std::optional<double>> Of(const std::string& name);

  // Rows of `sql` with numbers in place of their names: over the run, or, without one, alone. An
  // expression is one without SELECT in front.
  Result<query::SelectedRows> Ask(const std::string& sql);

  // Names in braces as their numbers with units, "?" for what is not there. `also`: names with
  // braces and what stands for them.
  Result<Words> Fill(const Words& words, const std::map<std::string, std::string>& also = {});

 private:
  Result<std::string> WithValues(const std::string& sql);
  Result<query::SelectedRows> AskPlan(const std::string& plan, const std::string& sql);
  Result<query::SelectedRows> AskAlone(const std::string& sql);
  Result<std::string> Filled(const std::string& text,
                             const std::map<std::string, std::string>& also);

  const Lesson& lesson_;
  const std::string run_;
  const std::stop_token stop_;
  std::map<std::string, std::optional<double>> known_;
  std::map<std::string, store::Database> plans_;
};

// The lesson as it is read before there is a run, with its numbers in its texts. Answers to it are
// judged as to the lesson itself.
Result<Lesson> Filled(Lesson lesson);

}  // namespace shardscope::lesson
