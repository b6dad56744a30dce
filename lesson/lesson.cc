#include "lesson/lesson.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace shardscope::lesson {

const Number* Lesson::FindNumber(std::string_view name) const {
  const auto found = std::ranges::find(numbers, name, &Number::name);
  return found == numbers.end() ? nullptr : &*found;
}

std::vector<std::string> NamesIn(std::string_view text) {
  std::vector<std::string> names;
  for (size_t open = text.find('{'); open != std::string_view::npos; open = text.find('{', open)) {
    const size_t close = text.find('}', ++open);
    if (close == std::string_view::npos) break;
    names.emplace_back(text.substr(open, close - open));
  }
  return names;
}

bool NeedsRun(const Lesson& lesson, std::string_view number) {
  const Number& found = *lesson.FindNumber(number);
  if (found.source == Source::kRun) return true;
  return std::ranges::any_of(NamesIn(found.sql),
                             [&](const std::string& name) { return NeedsRun(lesson, name); });
}

Result<config::Config> ConfigOf(const Keys& keys) {
  config::Config config;
  SHARDSCOPE_RETURN_IF_ERROR(config.SetAll(keys));
  SHARDSCOPE_RETURN_IF_ERROR(config.Check());
  return config;
}

Result<std::vector<Lesson>> ReadLessons(const std::vector<std::string>& paths) {
  if (paths.empty()) {
    return Status::Error(
        "there are no lessons: they are files NUMBER-ID.toml of assets/lessons, beside the program "
        "or in the checkout that it was built in");
  }
  std::vector<Lesson> lessons;
  for (const std::string& path : paths) {
    SHARDSCOPE_ASSIGN_OR_RETURN(Lesson lesson, ReadLesson(path));
    for (const Lesson& other : lessons) {
      if (other.order != lesson.order && other.id != lesson.id) continue;
      return Status::Error(
          fmt::format("{} and {} have the same number or id: rename one", other.path, lesson.path));
    }
    lessons.push_back(std::move(lesson));
  }
  std::ranges::sort(lessons, {}, &Lesson::order);
  return lessons;
}

}  // namespace shardscope::lesson
