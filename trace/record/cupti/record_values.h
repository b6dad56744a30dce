// One record of CUPTI as a plain value, added to a batch: what its fields mean.
//
// Records are complete and aligned (decode.cc sees to that); what their fields say is not trusted.
#pragma once

#include <cstdint>
#include <cstring>

#include "trace/record/cupti/activity.h"
#include "trace/record/cupti/functions.h"
#include "trace/record/cupti/names.h"

namespace shardscope::cupti {

// An enumeration as the number that is there: another CUPTI may have values that the headers that
// this was built with lack.
template <typename Record, typename Enum>
uint32_t Number(const Record& record, Enum Record::*field) {
  static_assert(sizeof(Enum) == sizeof(uint32_t));
  uint32_t number = 0;
  // Not through a reference to the member: of a packed record that would be a copy, read as the
  // enumeration.
  std::memcpy(&number, &(record.*field), sizeof number);
  return number;
}

// Calls each of which, if it succeeds, makes one kernel.
bool LaunchesKernel(bool driver, uint32_t callback);

void AddKernel(const CUpti_ActivityKernel10& record, Names& names, Batch& batch);
void AddMemcpy(const CUpti_ActivityMemcpy6& record, Batch& batch);
void AddPeerCopy(const CUpti_ActivityMemcpyPtoP4& record, Batch& batch);
void AddMemset(const CUpti_ActivityMemset4& record, Batch& batch);
// `functions` names the call, which is asked once for each.
void AddCall(const CuptiFunctions& functions, const CUpti_ActivityAPI& record, Names& names,
             Batch& batch);
void AddWait(const CUpti_ActivitySynchronization2& record, Batch& batch);
void AddEventRecord(const CUpti_ActivityCudaEvent2& record, Batch& batch);
void AddMemory(const CUpti_ActivityMemory4& record, Batch& batch);
void AddOverhead(const CUpti_ActivityOverhead3& record, Names& names, Batch& batch);

}  // namespace shardscope::cupti
