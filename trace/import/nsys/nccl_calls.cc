#include "trace/import/nsys/nccl_calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "trace/base/collective_names.h"
#include "trace/base/words.h"

namespace shardscope::imports {
namespace {

using words::OpKind;

constexpr std::string_view kCommunicator = "NCCL communicator ID";
constexpr int64_t kMostBytes = int64_t{1} << 50;
constexpr int64_t kMostRanks = 1 << 24;
constexpr int kMostNested = 4;

// Of these each rank names the bytes of its own part.
bool HasParts(std::string_view kind) {
  return kind == Name(OpKind::kAllGather) || kind == Name(OpKind::kReduceScatter) ||
         kind == kAllToAll || kind == Name(OpKind::kGather) || kind == Name(OpKind::kScatter);
}

}  // namespace

std::optional<NcclMember> NcclMemberOf(const Payload& payload) {
  const NcclMember member{payload.WholeOf(kCommunicator), payload.WholeOf("No. of ranks"),
                          payload.WholeOf("Rank"), payload.WholeOf("CUDA device")};
  if (member.num_ranks <= 0 || member.num_ranks > kMostRanks || member.rank < 0 ||
      member.rank >= member.num_ranks) {
    return std::nullopt;
  }
  return member;
}

std::string NcclGroupName(int64_t communicator) {
  return fmt::format("nccl {:x}", static_cast<uint64_t>(communicator));
}

void NcclCalls::Take(std::string_view name, const Payload& payload, const RecordedSpan& span) {
  Call call{.start_ns = span.start_ns, .end_ns = span.start_ns + span.duration_ns};
  if (name == "ncclGroupStart") {
    call.begins_group = true;
  } else if (name != "ncclGroupEnd") {
    call.kind = CollectiveKindOf(name);
    if (call.kind == name) return;  // no collective
    for (const Payload::Field& field : payload.fields()) {
      if (field.name == kCommunicator) call.communicator = field.whole;
    }
    const int64_t bytes = payload.WholeOf("Message size [bytes]");
    if (bytes >= 0 && bytes < kMostBytes) call.bytes = bytes;
  }
  calls_[span.track].push_back(std::move(call));
}

// Calls between the start and the end of a group are carried out where it ends.
void NcclCalls::CloseGroups(Calls* calls) {
  std::stable_sort(calls->begin(), calls->end(),
                   [](const Call& a, const Call& b) { return a.start_ns < b.start_ns; });
  int depth = 0;
  std::vector<size_t> open;
  for (size_t at = 0; at < calls->size(); ++at) {
    Call& call = (*calls)[at];
    if (call.begins_group) {
      if (depth++ == 0) open.clear();
    } else if (!call.kind.empty()) {
      if (depth > 0) open.push_back(at);
    } else if (depth > 0 && --depth == 0) {
      call.calls = std::move(open);
      open.clear();
    }
  }
}

std::optional<size_t> NcclCalls::IndexAt(const Calls& calls, int64_t time_ns) {
  auto call = std::upper_bound(calls.begin(), calls.end(), time_ns,
                               [](int64_t time, const Call& one) { return time < one.start_ns; });
  // Ranges of NCCL lie behind each other, or a short one in a longer.
  for (int looked = 0; looked < kMostNested && call != calls.begin(); ++looked) {
    --call;
    if (call->end_ns >= time_ns) return static_cast<size_t>(call - calls.begin());
  }
  return std::nullopt;
}

// A group of sends and receives is an exchange of two, or one of all.
void NcclCalls::TakeExchange(const Calls& calls, std::vector<size_t>* of_kernel,
                             RecordedCollective* collective) {
  const auto count = [&](std::string_view kind) {
    return std::ranges::count_if(*of_kernel, [&](size_t at) { return calls[at].kind == kind; });
  };
  const auto sends = count(Name(OpKind::kSend));
  const auto receives = count(Name(OpKind::kReceive));
  if (sends == 0 || receives == 0) return;
  collective->kind =
      sends > 1 && sends == receives ? kAllToAll : Name(words::OpClass::kSendReceive);
  std::erase_if(*of_kernel, [&](size_t at) { return calls[at].kind != Name(OpKind::kSend); });
}

RecordedCollective NcclCalls::CollectiveOf(const Calls& calls, std::vector<size_t> of_kernel,
                                           const std::map<int64_t, int64_t>& ranks_of) {
  const Call& first = calls[of_kernel.front()];
  RecordedCollective collective;
  collective.kind = first.kind;
  int64_t num_ranks = 0;
  if (first.communicator) {
    collective.group = NcclGroupName(*first.communicator);
    const auto ranks = ranks_of.find(*first.communicator);
    if (ranks != ranks_of.end()) num_ranks = ranks->second;
  }
  collective.group_size = static_cast<int32_t>(num_ranks);
  TakeExchange(calls, &of_kernel, &collective);
  int64_t bytes = 0;
  for (const size_t at : of_kernel) {
    if (calls[at].bytes < 0 || bytes > kMostBytes) return collective;
    bytes += calls[at].bytes;
  }
  if (!HasParts(collective.kind)) {
    collective.payload_bytes = bytes;
  } else if (num_ranks > 0 && bytes < kMostBytes / num_ranks) {
    collective.payload_bytes = bytes * num_ranks;
  }
  return collective;
}

void NcclCalls::Join(const std::map<int64_t, int64_t>& ranks_of, Recording* recording) {
  for (auto& [track, calls] : calls_) CloseGroups(&calls);
  std::unordered_map<int64_t, const RecordedLaunch*> launches;
  for (const RecordedLaunch& launch : recording->launches) launches[launch.correlation] = &launch;
  std::map<std::pair<uint32_t, size_t>, std::vector<RecordedWork*>> kernels;  // by thread and call
  for (RecordedWork& work : recording->works) {
    if (work.category != words::SpanCategory::kCommunication) continue;
    const auto launch = launches.find(work.correlation);
    if (launch == launches.end()) continue;
    const uint32_t track = launch->second->track;
    const auto of_thread = calls_.find(track);
    if (of_thread == calls_.end()) continue;
    const auto index = IndexAt(of_thread->second, launch->second->start_ns);
    if (index) kernels[{track, *index}].push_back(&work);
  }
  for (auto& [where, of_call] : kernels) {
    const Calls& calls = calls_[where.first];
    const Call& call = calls[where.second];
    std::ranges::sort(of_call, {}, &RecordedWork::start_ns);
    for (size_t at = 0; at < of_call.size(); ++at) {
      // One kernel carries out all of a group, or each one call.
      std::vector<size_t> of_kernel;
      if (!call.kind.empty()) {
        of_kernel = {where.second};
      } else if (of_call.size() == 1) {
        of_kernel = call.calls;
      } else if (of_call.size() == call.calls.size()) {
        of_kernel = {call.calls[at]};
      }
      if (of_kernel.empty()) continue;
      of_call[at]->collective = static_cast<int32_t>(recording->collectives.size());
      recording->collectives.push_back(CollectiveOf(calls, of_kernel, ranks_of));
    }
  }
}

}  // namespace shardscope::imports
