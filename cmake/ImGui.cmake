# Dear ImGui (docking) and the Test Engine from the sources that scripts/setup unpacked.
#
# The Test Engine needs hooks inside Dear ImGui (IMGUI_ENABLE_TEST_ENGINE), and its licence keeps it out of what ships. So
# Dear ImGui is compiled twice, `imgui_plain` and `imgui_testable`, while our own code is compiled once: the switch
# adds calls inside Dear ImGui's sources and five status flags, but no member to any struct (ImGuiContext has
# TestEngineHookItems and TestEngine either way), so both archives have one ABI for their callers. Our libraries link
# `imgui`, which is whichever of the two the program being linked asks for: the plain one, unless the program sets
# its property IMGUI_TESTABLE (only tests/ui does).
set(BUNDLE ${SHARDSCOPE_CACHE}/sources/imgui_bundle-1.93.0/external)
set(IMGUI_ROOT ${BUNDLE}/imgui/imgui)
set(TEST_ENGINE_ROOT ${BUNDLE}/imgui_test_engine/imgui_test_engine/imgui_test_engine)
if(NOT EXISTS ${IMGUI_ROOT}/imgui.h)
  message(FATAL_ERROR "Dear ImGui is not in ${SHARDSCOPE_CACHE}: run scripts/setup first "
                      "(or configure with -DSHARDSCOPE_UI=OFF for the headless commands)")
endif()

find_package(glfw3 REQUIRED)
find_package(OpenGL REQUIRED COMPONENTS OpenGL EGL)

set(IMGUI_SOURCES
  ${IMGUI_ROOT}/imgui.cpp ${IMGUI_ROOT}/imgui_draw.cpp ${IMGUI_ROOT}/imgui_tables.cpp
  ${IMGUI_ROOT}/imgui_widgets.cpp ${IMGUI_ROOT}/imgui_stacklayout.cpp ${IMGUI_ROOT}/misc/cpp/imgui_stdlib.cpp
  ${IMGUI_ROOT}/backends/imgui_impl_glfw.cpp ${IMGUI_ROOT}/backends/imgui_impl_opengl3.cpp)

function(shardscope_imgui_library target)
  add_library(${target} STATIC ${IMGUI_SOURCES} ${ARGN})
  target_include_directories(${target} SYSTEM PUBLIC
    ${PROJECT_SOURCE_DIR}/cmake/imgui ${IMGUI_ROOT} ${IMGUI_ROOT}/backends ${IMGUI_ROOT}/misc/cpp)
  target_compile_definitions(${target} PUBLIC IMGUI_DISABLE_OBSOLETE_FUNCTIONS)
  target_compile_options(${target} PRIVATE -w)
  set_target_properties(${target} PROPERTIES UNITY_BUILD OFF)  # its sources are not made to be compiled as one
  target_link_libraries(${target} PUBLIC glfw OpenGL::OpenGL OpenGL::EGL ${CMAKE_DL_LIBS})
endfunction()

shardscope_imgui_library(imgui_plain)

# Only when a test asks for it (EXCLUDE_FROM_ALL): the hooks, the engine and coroutines on std::thread.
file(GLOB TEST_ENGINE_SOURCES ${TEST_ENGINE_ROOT}/imgui_te_*.cpp ${TEST_ENGINE_ROOT}/imgui_capture_tool.cpp)
list(FILTER TEST_ENGINE_SOURCES EXCLUDE REGEX "python_gil")
shardscope_imgui_library(imgui_testable ${TEST_ENGINE_SOURCES})
set_target_properties(imgui_testable PROPERTIES EXCLUDE_FROM_ALL ON)
target_include_directories(imgui_testable SYSTEM PUBLIC ${TEST_ENGINE_ROOT} ${TEST_ENGINE_ROOT}/..)
target_compile_definitions(imgui_testable PUBLIC
  IMGUI_ENABLE_TEST_ENGINE= IMGUI_TEST_ENGINE_ENABLE_COROUTINE_STDTHREAD_IMPL=1)
target_link_libraries(imgui_testable PUBLIC Threads::Threads)

add_library(imgui INTERFACE)
target_link_libraries(imgui INTERFACE
  $<IF:$<BOOL:$<TARGET_PROPERTY:IMGUI_TESTABLE>>,imgui_testable,imgui_plain>)
