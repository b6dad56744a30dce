// A library with a copy of NVTX of its own, as NCCL is.
#pragma once

__attribute__((visibility("default"))) void PushInLibrary(const char* name);
__attribute__((visibility("default"))) void PopInLibrary();
