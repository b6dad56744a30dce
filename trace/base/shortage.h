// What to say where the machine, or a limit of it, gives no more threads or memory.
#pragma once

#include <exception>
#include <string>

namespace shardscope {

// The text of an exception for the user. Without threads or memory it says which of them is short
// and what to do; the libraries' own words do not. Any thread.
std::string ErrorText(const std::exception& error);

// std::terminate() says ErrorText() of what nobody caught and ends the program with exit code 1,
// without a core file: a library's thread that gets no memory cannot be helped otherwise.
void EndOnShortage();

}  // namespace shardscope
