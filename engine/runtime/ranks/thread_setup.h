// How the engine's threads behave towards the operating system and LibTorch. Each function acts on
// the calling thread, once; later calls cost one test.
#pragma once

namespace shardscope::runtime {

// LibTorch's own thread pool would compete with the other ranks for the cores.
void ComputeOnOneThread();

// For threads that run briefly and often (host, collectives, small copies): where every core
// computes, Linux would let them wait until a computing thread's slice of some milliseconds is
// over, and communication would start and end late through no fault of the link. A short slice of
// their own lets them run at once (sched_setattr's sched_runtime, from Linux 6.12; without effect
// before).
void AskForShortSlices();

}  // namespace shardscope::runtime
