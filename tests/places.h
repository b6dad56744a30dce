// Where a test finds what it does not make itself. Names of folders are in this one library, so
// that the objects of all tests are the same whatever folder they are compiled in, and the compiler
// cache has them.
#pragma once

#include <string>

namespace shardscope {

std::string SourceDir();  // of the repository
std::string BinDir();     // of the build's programs and plugins

}  // namespace shardscope
