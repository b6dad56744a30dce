#include "app/animate.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "app/spawn.h"
#include "trace/base/output_file.h"
#include "trace/base/parse_number.h"
#include "ui/shell/backend/animated_png.h"

namespace shardscope::app {
namespace {

constexpr int kMostSlowness = 1'000'000;

bool IsMovie(const std::string& path) {
  return CLI::detail::to_lower(std::filesystem::path(path).extension()) == ".mp4";
}

// Frames through ffmpeg's standard input. What it makes takes the place of the file at the end.
class Movie {
 public:
  static Result<std::unique_ptr<Movie>> Start(const std::string& path,
                                              const shell::ShotOptions& options, int64_t frame_ns) {
    SHARDSCOPE_ASSIGN_OR_RETURN(OutputFile file, OutputFile::Create(path));
    if (file.temporary().empty()) {
      return Status::Error(path + " is no regular file, which an MP4 needs; name another file");
    }
    std::unique_ptr<Movie> movie(new Movie(path, std::move(file)));
    const std::string size = fmt::format("{}x{}", options.width, options.height);
    const std::string rate = fmt::format("1000000000/{}", frame_ns);
    // H.264 takes even sizes only.
    std::vector<std::string> words = {"ffmpeg",
                                      "-loglevel",
                                      "error",
                                      "-y",
                                      "-f",
                                      "rawvideo",
                                      "-pix_fmt",
                                      "rgba",
                                      "-s",
                                      size,
                                      "-r",
                                      rate,
                                      "-i",
                                      "-",
                                      "-vf",
                                      "pad=ceil(iw/2)*2:ceil(ih/2)*2",
                                      "-pix_fmt",
                                      "yuv420p",
                                      "-f",
                                      "mp4",
                                      "file:" + movie->file_.temporary()};
    SHARDSCOPE_RETURN_IF_ERROR(movie->StartProgram(std::move(words)));
    return movie;
  }
  Movie(const Movie&) = delete;
  Movie& operator=(const Movie&) = delete;
  ~Movie() {
    if (pid_ > 0) static_cast<void>(Wait());
  }

  Status Add(const shell::Image& image) {
    size_t at = 0;
    while (at < image.rgba.size()) {
      const ssize_t sent =
          send(socket_, image.rgba.data() + at, image.rgba.size() - at, MSG_NOSIGNAL);
      if (sent < 0 && errno == EINTR) continue;
      if (sent <= 0) return Failed(Wait());
      at += static_cast<size_t>(sent);
    }
    return Status::Ok();
  }

  Status Close() {
    const int status = Wait();
    return status == 0 ? file_.Close() : Failed(status);
  }

 private:
  Movie(std::string path, OutputFile file) : path_(std::move(path)), file_(std::move(file)) {}

  Status StartProgram(std::vector<std::string> words) {
    std::array<int, 2> ends{};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
      return Status::Error(fmt::format("cannot start ffmpeg: {}", std::strerror(errno)));
    }
    socket_ = ends[0];
    const std::string program = words.front();
    const int error = Spawn(program, std::move(words), {.standard_input = ends[1]}, &pid_);
    close(ends[1]);
    if (error == 0) return Status::Ok();
    pid_ = -1;
    close(std::exchange(socket_, -1));
    return Status::Error(
        fmt::format("cannot start ffmpeg, which makes an MP4: {}; install it, or name a .png",
                    std::strerror(error)));
  }

  // Its exit status; it has had all frames.
  int Wait() {
    close(std::exchange(socket_, -1));
    int status = 0;
    while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    pid_ = -1;
    return status;
  }
  Status Failed(int status) const {
    return Status::Error(fmt::format("ffmpeg could not make {} (its {} is {}); it said why above",
                                     path_, WIFEXITED(status) ? "exit code" : "signal",
                                     WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status)));
  }

  const std::string path_;
  OutputFile file_;
  pid_t pid_ = -1;
  int socket_ = -1;
};

template <typename Writer>
Status CloseAfter(const Status& taken, Writer* writer) {
  return taken.ok() ? writer->Close() : taken;
}

}  // namespace

Result<int> ParseSlowness(const std::string& text) {
  if (text.starts_with("1/")) {
    const auto slowness = ParseInteger<int>(text.substr(2), 1);
    if (slowness && *slowness <= kMostSlowness) return *slowness;
  }
  return Status::Error(
      fmt::format("{}: give a share of the real speed from 1/1 to 1/{}", text, kMostSlowness));
}

Status CheckAnimationOutput(const std::string& path) {
  const std::string extension = CLI::detail::to_lower(std::filesystem::path(path).extension());
  if (extension != ".png" && extension != ".apng" && extension != ".mp4") {
    return Status::Error(fmt::format("{}: name a .png, which any browser plays, or an .mp4", path));
  }
  return OutputFile::Check(path);
}

Status WriteAnimation(query::SnapshotPtr snapshot, const shell::ShotOptions& options,
                      const shell::Animation& animation, const std::string& path) {
  if (IsMovie(path)) {
    std::unique_ptr<Movie> movie;
    const Status taken = shell::TakeAnimation(
        std::move(snapshot), options, animation,
        {.begin =
             [&](int64_t frame_ns) {
               auto started = Movie::Start(path, options, frame_ns);
               if (started.ok()) movie = std::move(started).value();
               return started.status();
             },
         .take = [&](const shell::Image& image) { return movie->Add(image); }});
    return CloseAfter(taken, movie.get());
  }
  std::optional<shell::AnimatedPng> png;
  const Status taken = shell::TakeAnimation(
      std::move(snapshot), options, animation,
      {.begin =
           [&](int64_t frame_ns) {
             auto created = shell::AnimatedPng::Create(path, animation.frames, frame_ns);
             if (created.ok()) png.emplace(std::move(created).value());
             return created.status();
           },
       .take = [&](const shell::Image& image) { return png->Add(image); }});
  return CloseAfter(taken, png ? &*png : nullptr);
}

}  // namespace shardscope::app
