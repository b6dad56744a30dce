#include "tests/places.h"

namespace shardscope {

std::string SourceDir() { return SHARDSCOPE_SOURCE_DIR; }
std::string BinDir() { return SHARDSCOPE_BIN_DIR; }

}  // namespace shardscope
