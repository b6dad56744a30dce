#include "engine/checkpoint/dcp/torch_names.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>

namespace shardscope::checkpoint {
namespace {

struct Alias {
  std::string_view theirs;  // '#': the number of the block
  std::string_view ours;
  RotaryOrder order = RotaryOrder::kHalves;
  FusedPart part = FusedPart::kNone;
};

// Each with .weight or .bias behind it.
constexpr Alias kAliases[] = {
    // transformers, modeling_llama.py
    {"model.embed_tokens", "embedding"},
    {"model.layers.#.input_layernorm", "block#.attention.norm"},
    {"model.layers.#.self_attn.q_proj", "block#.attention.q"},
    {"model.layers.#.self_attn.k_proj", "block#.attention.k"},
    {"model.layers.#.self_attn.v_proj", "block#.attention.v"},
    {"model.layers.#.self_attn.o_proj", "block#.attention.o"},
    {"model.layers.#.post_attention_layernorm", "block#.mlp.norm"},
    {"model.layers.#.mlp.gate_proj", "block#.mlp.gate"},
    {"model.layers.#.mlp.up_proj", "block#.mlp.up"},
    {"model.layers.#.mlp.down_proj", "block#.mlp.down"},
    {"model.norm", "head.norm"},
    {"lm_head", "head"},
    // torchtitan, models/llama3/state_dict_adapter.py
    {"tok_embeddings", "embedding"},
    {"layers.#.attention_norm", "block#.attention.norm"},
    {"layers.#.attention.wq", "block#.attention.q", RotaryOrder::kPairs},
    {"layers.#.attention.wk", "block#.attention.k", RotaryOrder::kPairs},
    {"layers.#.attention.wv", "block#.attention.v"},
    {"layers.#.attention.wo", "block#.attention.o"},
    {"layers.#.attention.qkv_linear.wq", "block#.attention.q", RotaryOrder::kPairs},
    {"layers.#.attention.qkv_linear.wk", "block#.attention.k", RotaryOrder::kPairs},
    {"layers.#.attention.qkv_linear.wv", "block#.attention.v"},
    {"layers.#.ffn_norm", "block#.mlp.norm"},
    {"layers.#.feed_forward.w1", "block#.mlp.gate"},
    {"layers.#.feed_forward.w3", "block#.mlp.up"},
    {"layers.#.feed_forward.w2", "block#.mlp.down"},
    {"norm", "head.norm"},
    {"output", "head"},
    // This program's own, as tests/parity/model.py has them in PyTorch.
    {"embedding", "embedding"},
    {"block#.attention.norm", "block#.attention.norm"},
    {"block#.attention.qkv", "block#.attention.qkv"},
    {"block#.attention.projection", "block#.attention.projection"},
    {"block#.attention.q", "block#.attention.q"},
    {"block#.attention.k", "block#.attention.k"},
    {"block#.attention.v", "block#.attention.v"},
    {"block#.attention.o", "block#.attention.o"},
    {"block#.mlp.norm", "block#.mlp.norm"},
    {"block#.mlp.gate", "block#.mlp.gate"},
    {"block#.mlp.up", "block#.mlp.up"},
    {"block#.mlp.down", "block#.mlp.down"},
    {"head.norm", "head.norm"},
    {"head", "head"},
};

// The same of one matrix, whose parts are apart everywhere but in the optimizer's state.
constexpr Alias kFused[] = {
    {"layers.#.attention.qkv_linear.wqkv", "block#.attention.q", RotaryOrder::kPairs,
     FusedPart::kQueries},
    {"layers.#.attention.qkv_linear.wqkv", "block#.attention.k", RotaryOrder::kPairs,
     FusedPart::kKeys},
    {"layers.#.attention.qkv_linear.wqkv", "block#.attention.v", RotaryOrder::kHalves,
     FusedPart::kValues},
};

// What the names of a state dictionary put in front.
constexpr std::string_view kPrefixes[] = {"model.", "module.", "state_dict."};
// What wrappers put between modules, anywhere in a name.
constexpr std::string_view kWrappers[] = {"_orig_mod.", "_checkpoint_wrapped_module.",
                                          "_fsdp_wrapped_module."};
constexpr std::string_view kStates[] = {".state.", "state."};

std::string WithoutWrappers(std::string_view name) {
  std::string bare(name);
  for (const std::string_view wrapper : kWrappers) {
    for (size_t at = bare.find(wrapper); at != std::string::npos; at = bare.find(wrapper, at)) {
      if (at == 0 || bare[at - 1] == '.') {
        bare.erase(at, wrapper.size());
      } else {
        ++at;
      }
    }
  }
  return bare;
}

// The number that stands in `name` for the '#' of `pattern`, if it is that otherwise.
std::optional<std::string> Match(std::string_view name, std::string_view pattern) {
  const size_t mark = pattern.find('#');
  if (mark == std::string_view::npos) {
    if (name == pattern) return std::string();
    return std::nullopt;
  }
  const std::string_view tail = pattern.substr(mark + 1);
  if (name.size() < pattern.size() || name.substr(0, mark) != pattern.substr(0, mark) ||
      !name.ends_with(tail)) {
    return std::nullopt;
  }
  const std::string_view number = name.substr(mark, name.size() - mark - tail.size());
  const bool is_number =
      !number.empty() && std::ranges::all_of(number, [](char c) { return c >= '0' && c <= '9'; });
  if (is_number) return std::string(number);
  return std::nullopt;
}

std::vector<TranslatedName> TranslateParameter(std::string_view name,
                                               std::span<const Alias> aliases) {
  const size_t dot = name.rfind('.');
  const std::string_view ending = dot == std::string_view::npos ? "" : name.substr(dot);
  if (ending != ".weight" && ending != ".bias") return {};
  const std::string_view module = name.substr(0, dot);
  std::vector<TranslatedName> found;
  for (const Alias& alias : aliases) {
    const std::optional<std::string> number = Match(module, alias.theirs);
    if (!number) continue;
    std::string ours(alias.ours);
    if (const size_t mark = ours.find('#'); mark != std::string::npos) {
      ours.replace(mark, 1, *number);
    }
    found.push_back(
        {.parameter = ours + std::string(ending), .order = alias.order, .part = alias.part});
    if (alias.part == FusedPart::kNone) return found;
  }
  if (!found.empty()) return found;
  for (const std::string_view prefix : kPrefixes) {
    if (name.starts_with(prefix)) return TranslateParameter(name.substr(prefix.size()), aliases);
  }
  return {};
}

// "optimizer.state.PARAMETER.TENSOR", "optim.state....", "state....": the first of PARAMETER.
size_t StateBegin(std::string_view name) {
  for (const std::string_view marker : kStates) {
    const size_t at = name.find(marker);
    const bool is_state = at != std::string_view::npos && (marker.front() == '.' || at == 0);
    if (is_state) return at + marker.size();
  }
  return std::string_view::npos;
}

}  // namespace

std::string SafetensorsTypeOf(std::string_view torch_type) {
  for (const TorchType& type : kTorchTypes) {
    if (torch_type.starts_with("torch.") && torch_type.substr(6) == type.name &&
        !type.safetensors.empty()) {
      return std::string(type.safetensors);
    }
  }
  return std::string(torch_type);
}

std::vector<TranslatedName> Translate(std::string_view name) {
  const std::string bare = WithoutWrappers(name);
  const std::string_view all = bare;
  const size_t begin = StateBegin(all);
  const size_t dot = all.rfind('.');
  if (begin == std::string_view::npos || dot < begin) return TranslateParameter(all, kAliases);
  const std::string_view parameter = all.substr(begin, dot - begin);
  std::vector<TranslatedName> found = TranslateParameter(parameter, kAliases);
  if (found.empty()) found = TranslateParameter(parameter, kFused);
  for (TranslatedName& one : found) one.tensor = all.substr(dot + 1);
  return found;
}

bool IsUnknownOfBlock(std::string_view name) {
  const std::string bare = WithoutWrappers(name);
  std::string_view rest = bare;
  if (StateBegin(rest) != std::string_view::npos) return false;
  const bool is_parameter = rest.ends_with(".weight") || rest.ends_with(".bias") ||
                            rest.find(".experts.") != std::string_view::npos ||
                            rest.find(".moe.") != std::string_view::npos;
  bool has_prefix = true;
  while (has_prefix) {
    has_prefix = false;
    for (const std::string_view prefix : kPrefixes) {
      if (!rest.starts_with(prefix)) continue;
      rest.remove_prefix(prefix.size());
      has_prefix = true;
    }
  }
  const size_t number = rest.starts_with("layers.") ? 7 : rest.starts_with("block") ? 5 : 0;
  return is_parameter && number > 0 && rest.size() > number && rest[number] >= '0' &&
         rest[number] <= '9';
}

}  // namespace shardscope::checkpoint
