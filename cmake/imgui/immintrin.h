// Stands before the compiler's own where Dear ImGui is included: its headers ask for all of x86's
// intrinsics, 54,000 lines that every source would read, and use those of SSE2.
#pragma once

#include <emmintrin.h>
