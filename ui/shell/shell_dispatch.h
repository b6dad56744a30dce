// Applies one command to the shell's state: the only code that does.
#pragma once

#include "ui/commands.h"

namespace shardscope::shell {

class Shell;

void DispatchCommand(Shell* shell, const ui::Command& command);

// Forgets the open run and everything that was about it.
void CloseSession(Shell* shell);

}  // namespace shardscope::shell
