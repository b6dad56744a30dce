# Every third-party library as one target. Archives come from scripts/setup, the rest from Debian packages.
if(DEFINED ENV{XDG_CACHE_HOME})
  set(SHARDSCOPE_CACHE_DEFAULT $ENV{XDG_CACHE_HOME}/shardscope)
else()
  set(SHARDSCOPE_CACHE_DEFAULT $ENV{HOME}/.cache/shardscope)
endif()
set(SHARDSCOPE_CACHE ${SHARDSCOPE_CACHE_DEFAULT} CACHE PATH "Where scripts/setup unpacked the pinned archives")

find_package(Threads REQUIRED)
find_package(CLI11 REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(tomlplusplus REQUIRED)
find_package(fmt REQUIRED)
find_package(GTest REQUIRED)
find_package(benchmark REQUIRED)
find_package(Python3 REQUIRED COMPONENTS Interpreter)

# Static, so that the trainer, the app and later the injected library carry one known SQLite.
add_library(sqlite3_static INTERFACE)
find_library(SQLITE3_ARCHIVE libsqlite3.a REQUIRED)
find_library(MATH_LIBRARY m REQUIRED)
target_link_libraries(sqlite3_static INTERFACE ${SQLITE3_ARCHIVE} ${MATH_LIBRARY} Threads::Threads ${CMAKE_DL_LIBS})

# Static, as above: no library of Shardscope brings a second one into another program's process.
add_library(zlib_static INTERFACE)
find_library(ZLIB_ARCHIVE libz.a REQUIRED)
target_link_libraries(zlib_static INTERFACE ${ZLIB_ARCHIVE})

# Static likewise: as a library it brings an XML reader with 30 MB of Unicode tables, for archives that do not occur.
add_library(archive_static INTERFACE)
find_library(ARCHIVE_ARCHIVE libarchive.a REQUIRED)
target_link_libraries(archive_static INTERFACE ${ARCHIVE_ARCHIVE})
foreach(filter zstd lz4 lzma bz2 nettle)
  string(TOUPPER ${filter} upper)
  find_library(${upper}_ARCHIVE lib${filter}.a REQUIRED)
  target_link_libraries(archive_static INTERFACE ${${upper}_ARCHIVE})
endforeach()
target_link_libraries(archive_static INTERFACE zlib_static)

# For tokenisers: regular expressions with Unicode's classes, and its normal forms.
add_library(pcre2_static INTERFACE)
find_library(PCRE2_ARCHIVE libpcre2-8.a REQUIRED)
target_link_libraries(pcre2_static INTERFACE ${PCRE2_ARCHIVE})
add_library(utf8proc_static INTERFACE)
find_library(UTF8PROC_ARCHIVE libutf8proc.a REQUIRED)
target_link_libraries(utf8proc_static INTERFACE ${UTF8PROC_ARCHIVE})

# Jinja templates, one header from the sources of a package that carries it.
add_library(minja INTERFACE)
set(MINJA_ROOT ${SHARDSCOPE_CACHE}/sources/llama_cpp_python-0.3.16/vendor/llama.cpp/vendor/minja)
if(NOT EXISTS ${MINJA_ROOT}/minja.hpp)
  message(FATAL_ERROR "minja is not in ${SHARDSCOPE_CACHE}: run scripts/setup first")
endif()
target_include_directories(minja SYSTEM INTERFACE ${MINJA_ROOT})

add_library(nvtx INTERFACE)
target_include_directories(nvtx SYSTEM INTERFACE ${SHARDSCOPE_CACHE}/wheels/nvidia/cu13/include)

# Headers only: CUPTI is opened at run time.
add_library(cupti_headers INTERFACE)
target_include_directories(cupti_headers SYSTEM INTERFACE ${SHARDSCOPE_CACHE}/wheels/nvidia/cu13/include)

# shardscope_bring_libraries(path ...): what our programs load lies in the build folder, lib/ beside bin/, and is found from
# there by relative paths alone: whoever may read that folder can run it, and it can be moved. Hard links, as LibTorch has
# half a gigabyte; copies where the cache is on another file system.
set(SHARDSCOPE_LIBRARIES ${PROJECT_BINARY_DIR}/lib)
set(CMAKE_BUILD_RPATH_USE_ORIGIN ON)
function(shardscope_bring_libraries)
  file(MAKE_DIRECTORY ${SHARDSCOPE_LIBRARIES})
  foreach(path IN LISTS ARGN)
    cmake_path(GET path FILENAME name)
    if(NOT EXISTS ${SHARDSCOPE_LIBRARIES}/${name} OR ${path} IS_NEWER_THAN ${SHARDSCOPE_LIBRARIES}/${name})
      file(CREATE_LINK ${path} ${SHARDSCOPE_LIBRARIES}/${name} COPY_ON_ERROR)
    endif()
  endforeach()
endfunction()

if(SHARDSCOPE_TORCH)
  set(TORCH_ROOT ${SHARDSCOPE_CACHE}/wheels/torch)
  set(CUDA_LIBRARIES ${SHARDSCOPE_CACHE}/wheels/nvidia/cu13/lib)
  if(NOT EXISTS ${TORCH_ROOT}/lib/libtorch_cpu.so)
    message(FATAL_ERROR "LibTorch is not in ${SHARDSCOPE_CACHE}: run scripts/setup first "
                        "(or configure with -DSHARDSCOPE_TORCH=OFF for the app without the engine)")
  endif()
  add_library(torch_cpu INTERFACE)
  target_include_directories(torch_cpu SYSTEM INTERFACE
    ${TORCH_ROOT}/include ${TORCH_ROOT}/include/torch/csrc/api/include)
  shardscope_bring_libraries(
    ${TORCH_ROOT}/lib/libtorch_cpu.so ${TORCH_ROOT}/lib/libc10.so ${TORCH_ROOT}/lib/libgomp.so.1
    ${CUDA_LIBRARIES}/libcudart.so.13 ${CUDA_LIBRARIES}/libcupti.so.13)
  # libtorch_cpu finds the others beside it by its own RPATH; -rpath-link tells the linker the same.
  target_link_libraries(torch_cpu INTERFACE ${SHARDSCOPE_LIBRARIES}/libtorch_cpu.so ${SHARDSCOPE_LIBRARIES}/libc10.so)
  target_link_options(torch_cpu INTERFACE -Wl,-rpath-link,${SHARDSCOPE_LIBRARIES})
endif()

if(SHARDSCOPE_UI)
  include(ImGui)
endif()
