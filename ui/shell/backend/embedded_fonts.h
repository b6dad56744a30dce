// The fonts inside the program (cmake/EmbedFonts.cmake). Constant; live as long as the program.
#pragma once

#include <span>

namespace shardscope::shell {

std::span<const unsigned char> EmbeddedTextFont();  // Roboto Regular
std::span<const unsigned char> EmbeddedBoldFont();  // Roboto Bold
std::span<const unsigned char> EmbeddedMonoFont();  // JetBrains Mono Regular

}  // namespace shardscope::shell
