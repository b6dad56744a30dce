#include "trace/base/collective_names.h"

#include <cctype>
#include <optional>
#include <string>
#include <utility>

#include "trace/base/text.h"
#include "trace/base/words.h"

namespace shardscope {
namespace {

using words::OpKind;

// Lower case, without what is between words.
std::string WithoutSeparators(std::string_view name) {
  std::string plain;
  for (const char c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      plain += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
  }
  return plain;
}

std::optional<std::string_view> FindCollective(std::string_view name) {
  // The longer come first: "allgather" is no "gather".
  static const std::pair<std::string_view, std::string_view> kCollectives[] = {
      {"reducescatter", Name(OpKind::kReduceScatter)},
      {"allgather", Name(OpKind::kAllGather)},
      {"allreduce", Name(OpKind::kAllReduce)},
      {"alltoall", kAllToAll},
      {"broadcast", Name(OpKind::kBroadcast)},
      {"barrier", kBarrier},
      {"sendrecv", Name(words::OpClass::kSendReceive)},
      {"coalesced", kCoalesced},
      {"scatter", Name(OpKind::kScatter)},
      {"gather", Name(OpKind::kGather)},
      {"reduce", Name(OpKind::kReduce)},
      {"send", Name(OpKind::kSend)},
      {"recv", Name(OpKind::kReceive)},
  };
  const std::string plain = WithoutSeparators(name);
  for (const auto& [part, kind] : kCollectives) {
    if (Contains(plain, part)) return kind;
  }
  return std::nullopt;
}

}  // namespace

bool IsCommunicationKernel(std::string_view name) {
  for (const std::string_view start : {"nccl", "rccl", "hccl", "Hccl", "oneccl", "mscclpp",
                                       "void ncclKernel", "void rccl", "ncclx"}) {
    if (name.starts_with(start)) return true;
  }
  return Contains(name, "ncclKernel") || Contains(name, "ncclDevKernel") ||
         Contains(name, "ncclSymk") || Contains(name, "oneccl_") || Contains(name, "mscclpp::");
}

std::string_view CollectiveKindOf(std::string_view name) {
  return FindCollective(name).value_or(name);
}

std::string_view CollectiveKindOfKernel(std::string_view name) {
  // ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(...): what follows the kind must not decide.
  const size_t from = name.find("ernel_");
  if (from != std::string_view::npos) {
    name.remove_prefix(from + 6);
    name = name.substr(0, name.find('_'));
  }
  return FindCollective(name).value_or("");
}

bool IsWholeBefore(std::string_view kind) {
  return kind == Name(OpKind::kReduceScatter) || kind == Name(OpKind::kScatter);
}

bool HasEqualSizes(std::string_view kind) {
  return kind != kAllToAll && kind != Name(OpKind::kScatter) && kind != Name(OpKind::kGather);
}

}  // namespace shardscope
