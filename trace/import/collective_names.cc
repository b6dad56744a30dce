#include "trace/import/collective_names.h"

#include <cctype>
#include <optional>
#include <string>
#include <utility>

#include "trace/base/text.h"

namespace shardscope::imports {
namespace {

// Lower case, without what is between words.
std::string Plain(std::string_view name) {
  std::string plain;
  for (const char c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      plain += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
  }
  return plain;
}

// The longer come first: "allgather" is no "gather".
constexpr std::pair<std::string_view, std::string_view> kCollectives[] = {
    {"reducescatter", "reduce_scatter"},
    {"allgather", "all_gather"},
    {"allreduce", "all_reduce"},
    {"alltoall", "all_to_all"},
    {"broadcast", "broadcast"},
    {"barrier", "barrier"},
    {"sendrecv", "send_receive"},
    {"coalesced", "coalesced"},
    {"scatter", "scatter"},
    {"gather", "gather"},
    {"reduce", "reduce"},
    {"send", "send"},
    {"recv", "receive"},
};

std::optional<std::string_view> FindCollective(std::string_view name) {
  const std::string plain = Plain(name);
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

bool IsWholeBefore(std::string_view kind) { return kind == "reduce_scatter" || kind == "scatter"; }

}  // namespace shardscope::imports
