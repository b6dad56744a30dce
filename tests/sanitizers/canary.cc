// One defect of each kind that the sanitizers look for, by name: race, overflow, leak, undefined.
// scripts/run_tests.py checks that each is found and reported, before it believes that the tests
// have none.
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <string>
#include <thread>

namespace {

// Not known to the compiler, so that it cannot see the defects.
int* volatile numbers = nullptr;
int volatile one = 1;

void Race() {
  int shared = 0;
  std::thread other([&] { shared = one; });
  shared = 2;
  other.join();
  std::printf("%d\n", shared);
}

void Overflow() {
  numbers = new int[4];
  std::printf("%d\n", numbers[3 + one]);
  delete[] numbers;
}

void Leak() {
  numbers = new int[4];
  numbers = nullptr;
}

void Undefined() {
  const int largest = std::numeric_limits<int>::max();
  std::printf("%d\n", largest + one);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string defect = argc == 2 ? argv[1] : "";
  if (defect == "race") {
    Race();
  } else if (defect == "overflow") {
    Overflow();
  } else if (defect == "leak") {
    Leak();
  } else if (defect == "undefined") {
    Undefined();
  } else {
    std::fprintf(stderr, "usage: sanitizer_canary race|overflow|leak|undefined\n");
    return 2;
  }
  return 0;
}
