// Linked into every program that is built with sanitizers, so that tests, ctest and programs
// started by hand agree on what is a finding. There are no suppressions: whatever is reported is to
// be mended.

#if defined(__SANITIZE_ADDRESS__)
// Libraries stay loaded until the end. Graphics drivers load and unload others, and of memory whose
// owner is gone the leak checker can neither find what still points to it nor name who took it.
extern "C" __attribute__((visibility("default"))) int dlclose(void* /*handle*/) noexcept {
  return 0;
}
#endif
