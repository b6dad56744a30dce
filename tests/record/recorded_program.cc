// What record_test.py records: `recorded_program MODE`. Every mode says on stdout what it did.
#include <dlfcn.h>
#include <fcntl.h>
#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvToolsExtPayload.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <string_view>
#include <thread>

#include "tests/record/fake_nccl.h"
#include "tests/record/ranges_library.h"

namespace {

void Range(const char* name) {
  nvtxRangePushA(name);
  nvtxRangePop();
}

nvtxEventAttributes_t Numbered(const char* name, int32_t type) {
  nvtxEventAttributes_t event = {};
  event.version = NVTX_VERSION;
  event.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  event.messageType = NVTX_MESSAGE_TYPE_ASCII;
  event.message.ascii = name;
  event.payloadType = type;
  return event;
}

// Every kind of event, and every kind of number that it may carry.
void Numbers() {
  nvtxDomainHandle_t domain = nvtxDomainCreateA("numbers");
  nvtxEventAttributes_t event = Numbered("int", NVTX_PAYLOAD_TYPE_INT32);
  event.payload.iValue = -7;
  nvtxDomainRangePushEx(domain, &event);
  event = Numbered("unsigned", NVTX_PAYLOAD_TYPE_UNSIGNED_INT32);
  event.payload.uiValue = 4000000000U;
  nvtxDomainRangePushEx(domain, &event);
  event = Numbered("float", NVTX_PAYLOAD_TYPE_FLOAT);
  event.payload.fValue = 1.5F;
  nvtxDomainRangePushEx(domain, &event);
  for (int i = 0; i < 3; ++i) nvtxDomainRangePop(domain);
  event = Numbered("double", NVTX_PAYLOAD_TYPE_DOUBLE);
  event.payload.dValue = -0.5;
  nvtxDomainRangeEnd(domain, nvtxDomainRangeStartEx(domain, &event));
  event = Numbered("mark", NVTX_PAYLOAD_TYPE_INT64);
  event.payload.llValue = int64_t{1} << 40;
  nvtxDomainMarkEx(domain, &event);
}

// A range whose payload is a structure with an enumeration in it, and two that nobody can read.
int Payloads() {
  struct Data {
    int32_t layer;
    int32_t kind;
    const char* where;
    double share;
  };
  nvtxDomainHandle_t domain = nvtxDomainCreateA("library");
  const nvtxPayloadEnum_t kinds[] = {{"dense", 1, 0}, {"sparse", 2, 0}};
  nvtxPayloadEnumAttr_t values = {};
  values.fieldMask = NVTX_PAYLOAD_ENUM_ATTR_FIELD_ENTRIES |
                     NVTX_PAYLOAD_ENUM_ATTR_FIELD_NUM_ENTRIES | NVTX_PAYLOAD_ENUM_ATTR_FIELD_SIZE;
  values.entries = kinds;
  values.numEntries = 2;
  values.sizeOfEnum = 4;
  const uint64_t kind = nvtxPayloadEnumRegister(domain, &values);
  nvtxPayloadSchemaEntry_t entries[4] = {};
  entries[0].type = NVTX_PAYLOAD_ENTRY_TYPE_INT32;
  entries[0].name = "layer";
  entries[1].type = kind;
  entries[1].name = "kind";
  entries[2].type = NVTX_PAYLOAD_ENTRY_TYPE_CSTRING;
  entries[2].name = "where";
  entries[3].type = NVTX_PAYLOAD_ENTRY_TYPE_DOUBLE;
  entries[3].name = "share";
  nvtxPayloadSchemaAttr_t schema = {};
  schema.fieldMask = NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_TYPE | NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_ENTRIES |
                     NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_NUM_ENTRIES |
                     NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_STATIC_SIZE;
  schema.type = NVTX_PAYLOAD_SCHEMA_TYPE_STATIC;
  schema.entries = entries;
  schema.numEntries = 4;
  schema.payloadStaticSize = sizeof(Data);
  const uint64_t id = nvtxPayloadSchemaRegister(domain, &schema);
  const auto range = [&](const char* name, uint64_t as, const void* payload, size_t bytes) {
    const nvtxPayloadData_t data = {as, bytes, payload};
    nvtxEventAttributes_t event = Numbered(name, NVTX_PAYLOAD_TYPE_EXT);
    event.payload.ullValue = reinterpret_cast<uintptr_t>(&data);
    event.reserved0 = 1;
    nvtxDomainRangePushEx(domain, &event);
    nvtxDomainRangePop(domain);
  };
  const Data data = {3, 2, "decoder", 0.25};
  range("known", id, &data, sizeof(data));
  range("unknown", id + 1, &data, sizeof(data));
  const Data wrong = {4, 7, reinterpret_cast<const char*>(8), 0.5};
  range("wrong", id, &wrong, sizeof(wrong));
  range("short", id, &data, 5);
  std::printf("%d %d\n", id != 0, nvtxDomainIsEnabled(domain));
  return 0;
}

int Ranges() {
  for (int i = 0; i < 3; ++i) {
    nvtxRangePushA("step");
    nvtxRangePushW(L"forward é");
    usleep(2000);
    nvtxRangePop();
    nvtxRangePop();
  }
  nvtxDomainHandle_t domain = nvtxDomainCreateA("library");
  nvtxEventAttributes_t event = {};
  event.version = NVTX_VERSION;
  event.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  event.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
  event.message.registered = nvtxDomainRegisterStringA(domain, "registered");
  nvtxDomainRangePushEx(domain, &event);
  nvtxDomainRangePop(domain);
  nvtxMarkA("mark");
  Numbers();
  // Starts here, ends on another thread.
  const nvtxRangeId_t crossing = nvtxRangeStartA("crossing");
  std::thread([crossing] {
    Range("on a thread");
    nvtxRangeEnd(crossing);
  }).join();
  nvtxRangePop();  // one too many
  // Two copies of NVTX whose ranges cross on one thread.
  nvtxRangePushA("outer of program");
  PushInLibrary("inner of library");
  usleep(2000);
  nvtxRangePop();
  usleep(20000);
  PopInLibrary();
  return 0;
}

int Fork() {
  Range("before fork");
  const pid_t child = fork();
  if (child == 0) {
    Range("in child");
    std::exit(0);  // with all handlers of exit
  }
  int status = 0;
  waitpid(child, &status, 0);
  Range("after fork");
  return status;
}

// A forked child that outlives its killed parent.
int Orphan() {
  Range("before fork");
  usleep(200000);
  if (fork() == 0) {
    close(1);
    close(2);
    usleep(3000000);
    _exit(0);
  }
  _exit(0);
}

int Exec(const char* program) {
  Range("before exec");
  execl(program, program, "ranges", nullptr);
  return 1;
}

// Ranges until a signal comes.
int Endless() {
  Range("first");
  usleep(300000);  // several batches of the recorder
  std::printf("ready\n");
  std::fflush(stdout);
  while (true) {
    Range("endless");
    usleep(1000);
  }
}

int QuickExit() {
  Range("first");
  usleep(300000);
  std::fflush(stdout);
  _exit(7);
}

// As libcuda does in cuInit. `fake_cupti`: a library to be there before, as LibTorch brings one.
int Cuda(const char* fake_cupti) {
  void* cupti = fake_cupti == nullptr ? nullptr : dlopen(fake_cupti, RTLD_NOW | RTLD_LOCAL);
  if (fake_cupti != nullptr && cupti == nullptr) return 3;
  void* library = dlopen(std::getenv("CUDA_INJECTION64_PATH"), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return 1;
  auto* initialize = reinterpret_cast<int (*)()>(dlsym(library, "InitializeInjection"));
  if (initialize == nullptr || initialize() != 1) return 1;
  if (cupti != nullptr) reinterpret_cast<int (*)()>(dlsym(cupti, "FakeGpuWork"))();
  return 0;
}

// Its threads take no signal: those that this library starts must not either.
int Threads() {
  Range("first");
  signal(SIGUSR1, [](int) {
    // The main thread's name is the program's.
    char name[16] = {};
    pthread_getname_np(pthread_self(), name, sizeof name);
    const char* said = std::strcmp(name, "recorder") == 0 ? "recorder\n" : "program\n";
    (void)!write(1, said, std::strlen(said));
  });
  sigset_t usr1;
  sigemptyset(&usr1);
  sigaddset(&usr1, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &usr1, nullptr);
  kill(getpid(), SIGUSR1);  // pending, unless some other thread takes it
  usleep(50000);
  pthread_sigmask(SIG_UNBLOCK, &usr1, nullptr);
  return 0;
}

// Ranges that nobody ends.
int LeaveOpen() {
  nvtxRangePushA("outer");
  nvtxRangePushA("inner");
  nvtxRangeStartA("crossing");
  std::thread([] { nvtxRangePushA("of a thread"); }).join();
  static std::atomic<bool> is_asleep = false;
  std::thread sleeper([] {
    nvtxRangePushA("of a sleeper");
    is_asleep = true;
    usleep(100000000);
  });
  sleeper.detach();
  while (!is_asleep) usleep(1000);
  usleep(100000);
  return 0;
}

// A range that lasts longer than the recording.
int Held() {
  const int before = nvtxRangePushA("held");
  const char* until_ns = std::getenv("SHARDSCOPE_RECORD_UNTIL");
  if (until_ns == nullptr) return 1;
  timespec now = {};
  do {
    usleep(10000);
    clock_gettime(CLOCK_MONOTONIC, &now);
  } while (now.tv_sec * 1'000'000'000 + now.tv_nsec < std::atoll(until_ns));
  nvtxRangePushA("too late");
  const int after = nvtxRangePushA("too late");
  nvtxRangePop();
  nvtxRangePop();
  nvtxRangePop();
  std::printf("%d %d\n", before, after);
  return 0;
}

// Threads that are cancelled while they use NVTX for the first time end, and the program goes on.
int Cancelled() {
  for (int i = 0; i < 2; ++i) {
    pthread_t thread = 0;
    void* result = nullptr;
    pthread_create(
        &thread, nullptr,
        [](void*) -> void* {
          pthread_cancel(pthread_self());
          Range("before the end");
          pthread_testcancel();
          return nullptr;
        },
        nullptr);
    pthread_join(thread, &result);
    if (result != PTHREAD_CANCELED) return 1;
  }
  Range("after");
  return 0;
}

// Closes all descriptors that it does not know, as a daemon does, and opens files of its own.
int CloseAll(const char* folder) {
  Range("before");
  usleep(200000);
  closefrom(STDERR_FILENO + 1);
  for (char name = 'a'; name < 'a' + 12; ++name) {
    const std::string path = std::string(folder) + "/" + name;
    const int file = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL, 0644);
    if (file < 0 || write(file, "mine", 4) != 4) return 1;
  }
  for (int i = 0; i < 1000; ++i) Range("after");
  usleep(200000);
  for (int i = 0; i < 1000; ++i) Range("after");
  return 0;
}

// A range that is no pushed one on the main thread, and one on another.
int ThreadRanges() {
  nvtxRangeEnd(nvtxRangeStartA("of main"));
  std::thread([] { nvtxRangeEnd(nvtxRangeStartA("of a thread")); }).join();
  return 0;
}

// Memory runs out while ranges of ever new names come.
int NoMemory() {
  Range("first");
  usleep(200000);
  rlimit before = {};
  getrlimit(RLIMIT_AS, &before);
  long pages = 0;
  if (std::FILE* status = std::fopen("/proc/self/statm", "r")) {
    if (std::fscanf(status, "%ld", &pages) != 1) return 1;
    std::fclose(status);
  }
  rlimit now = before;
  now.rlim_cur = static_cast<rlim_t>(pages * getpagesize() + (8 << 20));
  setrlimit(RLIMIT_AS, &now);
  static char name[1000];
  std::memset(name, 'x', sizeof name - 1);
  for (int i = 0; i < 60000; ++i) {
    std::snprintf(name, sizeof name, "%06d", i);
    name[6] = 'x';
    Range(name);
  }
  setrlimit(RLIMIT_AS, &before);
  std::printf("done\n");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view mode = argc > 1 ? argv[1] : "";
  if (mode == "ranges") return Ranges();
  if (mode == "payloads") return Payloads();
  if (mode == "fork") return Fork();
  if (mode == "orphan") return Orphan();
  if (mode == "exec") return Exec(argv[0]);
  if (mode == "endless") return Endless();
  if (mode == "quick_exit") return QuickExit();
  if (mode == "cuda") return Cuda(argc > 2 ? argv[2] : nullptr);
  if (mode == "signals") return Threads();
  if (mode == "left_open") return LeaveOpen();
  if (mode == "held") return Held();
  if (mode == "cancelled") return Cancelled();
  if (mode == "no_memory") return NoMemory();
  if (mode == "thread_ranges") return ThreadRanges();
  if (mode == "close_all" && argc > 2) return CloseAll(argv[2]);
  if (mode == "nccl5") return DrivePlugin(5) ? 0 : 1;
  if (mode == "nccl4") return DrivePlugin(4) ? 0 : 1;
  std::fprintf(stderr, "recorded_program: no mode '%s'\n", argc > 1 ? argv[1] : "");
  return 2;
}
