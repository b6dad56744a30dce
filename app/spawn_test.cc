#include "app/spawn.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>

#include "trace/base/input_file.h"

namespace shardscope::app {
namespace {

int ExitCodeOf(pid_t pid) {
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(Spawn, GivesTheChildWordsEnvironmentInputAndAFileForWhatItPrints) {
  const std::string output = testing::TempDir() + "spawn_output.txt";
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  ASSERT_EQ(write(ends[1], "said\n", 5), 5);
  close(ends[1]);
  pid_t pid = -1;
  ASSERT_EQ(
      Spawn("sh", {"sh", "-c", "read line; echo $1 $NAME $line; echo lost >&2; exit 3", "_", "a b"},
            {.environment = std::vector<std::string>{"NAME=value"},
             .standard_input = ends[0],
             .output = output},
            &pid),
      0);
  close(ends[0]);
  EXPECT_EQ(ExitCodeOf(pid), 3);
  const auto printed = ReadFileEnd(output, 0, 100);
  ASSERT_TRUE(printed.ok());
  EXPECT_EQ(printed->bytes, "a b value said\nlost\n");
  std::filesystem::remove(output);
}

TEST(Spawn, GivesTheSignalMask) {
  sigset_t mask;
  sigemptyset(&mask);
  sigaddset(&mask, SIGTERM);
  pid_t pid = -1;
  ASSERT_EQ(Spawn("sh", {"sh", "-c", "kill -TERM $$; exit 5"}, {.signal_mask = &mask}, &pid), 0);
  EXPECT_EQ(ExitCodeOf(pid), 5);
}

TEST(Spawn, SaysWhyThereIsNoChild) {
  pid_t pid = -1;
  EXPECT_EQ(Spawn("/no/such/program", {"program"}, {}, &pid), ENOENT);
  EXPECT_EQ(pid, -1);
}

}  // namespace
}  // namespace shardscope::app
