# How our code is compiled: the standard, warnings as errors, the compiler cache, a fast linker, sanitizers.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
# Release keeps assertions: they guard the invariants of traces, and their cost does not show in any benchmark.
set(CMAKE_CXX_FLAGS_RELEASE "-O2")
set(CMAKE_C_FLAGS_RELEASE "-O2")
set(CMAKE_CXX_FLAGS_DEBUG "-O1 -g1")

# Where a preset asks for it (CMAKE_UNITY_BUILD), this many sources of a target are compiled as one: headers are then read, and
# templates instantiated, once for all of them, which halves what a build of everything costs. Names in unnamed namespaces
# have to differ within a target.
set(CMAKE_UNITY_BUILD_BATCH_SIZE 16)

find_program(CCACHE ccache)
if(CCACHE)
  # Paths below the source tree count as relative, so that another clone of it takes the same objects from the cache. Without
  # the two kinds of sloppiness, a precompiled header would never be served from it.
  set(CCACHE_ENVIRONMENT ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE_ENVIRONMENT} CCACHE_SLOPPINESS=pch_defines,time_macros ${CCACHE})
  set(CMAKE_C_COMPILER_LAUNCHER ${CCACHE_ENVIRONMENT} ${CCACHE})
  add_compile_options($<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fpch-preprocess>)
  # Sources that are compiled as one are named by whole paths: __FILE__ is not to differ between clones.
  add_compile_options(-fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=)
endif()

find_program(MOLD mold)
find_program(LLD ld.lld)
if(MOLD)
  add_link_options(-fuse-ld=mold)
elseif(LLD)
  add_link_options(-fuse-ld=lld)
endif()

# Linked by every target of ours, never by third-party code.
add_library(shardscope_warnings INTERFACE)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(shardscope_warnings INTERFACE
    -Wall -Wextra -Wpedantic -Wshadow=local -Wnon-virtual-dtor -Wold-style-cast -Woverloaded-virtual
    -Wno-missing-field-initializers -Werror)
  if(CMAKE_UNITY_BUILD)
    # Sources that are compiled together look like headers to the first of these; the others are false alarms of g++ 12
    # in the standard library's strings, which it does not take for a system header's once they are precompiled.
    target_compile_options(shardscope_warnings INTERFACE -Wno-subobject-linkage -Wno-array-bounds -Wno-stringop-overflow
      -Wno-stringop-overread)
  endif()
endif()

# For the few files whose loops have to be vectorised. Not under sanitizers: there the loops' time does not count, and this
# compiler dies on -O3 with a precompiled header of -O1.
set(SHARDSCOPE_VECTORISE -O3)

if(SHARDSCOPE_SANITIZE)
  set(SHARDSCOPE_VECTORISE -O1)
  # Third-party code stays as it is in a release build: what is found in it is not for us to fix, and the compiler cache
  # has it already. A finding ends the program, so that no test passes over it.
  target_compile_options(shardscope_warnings INTERFACE
    -O1 -g1 -fno-omit-frame-pointer -fsanitize=${SHARDSCOPE_SANITIZE} -fno-sanitize-recover=undefined)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # Instrumented code hides from g++ 12 that std::regex writes what it later reads.
    target_compile_options(shardscope_warnings INTERFACE -Wno-maybe-uninitialized)
  endif()
  if(SHARDSCOPE_FUZZ)
    # Clang only (scripts/fuzz): counts what every input reached.
    target_compile_options(shardscope_warnings INTERFACE -fsanitize=fuzzer-no-link)
  endif()
  add_link_options(-fsanitize=${SHARDSCOPE_SANITIZE} -Wl,--export-dynamic-symbol=dlclose)
  add_library(shardscope_sanitizer OBJECT ${PROJECT_SOURCE_DIR}/tests/sanitizers/runtime.cc)
  target_link_libraries(shardscope_sanitizer PRIVATE shardscope_warnings)
else()
  add_library(shardscope_sanitizer INTERFACE)
endif()
