// A libcuda.so.1 for tests of messages: it answers as the environment says, and does nothing.
#include <cstdlib>

namespace {

int Number(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::atoi(text);
}

}  // namespace

extern "C" {

int cuInit(unsigned /*flags*/) { return Number("FAKE_CUDA_INIT", 0); }

int cuDriverGetVersion(int* version) {
  *version = Number("FAKE_CUDA_VERSION", 13000);
  return 0;
}

int cuDeviceGetCount(int* count) {
  *count = Number("FAKE_CUDA_DEVICES", 1);
  return 0;
}

}  // extern "C"
