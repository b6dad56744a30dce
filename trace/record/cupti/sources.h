// Sources: which kinds of records and which calls CUPTI is asked for, and which of them it refuses.
//
// Kernels, copies and the calls that launch kernels are what everything else rests on: without them
// there is no session. Anything else that this driver or this CUPTI refuses is left out, and
// reported.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "trace/base/status.h"
#include "trace/record/cupti/functions.h"

namespace shardscope::cupti {

// "cuptiSubscribe gave 999 (CUPTI_ERROR_UNKNOWN)".
std::string Refusal(const CuptiFunctions& functions, const std::string& call, CUptiResult result);

// Threads: one at a time.
class Sources {
 public:
  explicit Sources(const CuptiFunctions& functions) : functions_(functions) {}

  // Asks for everything. Error: the first thing refused that is needed, by name; what was switched
  // on until then stays so until Disable().
  Status Enable();
  void Disable();

  // After Enable(): switches off what makes records of the GPU's work and of calls, and on again.
  // What the driver hands out and what CUPTI itself takes are told throughout: from a part of the
  // allocations nothing can be told of the rest.
  void Pause();
  void Resume();

  // What was refused, one sentence each.
  const std::vector<std::string>& missing() const { return missing_; }

 private:
  Status EnableCalls();
  void EnableOptions();
  // Notes a refusal, or whether there was none.
  bool Check(CUptiResult result, const std::string& what, const std::string& call);
  void SwitchCalls(bool on);
  std::string NameOf(CUpti_CallbackDomain domain, CUpti_CallbackId call) const;

  const CuptiFunctions& functions_;
  std::vector<CUpti_ActivityKind> work_kinds_;  // that are given, as the next two
  std::vector<CUpti_ActivityKind> lasting_kinds_;
  std::vector<std::pair<CUpti_CallbackDomain, CUpti_CallbackId>> calls_;
  std::vector<std::string> missing_;
};

}  // namespace shardscope::cupti
