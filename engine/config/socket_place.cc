#include "engine/config/socket_place.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "engine/config/socket_io.h"

namespace shardscope::config {
namespace {

namespace fs = std::filesystem;

// Of sockets and their folders; the process that made it follows.
constexpr std::string_view kPrefix = "shardscope-";

std::string SocketName() {
  static std::atomic<int> next_number{0};
  return fmt::format("/{}{}-{}.sock", kPrefix, getpid(), next_number++);
}

// $XDG_RUNTIME_DIR if it is there, ours and short enough.
std::string RuntimeFolder(const std::string& name) {
  const char* folder = std::getenv("XDG_RUNTIME_DIR");
  struct stat facts = {};
  if (folder == nullptr || folder[0] != '/' || stat(folder, &facts) != 0) return "";
  const bool is_usable = S_ISDIR(facts.st_mode) && facts.st_uid == geteuid() &&
                         access(folder, W_OK | X_OK) == 0 &&
                         std::strlen(folder) + name.size() <= kMaxSocketPath;
  return is_usable ? folder : "";
}

// "shardscope-<pid>-..." of a process that is gone.
bool IsOfDeadProcess(const std::string& name) {
  if (!name.starts_with(kPrefix)) return false;
  const char* const end = name.data() + name.size();
  pid_t process = 0;
  const auto [rest, error] = std::from_chars(name.data() + kPrefix.size(), end, process);
  if (error != std::errc() || rest == end || *rest != '-' || process <= 0) return false;
  return kill(process, 0) != 0 && errno == ESRCH;
}

// The number of a process says nothing where containers share the folder.
bool HasListener(const std::string& path) {
  const auto address = AddressOf(path);
  const auto client = NewSocket();
  if (!address.ok() || !client.ok()) return true;
  const auto* any = reinterpret_cast<const sockaddr*>(&*address);
  return connect(client->get(), any, sizeof(*address)) == 0 || errno != ECONNREFUSED;
}

void ClearDeadSockets(const std::string& folder) {
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored)) {
    const std::string path = entry.path().string();
    struct stat facts = {};
    if (!IsOfDeadProcess(entry.path().filename().string()) || lstat(path.c_str(), &facts) != 0 ||
        facts.st_uid != geteuid()) {
      continue;
    }
    if (S_ISSOCK(facts.st_mode) && !HasListener(path)) unlink(path.c_str());
    if (S_ISDIR(facts.st_mode)) {
      ClearDeadSockets(path);
      rmdir(path.c_str());  // stays if anything else is in it
    }
  }
}

}  // namespace

Result<SocketPlace> ChooseSocketPlace() {
  const std::string name = SocketName();
  if (const std::string folder = RuntimeFolder(name); !folder.empty()) {
    ClearDeadSockets(folder);
    return SocketPlace{folder + name, ""};
  }
  const std::string own = fmt::format("/{}{}-XXXXXX", kPrefix, getpid());
  const char* temporary = std::getenv("TMPDIR");
  std::string parent = temporary != nullptr && temporary[0] == '/' ? temporary : "/tmp";
  if (parent.size() + own.size() + name.size() > kMaxSocketPath) parent = "/tmp";
  ClearDeadSockets(parent);
  std::string folder = parent + own;
  if (mkdtemp(folder.data()) == nullptr)  // mode 0700
    return Status::Error(
        fmt::format("no folder for the control socket: cannot make {}: {}; set XDG_RUNTIME_DIR or "
                    "TMPDIR to a folder that can be written",
                    folder, std::strerror(errno)));
  return SocketPlace{folder + name, folder};
}

void RemoveSocketPlace(const SocketPlace& place) {
  unlink(place.path.c_str());
  if (!place.own_folder.empty()) rmdir(place.own_folder.c_str());
}

}  // namespace shardscope::config
