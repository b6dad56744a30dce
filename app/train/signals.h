// Signals: what ends a training from outside. The first of SIGHUP, SIGINT, SIGPIPE and SIGTERM says
// that it waits for the running step, and the trace is finished; the second ends the process at
// once. Either way the exit code is 128 + the signal, so that schedulers see it.
#pragma once

#include <atomic>

namespace shardscope::runtime {
class Steering;
}

namespace shardscope::app {

// Added to the signal.
inline constexpr int kExitOfSignals = 128;

// The signal that ends this training; 0 as long as there is none.
const std::atomic<int>& StopSignal();

// From now on. SIGHUP stays ignored where it is (nohup).
void CatchSignals();

// What the first signal interrupts; null: nothing any more.
void TellSignalsTo(runtime::Steering* steering);

// As if the signal had come: the reader of our output has gone. Does nothing after the first.
void StopBy(int number);

// No signal is a process of this run that goes while the ranks meet, before CatchSignals(): Gloo
// writes to it with writev, which cannot leave the signal out.
void IgnoreLostPeers();

}  // namespace shardscope::app
