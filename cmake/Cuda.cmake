# The CUDA compiler, and what the plugin is built from. The compiler comes from the wheels that scripts/setup unpacked,
# or from an installed toolkit (-DSHARDSCOPE_CUDA_TOOLKIT=/usr/local/cuda). Nothing here needs a driver, and nothing may
# link -lcuda: a program that does would not even start where there is no driver.
#
# CMake's own CUDA language is not used: it needs a toolkit with libcudart.so and stubs, and tries to link before it
# believes in a compiler; the wheels have neither.
set(SHARDSCOPE_CUDA_TOOLKIT "" CACHE PATH "Installed CUDA 13 toolkit; empty: the pinned wheels")
set(SHARDSCOPE_CUDA_ARCHITECTURES "80;90" CACHE STRING
    "Compute capabilities to compile kernels for; newer GPUs take the PTX of the last")

set(CUDA_ROOT ${SHARDSCOPE_CUDA_TOOLKIT})
if(NOT CUDA_ROOT)
  set(CUDA_ROOT ${SHARDSCOPE_CACHE}/wheels/nvidia/cu13)
endif()
find_program(SHARDSCOPE_NVCC nvcc PATHS ${CUDA_ROOT}/bin NO_DEFAULT_PATH)
if(NOT SHARDSCOPE_NVCC)
  message(FATAL_ERROR "The CUDA compiler is not in ${CUDA_ROOT}/bin: run scripts/setup, or give an installed toolkit with "
                      "-DSHARDSCOPE_CUDA_TOOLKIT=DIR, or leave the GPU plugin out with -DSHARDSCOPE_CUDA=OFF")
endif()
# nvcc's host compiler; not CMAKE_CXX_COMPILER, which may be a clang that this nvcc does not take.
find_program(SHARDSCOPE_NVCC_HOST g++ REQUIRED)

find_file(CUDART_LIBRARY libcudart.so.13 PATHS ${CUDA_ROOT}/lib ${CUDA_ROOT}/lib64 NO_DEFAULT_PATH REQUIRED)
shardscope_bring_libraries(${CUDART_LIBRARY})

add_library(cuda_headers INTERFACE)
target_include_directories(cuda_headers SYSTEM INTERFACE ${CUDA_ROOT}/include)

# The one libcudart that LibTorch loads too: two copies in a process would not have one another's kernels.
add_library(cudart INTERFACE)
target_link_libraries(cudart INTERFACE cuda_headers ${SHARDSCOPE_LIBRARIES}/libcudart.so.13)

# Headers only: NCCL is opened at run time, as the training may be on one GPU and without it.
set(NCCL_ROOT ${SHARDSCOPE_CACHE}/wheels/nvidia/nccl)
add_library(nccl_headers INTERFACE)
target_include_directories(nccl_headers SYSTEM INTERFACE ${NCCL_ROOT}/include)
target_link_libraries(nccl_headers INTERFACE cuda_headers)

# shardscope_cuda_kernels(NAME a.cu ...): an object library of device code and its launchers.
# -fmad=false: a multiplication and an addition stay two roundings, as on the CPU, so that sums are equal bit for bit.
function(shardscope_cuda_kernels name)
  set(architectures)
  foreach(architecture IN LISTS SHARDSCOPE_CUDA_ARCHITECTURES)
    list(APPEND architectures -gencode=arch=compute_${architecture},code=sm_${architecture})
  endforeach()
  list(GET SHARDSCOPE_CUDA_ARCHITECTURES -1 newest)
  list(APPEND architectures -gencode=arch=compute_${newest},code=compute_${newest})
  set(objects)
  foreach(source IN LISTS ARGN)
    cmake_path(ABSOLUTE_PATH source OUTPUT_VARIABLE input)
    set(object ${CMAKE_CURRENT_BINARY_DIR}/${source}.o)
    add_custom_command(
      OUTPUT ${object}
      COMMAND ${SHARDSCOPE_NVCC} -ccbin ${SHARDSCOPE_NVCC_HOST} -std=c++20 -O2 -fmad=false ${architectures}
              -I ${PROJECT_SOURCE_DIR} -I ${PROJECT_BINARY_DIR}/generated -isystem ${CUDA_ROOT}/include -Werror all-warnings
              -Xcompiler -fPIC,-fvisibility=hidden,-Wall,-Wextra -MD -MF ${object}.d -c ${input} -o ${object}
      DEPENDS ${input} ${SHARDSCOPE_NVCC} words_generated
      DEPFILE ${object}.d
      COMMENT "Compiling device code ${source}"
      VERBATIM)
    list(APPEND objects ${object})
  endforeach()
  add_library(${name} OBJECT IMPORTED GLOBAL)
  set_target_properties(${name} PROPERTIES IMPORTED_OBJECTS "${objects}")
  add_custom_target(${name}_compile DEPENDS ${objects})
  add_dependencies(${name} ${name}_compile)
  target_link_libraries(${name} INTERFACE cudart)
endfunction()
