# shardscope_library(NAME folder SOURCES a.cc ... PUBLIC dep ... PRIVATE dep ... TESTS a_test.cc ... TEST_LINKS dep ...)
#   One static library a folder, linked along the arrows of ARCHITECTURE.md; scripts/check_layers.py looks at includes alone.
#   TESTS become one program `NAME_test`, one CTest entry; TEST_PARTS n: n of them, each with every n-th case, where it takes minutes.
#   TEST_COST seconds: COST of shardscope_test.
# shardscope_program(NAME output SOURCES main.cc ... LINKS dep ...)

# What most sources include anyway, read once for all libraries and once for all tests; those that use LibTorch have its
# headers before these (engine/model). Not where every source is compiled alone: there it would hide a missing include.
if(CMAKE_UNITY_BUILD AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  set(SHARDSCOPE_PRECOMPILED
    <algorithm> <array> <cstdint> <functional> <map> <memory> <optional> <set> <span> <string> <string_view> <tuple>
    <utility> <variant> <vector> <fmt/format.h>)
endif()

# Notes with a target whether LibTorch is among what it links.
function(shardscope_note_torch name)
  foreach(library IN LISTS ARGN)
    set(uses_torch OFF)
    if(TARGET ${library})
      get_target_property(uses_torch ${library} SHARDSCOPE_USES_TORCH)
    endif()
    if(uses_torch OR library STREQUAL "torch_cpu")
      set_target_properties(${name} PROPERTIES SHARDSCOPE_USES_TORCH ON)
    endif()
  endforeach()
endfunction()

# shardscope_precompile(NAME OWNER headers ...): all take the header from its owner.
function(shardscope_precompile name owner)
  get_target_property(uses_torch ${name} SHARDSCOPE_USES_TORCH)
  if(uses_torch OR NOT SHARDSCOPE_PRECOMPILED)
    return()
  endif()
  target_compile_definitions(${name} PRIVATE FMT_SHARED)  # as for all that link fmt::fmt: it is part of the header
  if(name STREQUAL owner)
    target_precompile_headers(${name} PRIVATE ${ARGN} ${SHARDSCOPE_PRECOMPILED})
  else()
    target_precompile_headers(${name} REUSE_FROM ${owner})
  endif()
endfunction()

function(shardscope_library)
  cmake_parse_arguments(ARG "" "NAME;TEST_PARTS;TEST_COST" "SOURCES;PUBLIC;PRIVATE;TESTS;TEST_LINKS" ${ARGN})
  if(ARG_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "shardscope_library(${ARG_NAME}): unknown arguments ${ARG_UNPARSED_ARGUMENTS}")
  endif()
  if(ARG_SOURCES)
    add_library(${ARG_NAME} STATIC ${ARG_SOURCES})
    target_include_directories(${ARG_NAME} PUBLIC ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR}/generated)
    target_link_libraries(${ARG_NAME} PUBLIC ${ARG_PUBLIC} PRIVATE ${ARG_PRIVATE} shardscope_warnings)
    shardscope_note_torch(${ARG_NAME} ${ARG_PUBLIC} ${ARG_PRIVATE})
    shardscope_precompile(${ARG_NAME} base)
  else()
    add_library(${ARG_NAME} INTERFACE)
    target_include_directories(${ARG_NAME} INTERFACE ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR}/generated)
    target_link_libraries(${ARG_NAME} INTERFACE ${ARG_PUBLIC} ${ARG_PRIVATE})
    shardscope_note_torch(${ARG_NAME} ${ARG_PUBLIC} ${ARG_PRIVATE})
  endif()
  if(ARG_TESTS)
    shardscope_test(NAME ${ARG_NAME}_test PARTS ${ARG_TEST_PARTS} COST ${ARG_TEST_COST} SOURCES ${ARG_TESTS} LINKS ${ARG_NAME} ${ARG_TEST_LINKS})
  endif()
endfunction()

# shardscope_test(NAME x_test SOURCES ... LINKS ... [ENVIRONMENT A=b ...] [TIMEOUT seconds] [PARTS n] [COST seconds])
#   Entries of CTest: x_test, or x_test.1of2 and x_test.2of2. COST: what a long one took, each part of it; CTest begins with
#   the costliest, so that none is left for the end, in a build that never ran its tests too.
function(shardscope_test)
  cmake_parse_arguments(ARG "" "NAME;TIMEOUT;PARTS;COST" "SOURCES;LINKS;ENVIRONMENT" ${ARGN})
  add_executable(${ARG_NAME} ${ARG_SOURCES})
  target_link_libraries(${ARG_NAME} PRIVATE ${ARG_LINKS} test_places shardscope_warnings shardscope_sanitizer GTest::gmock GTest::gtest_main)
  # Half of what is compiled is tests, whose own speed does not count: a quarter less than with -O2.
  target_compile_options(${ARG_NAME} PRIVATE $<$<CONFIG:Release>:-O1>)
  set_target_properties(${ARG_NAME} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  shardscope_note_torch(${ARG_NAME} ${ARG_LINKS})
  shardscope_precompile(${ARG_NAME} base_test <gmock/gmock.h> <gtest/gtest.h>)
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 900)  # what hangs, not what is slow: machines differ
  endif()
  if(SHARDSCOPE_SANITIZE)  # everything takes longer
    math(EXPR ARG_TIMEOUT "4 * ${ARG_TIMEOUT}")
  endif()
  if(NOT ARG_PARTS)
    set(ARG_PARTS 1)
  endif()
  if(NOT ARG_COST)
    set(ARG_COST 0)  # what CTest has measured counts, if anything
  endif()
  foreach(part RANGE 1 ${ARG_PARTS})
    set(entry ${ARG_NAME})
    set(environment ${ARG_ENVIRONMENT})
    if(ARG_PARTS GREATER 1)
      set(entry ${ARG_NAME}.${part}of${ARG_PARTS})
      math(EXPR index "${part} - 1")
      list(APPEND environment GTEST_TOTAL_SHARDS=${ARG_PARTS} GTEST_SHARD_INDEX=${index})
    endif()
    add_test(NAME ${entry} COMMAND ${ARG_NAME} --gtest_output=xml:${PROJECT_BINARY_DIR}/test-results/${entry}.xml)
    set_tests_properties(${entry} PROPERTIES TIMEOUT ${ARG_TIMEOUT} COST ${ARG_COST} ENVIRONMENT "${environment}")
  endforeach()
endfunction()

function(shardscope_program)
  cmake_parse_arguments(ARG "" "NAME" "SOURCES;LINKS" ${ARGN})
  add_executable(${ARG_NAME} ${ARG_SOURCES})
  target_link_libraries(${ARG_NAME} PRIVATE ${ARG_LINKS} shardscope_warnings shardscope_sanitizer)
endfunction()
