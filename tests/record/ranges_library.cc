#include "tests/record/ranges_library.h"

#include <nvtx3/nvToolsExt.h>

void PushInLibrary(const char* name) { nvtxRangePushA(name); }
void PopInLibrary() { nvtxRangePop(); }
