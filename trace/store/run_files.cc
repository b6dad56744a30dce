#include "trace/store/run_files.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <set>
#include <system_error>
#include <vector>

#include "trace/base/file_heads.h"
#include "trace/base/pickle/unpickle.h"
#include "trace/base/process.h"
#include "trace/base/text.h"
#include "trace/base/torch_range_names.h"
#include "trace/schema/ddl.h"
#include "trace/store/database.h"
#include "trace/store/finisher.h"
#include "trace/store/reader.h"
#include "trace/store/trace_file.h"

namespace shardscope::store {
namespace {

namespace fs = std::filesystem;

// Where that is not possible (read-only media, another user's run, a full disk) the live file is
// read as it is.
Status FinishWherePossible(RunFiles* run) {
  for (const TraceFile& trace : run->traces) {
    if (LiveSegments(trace).empty() || !CanWrite(run->path)) continue;
    const Status finished = FinishIfAbandoned(trace);
    if (finished.ok()) continue;
    if (!TraceReader::OpenNewest(trace).ok()) return finished;
    if (run->unfinished.empty()) run->unfinished = finished.message();
  }
  return Status::Ok();
}

std::string NameOf(const fs::path& folder) {
  std::error_code error;
  const fs::path absolute = fs::weakly_canonical(folder, error);
  const std::string name = (error ? folder : absolute).filename().string();
  return name.empty() ? folder.string() : name;
}

Status NoAccess(const std::string& path, const std::error_code& error) {
  const bool can_be_allowed = error == std::errc::permission_denied;
  return Status::Error(fmt::format("cannot open {}: {}{}", path, error.message(),
                                   can_be_allowed ? "; its owner can allow it" : ""));
}

// A training writes run.toml before its trace.
Status NoTrace(const std::string& folder) {
  if (!Exists(folder + "/run.toml")) {
    return Status::Error(fmt::format(
        "{} is no run folder: neither trace-*.db nor a profiler's traces are in it", folder));
  }
  if (FolderLock::IsHeld(folder)) {
    return Status::Error(fmt::format("{} has no trace yet: its run is starting", folder));
  }
  return Status::Error(fmt::format(
      "{} has no trace: its run was killed or failed while it started; start it again in another "
      "folder",
      folder));
}

// A pipe, a socket, a terminal: opening one may wait for ever.
bool IsNoFile(fs::file_type type) {
  return type == fs::file_type::fifo || type == fs::file_type::socket ||
         type == fs::file_type::character || type == fs::file_type::block;
}

constexpr size_t kMostTableNames = 5;  // of another program's SQLite file

constexpr std::string_view kGzipMagic = "\x1f\x8b\x08";

// What a file is that is no trace.
struct FileKind {
  std::string words;  // "a PNG image"; empty: not known, or a SQLite file
  bool can_be_imported = false;
};
constexpr std::string_view kJsonFile = "a JSON file";  // of what is not known
constexpr std::string_view kNsysReport = "an Nsight Systems report (.nsys-rep)";

struct Magic {
  size_t offset = 0;
  std::string_view bytes;
  const char* kind = "";
};
constexpr Magic kMagics[] = {
    {0, "\x89PNG\r\n", "a PNG image"},
    {0, "\xff\xd8\xff", "a JPEG image"},
    {0, "GIF8", "a GIF image"},
    {0, "%PDF-", "a PDF document"},
    {0,
     "\x7f"
     "ELF",
     "a program or library (ELF)"},
    {0, "\x28\xb5\x2f\xfd", "a file compressed with zstd"},
    {0,
     "\xfd"
     "7zXZ",
     "a file compressed with xz"},
    {0, "BZh", "a file compressed with bzip2"},
    {257, "ustar", "a tar archive"},
    {0, "\xff\xfe", "a text file (UTF-16)"},
    {0, "\xfe\xff", "a text file (UTF-16)"},
};

// `form`: "JSON" or "pickle"; `other`: what it is where nothing more is known.
FileKind KindOfFields(std::string_view head, std::string_view form, std::string_view other) {
  if (IsKineto(head)) {
    const bool profiler = Contains(head, "\"schemaVersion\"") ||
                          Contains(head, "\"deviceProperties\"") || Contains(head, "\"cpu_op\"") ||
                          Contains(head, torch_range_names::kStep);
    return {profiler ? "a PyTorch profiler trace (Chrome JSON)" : "a Chrome trace (JSON)", true};
  }
  if (IsMemorySnapshot(head)) {
    return {fmt::format("a CUDA memory snapshot of PyTorch ({})", form), true};
  }
  if (IsFlightRecorder(head)) {
    return {fmt::format("an NCCL flight recorder dump ({})", form), true};
  }
  return {std::string(other)};
}

// Text as people write it; a character may be cut at the end.
bool IsText(std::string_view head) {
  const auto is_control = [](char c) {
    return static_cast<unsigned char>(c) < 0x20 &&
           std::string_view("\t\n\f\r\x1b").find(c) == std::string_view::npos;
  };
  if (std::any_of(head.begin(), head.end(), is_control)) return false;
  constexpr size_t kLongestCharacter = 4;
  while (head.size() >= kLongestCharacter) {
    if (!TakeCodePoint(&head)) return false;
  }
  return true;
}

// The first bytes of what was compressed; empty where that is not known.
std::string Inflated(std::string_view head) {
  constexpr int kGzip = 16;  // of inflateInit2: with a header of gzip
  std::string inflated(kHeadBytes, '\0');
  std::string input(head);  // zlib's pointer is not const
  z_stream stream = {};
  if (inflateInit2(&stream, kGzip + MAX_WBITS) != Z_OK) return {};
  stream.next_in = reinterpret_cast<Bytef*>(input.data());  // zlib's bytes are unsigned
  stream.avail_in = static_cast<uInt>(input.size());
  stream.next_out = reinterpret_cast<Bytef*>(inflated.data());
  stream.avail_out = static_cast<uInt>(inflated.size());
  inflate(&stream, Z_SYNC_FLUSH);
  inflated.resize(inflated.size() - stream.avail_out);
  inflateEnd(&stream);
  return inflated;
}

Result<std::string> ReadHead(const std::string& path) {
  const std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen(path.c_str(), "rb"), &std::fclose);
  if (!file) return Status::Error(fmt::format("cannot open {}: {}", path, SystemError()));
  std::string head(kHeadBytes, '\0');
  head.resize(std::fread(head.data(), 1, head.size(), file.get()));
  return head;
}

FileKind KindOfTables(const std::vector<std::string>& tables) {
  const auto has = [&tables](std::string_view start) {
    return std::any_of(tables.begin(), tables.end(),
                       [start](const std::string& name) { return name.starts_with(start); });
  };
  if (has("StringIds") && (has("TARGET_INFO_") || has("CUPTI_ACTIVITY_KIND_") || has("META_DATA_")))
    return {"an Nsight Systems report exported to SQLite", true};
  if (tables.empty()) return {"an empty SQLite database"};
  std::vector<std::string> some(tables.begin(),
                                tables.begin() + std::min(tables.size(), kMostTableNames));
  for (std::string& name : some) name = Printable(Shortened(name, 40));
  if (tables.size() > some.size()) {
    some.push_back(fmt::format("{} more", tables.size() - some.size()));
  }
  return {fmt::format("a SQLite database of another program (tables {})", Join(some, ", "))};
}

// Not known: Shardscope's, or one that cannot be read.
FileKind KindOfSqlite(const std::string& path) {
  Result<Database> database = Database::Open(path, Database::Mode::kReadOnly);
  if (!database.ok()) return {};
  const Result<int64_t> application = database->QueryInteger("PRAGMA application_id");
  if (!application.ok() || *application == schema::kApplicationId) return {};
  Result<Statement> select =
      database->Prepare("SELECT name FROM main.sqlite_schema WHERE type = 'table' ORDER BY name");
  if (!select.ok()) return {};
  std::vector<std::string> tables;
  Result<bool> row = select->Step();
  for (; row.ok() && *row; row = select->Step()) tables.emplace_back(select->Text(0));
  if (!row.ok()) return {};
  return KindOfTables(tables);
}

// What `head`, the first bytes of a file, begins.
FileKind KindOfHead(std::string_view head) {
  if (head.empty()) return {"an empty file"};
  if (head.starts_with(kSqliteHead)) return {};
  if (head.starts_with(kGzipMagic)) {
    FileKind inside = KindOfHead(Inflated(head));
    if (inside.words.empty() || inside.words == "an empty file") {
      return {"a file compressed with gzip"};
    }
    inside.words += ", compressed with gzip";
    return inside;
  }
  if (IsNsysReport(head)) return {std::string(kNsysReport), true};
  for (const Magic& magic : kMagics) {
    if (head.size() > magic.offset && head.substr(magic.offset).starts_with(magic.bytes)) {
      return {magic.kind};
    }
  }
  if (head.starts_with("PK\x03\x04") || head.starts_with("PK\x05\x06")) {
    return {Contains(head, "/data.pkl") ? "a file of torch.save() (zip)" : "a zip archive"};
  }
  if (pickle::IsPickle(head)) return KindOfFields(head, "pickle", "a Python pickle");
  const std::string_view text = Trim(head);
  if (!IsText(head)) return {};
  const bool is_json = text.starts_with('{') || text.starts_with('[');
  return is_json ? KindOfFields(head, "JSON", kJsonFile) : FileKind{"a text file"};
}

// What to do with a file of that kind.
std::string RemedyFor(const FileKind& kind, const std::string& path) {
  if (kind.words == kNsysReport)
    return "only that can read it: export it first: nsys export --type sqlite " + path;
  if (kind.can_be_imported) return "make a run of it: shardscope import " + path + " -o RUN";
  const std::string own = "a run folder or a trace-*.db in one";
  if (!kind.words.starts_with(kJsonFile)) return "give " + own;
  return "its beginning has no \"traceEvents\", as a trace of torch.profiler has; give such a "
         "file, " +
         own;
}

}  // namespace

std::vector<TraceFile> ListTraces(const std::string& folder) {
  std::set<std::string> stems;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    std::error_code unknown;
    if (name.starts_with("trace-") && name.ends_with(".db") &&
        !IsNoFile(it->status(unknown).type())) {
      stems.insert(TraceFileOf(folder + "/" + name).stem);
    }
  }
  std::vector<TraceFile> traces;
  for (const std::string& stem : stems) traces.push_back(TraceFile{stem});
  return traces;
}

Result<RunFiles> FindRun(const std::string& path) {
  if (path.empty()) return Status::Error("'' is no run: give a run folder or a trace file");
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found) {
    return Status::Error(fmt::format("{} does not exist: give a run folder or a trace file", path));
  }
  if (error) return NoAccess(path, error);
  RunFiles run;
  if (status.type() == fs::file_type::directory) {
    run.path = path;
    while (run.path.size() > 1 && run.path.back() == '/') run.path.pop_back();
    fs::directory_iterator(path, error);
    if (error) return NoAccess(path, error);
    run.traces = ListTraces(run.path);
    if (run.traces.empty()) return NoTrace(run.path);
  } else {
    if (IsNoFile(status.type())) {
      return Status::Error(fmt::format("{} is no Shardscope trace: it is no file", path));
    }
    SHARDSCOPE_RETURN_IF_ERROR(CheckFileKind(path));
    const std::string parent = fs::path(path).parent_path().string();
    run.path = parent.empty() ? std::string(".") : parent;
    run.traces.push_back(TraceFileOf(path));
  }
  run.name = NameOf(run.path);
  SHARDSCOPE_RETURN_IF_ERROR(FinishWherePossible(&run));
  return run;
}

Status CheckFileKind(const std::string& path) {
  SHARDSCOPE_ASSIGN_OR_RETURN(const std::string head, ReadHead(path));
  // A writer makes its live file a moment before the tables in it.
  if (head.empty() && WriterLives(TraceFileOf(path))) return Status::Ok();
  const bool is_sqlite = head.starts_with(kSqliteHead);
  FileKind kind = is_sqlite ? KindOfSqlite(path) : KindOfHead(head);
  if (kind.words.empty() && is_sqlite) return Status::Ok();
  if (kind.words.empty()) kind.words = "a file of another program";
  return Status::Error(fmt::format("{} is no Shardscope trace: it is {}; {}", path, kind.words,
                                   RemedyFor(kind, path)));
}

}  // namespace shardscope::store
