# shardscope_embed_fonts(TARGET): adds to a target the fonts of ui/shell/backend/embedded_fonts.h, taken from the
# Debian packages fonts-roboto-unhinted and fonts-jetbrains-mono. They go into the program's read-only data by the
# assembler's .incbin: nothing to parse, and the build folder holds only a file of a few lines.
function(shardscope_find_font variable file)
  find_file(${variable} ${file}
    PATHS /usr/share/fonts /usr/local/share/fonts
    PATH_SUFFIXES truetype/roboto/unhinted/RobotoTTF truetype/roboto/unhinted truetype/roboto truetype/jetbrains-mono
    NO_DEFAULT_PATH)
  if(NOT ${variable})
    message(FATAL_ERROR "The font ${file} was not found: run scripts/setup first, or give its path with -D${variable}=...")
  endif()
endfunction()

function(shardscope_embed_fonts target)
  shardscope_find_font(SHARDSCOPE_FONT_TEXT Roboto-Regular.ttf)
  shardscope_find_font(SHARDSCOPE_FONT_BOLD Roboto-Bold.ttf)
  shardscope_find_font(SHARDSCOPE_FONT_MONO JetBrainsMono-Regular.ttf)
  set(generated ${PROJECT_BINARY_DIR}/generated/ui/shell/backend/embedded_fonts.cc)
  configure_file(${PROJECT_SOURCE_DIR}/ui/shell/backend/embedded_fonts.cc.in ${generated} @ONLY)
  set_source_files_properties(${generated} PROPERTIES
    OBJECT_DEPENDS "${SHARDSCOPE_FONT_TEXT};${SHARDSCOPE_FONT_BOLD};${SHARDSCOPE_FONT_MONO}")
  target_sources(${target} PRIVATE ${generated})
endfunction()
