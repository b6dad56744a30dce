# Dear ImGui (docking), ImPlot and the Test Engine from the sources that scripts/setup unpacked.
# The Test Engine needs hooks inside Dear ImGui, so Dear ImGui is compiled twice: `imgui` for the product and
# `imgui_testable` for tests. Only tests/ links the second; the Test Engine's licence keeps it out of what ships.
set(BUNDLE ${SHARDSCOPE_CACHE}/sources/imgui_bundle-1.93.0/external)
set(IMGUI_ROOT ${BUNDLE}/imgui/imgui)
set(IMPLOT_ROOT ${BUNDLE}/implot/implot)
set(TEST_ENGINE_ROOT ${BUNDLE}/imgui_test_engine/imgui_test_engine)
if(NOT EXISTS ${IMGUI_ROOT}/imgui.h)
  message(FATAL_ERROR "Dear ImGui is not in ${SHARDSCOPE_CACHE}: run scripts/setup first "
                      "(or configure with -DSHARDSCOPE_UI=OFF for the headless commands)")
endif()

find_package(glfw3 REQUIRED)
find_package(OpenGL REQUIRED COMPONENTS OpenGL EGL)

set(IMGUI_SOURCES
  ${IMGUI_ROOT}/imgui.cpp ${IMGUI_ROOT}/imgui_draw.cpp ${IMGUI_ROOT}/imgui_tables.cpp
  ${IMGUI_ROOT}/imgui_widgets.cpp ${IMGUI_ROOT}/misc/cpp/imgui_stdlib.cpp
  ${IMGUI_ROOT}/backends/imgui_impl_glfw.cpp ${IMGUI_ROOT}/backends/imgui_impl_opengl3.cpp
  ${IMPLOT_ROOT}/implot.cpp ${IMPLOT_ROOT}/implot_items.cpp)

function(shardscope_imgui_library target)
  add_library(${target} STATIC ${IMGUI_SOURCES} ${ARGN})
  target_include_directories(${target} SYSTEM PUBLIC
    ${IMGUI_ROOT} ${IMGUI_ROOT}/backends ${IMGUI_ROOT}/misc/cpp ${IMPLOT_ROOT})
  target_compile_definitions(${target} PUBLIC IMGUI_DISABLE_OBSOLETE_FUNCTIONS)
  target_compile_options(${target} PRIVATE -w)
  target_link_libraries(${target} PUBLIC glfw OpenGL::OpenGL OpenGL::EGL ${CMAKE_DL_LIBS})
endfunction()

shardscope_imgui_library(imgui)
