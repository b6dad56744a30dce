#include "trace/bookmarks/bookmarks.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>
#include <utility>

#include "trace/base/input_file.h"
#include "trace/base/json_line.h"
#include "trace/base/output_file.h"
#include "trace/base/regular_file.h"

namespace shardscope::bookmarks {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr int kVersion = 1;
constexpr size_t kMostFileBytes = size_t{64} << 20;
constexpr std::string_view kSuffix = "bookmarks.json";

// From construction to destruction no other program changes `file` in this way. The folder itself
// is locked by the trainer for as long as it records into it. Where the file system has no locks,
// the last writer wins.
class FileLock {
 public:
  explicit FileLock(const std::string& file) : path_(file + ".lock") {
    while (true) {
      descriptor_ = open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
      if (descriptor_ < 0 || flock(descriptor_, LOCK_EX) != 0 || IsFileAt(descriptor_, path_)) {
        return;
      }
      (void)close(descriptor_);  // it was removed by the one before
    }
  }
  ~FileLock() {
    if (descriptor_ < 0) return;
    (void)unlink(path_.c_str());
    (void)close(descriptor_);
  }
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  std::string path_;
  int descriptor_ = -1;
};

Status Wrong(const std::string& file, const std::string& what) {
  return Status::Error(
      fmt::format("{}: {}; repair it or move it away, until then it stays as it is", file, what));
}

// Empty: it is a bookmark.
std::string WrongWith(const Json& item) {
  if (!item.is_object()) return "is no object";
  for (const char* key : {"id", "link"}) {
    if (!item.contains(key) || !item[key].is_string()) return fmt::format("has no text '{}'", key);
  }
  for (const char* key : {"note", "made"}) {
    if (item.contains(key) && !item[key].is_string()) return fmt::format("has no text '{}'", key);
  }
  return item["id"].get_ref<const std::string&>().empty() ? "has an empty 'id'" : "";
}

// The document of the file, of which bookmarks can be read; an empty one without a file.
Result<Json> Load(const std::string& file) {
  std::error_code ignored;
  if (!fs::exists(fs::symlink_status(file, ignored))) {
    return Json{{"version", kVersion}, {"bookmarks", Json::array()}};
  }
  SHARDSCOPE_ASSIGN_OR_RETURN(const std::string text, ReadFile(file, kMostFileBytes));
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return Wrong(file, "this is no whole JSON");
  if (!json.is_object() || !json.contains("bookmarks") || !json["bookmarks"].is_array() ||
      !json.contains("version") || !json["version"].is_number_integer()) {
    return Wrong(file, "there are no 'version' and 'bookmarks' in it");
  }
  if (json["version"].get<int64_t>() > kVersion) {
    return Status::Error(
        fmt::format("{}: a newer Shardscope wrote it; open it with that one", file));
  }
  const Json& items = json["bookmarks"];
  if (items.size() > kMostBookmarks) {
    return Wrong(file, fmt::format("there are more than {} bookmarks in it", kMostBookmarks));
  }
  for (size_t at = 0; at < items.size(); ++at) {
    const std::string wrong = WrongWith(items[at]);
    if (!wrong.empty()) return Wrong(file, fmt::format("bookmark {} {}", at + 1, wrong));
  }
  return json;
}

std::vector<Bookmark> BookmarksOf(const Json& json) {
  std::vector<Bookmark> all;
  for (const Json& item : json["bookmarks"]) {
    all.push_back({item["id"], item["link"], item.value("note", ""), item.value("made", "")});
  }
  return all;
}

void ApplyTo(const Change& change, Json* items) {
  const Bookmark& bookmark = change.bookmark;
  const auto found = std::find_if(items->begin(), items->end(),
                                  [&](const Json& item) { return item["id"] == bookmark.id; });
  if (change.removes) {
    if (found != items->end()) items->erase(found);
    return;
  }
  Json& item = found != items->end() ? *found : items->emplace_back(Json{{"id", bookmark.id}});
  item["link"] = bookmark.link;
  item["note"] = bookmark.note;
  item["made"] = bookmark.made;
}

}  // namespace

Bookmark NewBookmark(std::string link, std::string note) {
  std::random_device random;
  const uint64_t bits = (uint64_t{random()} << 32) | random();
  return {fmt::format("{:010x}", bits & 0xFF'FFFF'FFFF), std::move(link), std::move(note),
          fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)))};
}

std::string FileOf(const std::string& opened, const std::string& run_folder) {
  std::error_code ignored;
  fs::path path = fs::weakly_canonical(opened, ignored);
  if (!path.has_filename()) path = path.parent_path();  // "RUN/"
  const fs::path folder = fs::weakly_canonical(run_folder, ignored);
  if (path == folder) return (folder / kSuffix).string();
  const std::string beside = fmt::format("{}.{}", path.string(), kSuffix);
  const bool is_imported = path.parent_path() != folder;
  const bool is_writable =
      fs::exists(beside, ignored) || access(path.parent_path().c_str(), W_OK) == 0;
  return is_imported && !is_writable ? (folder / kSuffix).string() : beside;
}

bool IsBookmarksFile(std::string_view path) { return path.ends_with(kSuffix); }

Result<std::vector<Bookmark>> Read(const std::string& file) {
  SHARDSCOPE_ASSIGN_OR_RETURN(const Json json, Load(file));
  return BookmarksOf(json);
}

Result<std::vector<Bookmark>> Apply(const std::string& file, const std::vector<Change>& changes) {
  const FileLock lock(file);
  SHARDSCOPE_ASSIGN_OR_RETURN(Json json, Load(file));
  for (const Change& change : changes) ApplyTo(change, &json["bookmarks"]);
  if (json["bookmarks"].size() > kMostBookmarks) {
    return Status::Error(fmt::format("{} would have more than {} bookmarks: remove some first",
                                     file, kMostBookmarks));
  }
  std::error_code ignored;
  if (!fs::is_directory(fs::path(file).parent_path(), ignored)) {
    return Status::Error(
        fmt::format("cannot write {}: the folder of the run is gone; put it back, "
                    "or note them elsewhere before you close the run",
                    file));
  }
  const std::string text = JsonText(json);
  SHARDSCOPE_RETURN_IF_ERROR(WriteFile(file, text));
  return BookmarksOf(json);
}

void Apply(const std::vector<Change>& changes, std::vector<Bookmark>* bookmarks) {
  for (const Change& change : changes) {
    const auto found = std::ranges::find(*bookmarks, change.bookmark.id, &Bookmark::id);
    if (found == bookmarks->end()) {
      if (!change.removes) bookmarks->push_back(change.bookmark);
    } else if (change.removes) {
      bookmarks->erase(found);
    } else {
      *found = change.bookmark;
    }
  }
}

}  // namespace shardscope::bookmarks
