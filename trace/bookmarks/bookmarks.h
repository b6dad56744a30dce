// Bookmarks: places in a run with notes, in a file beside it that people and programs may read:
//
//   {"version": 1, "bookmarks": [{"id": "3f2a81c09b", "link": "step=30&rank=1&op=AG%20block1",
//                                 "note": "waits for rank 2", "made": "2026-11-25T12:53:11Z"}]}
//
// A link is what stands behind the # of one (ui/link.h); here it is a text. Fields that are not
// known stay as they are. Several programs may change one file: a change is applied to what the
// file has then, under a lock on its folder, and the file is replaced as a whole.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "trace/base/status.h"

namespace shardscope::bookmarks {

inline constexpr size_t kMostNoteBytes = 4096;
inline constexpr size_t kMostBookmarks = 10'000;

struct Bookmark {
  std::string id;  // of this one, in every file
  std::string link;
  std::string note;  // may be empty
  std::string made;  // UTC, "2026-11-25T12:53:11Z"

  bool operator==(const Bookmark&) const = default;
};

// A new one, made now.
Bookmark NewBookmark(std::string link, std::string note);

struct Change {
  Bookmark bookmark;     // replaces that with its id, else is added
  bool removes = false;  // instead that with its id goes, if it is there
};

// Where the bookmarks of a run are. `opened`: the path that was given; `run_folder`: the folder of
// its traces. Of a run folder RUN/bookmarks.json; of one trace file, or what was imported,
// PATH.bookmarks.json beside it, or, where that cannot be written, in the folder of the imported
// run, which is in the cache and goes with it.
std::string FileOf(const std::string& opened, const std::string& run_folder);

// Whether a file of this name holds bookmarks.
bool IsBookmarksFile(std::string_view path);

// In the order of the file; none without a file. Errors name the file, what is wrong with it, and
// the remedy: not JSON, of a newer version, something that is no bookmark.
Result<std::vector<Bookmark>> Read(const std::string& file);

// Applies the changes to what the file has, and returns what it has then. A file that Read() has
// an error for stays as it is, and that is the error; others: the folder cannot be written.
Result<std::vector<Bookmark>> Apply(const std::string& file, const std::vector<Change>& changes);

// The same to a list.
void Apply(const std::vector<Change>& changes, std::vector<Bookmark>* bookmarks);

}  // namespace shardscope::bookmarks
