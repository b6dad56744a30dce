#include "engine/checkpoint/dcp/torch_names.h"

#include <algorithm>
#include <charconv>
#include <cstdint>

namespace shardscope::checkpoint {
namespace {

struct Alias {
  std::string_view theirs;  // '#': the number of the block
  std::string_view ours;
  RotaryOrder order = RotaryOrder::kHalves;
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
    // torchtitan, models/llama3/model/model.py
    {"tok_embeddings", "embedding"},
    {"layers.#.attention_norm", "block#.attention.norm"},
    {"layers.#.attention.wq", "block#.attention.q", RotaryOrder::kPairs},
    {"layers.#.attention.wk", "block#.attention.k", RotaryOrder::kPairs},
    {"layers.#.attention.wv", "block#.attention.v"},
    {"layers.#.attention.wo", "block#.attention.o"},
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

// What wrappers and the names of a state dictionary put in front.
constexpr std::string_view kPrefixes[] = {"model.", "module.", "_orig_mod.", "state_dict."};

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

std::optional<TranslatedName> TranslateParameter(std::string_view name) {
  const size_t dot = name.rfind('.');
  const std::string_view ending = dot == std::string_view::npos ? "" : name.substr(dot);
  if (ending != ".weight" && ending != ".bias") return std::nullopt;
  const std::string_view module = name.substr(0, dot);
  for (const Alias& alias : kAliases) {
    const std::optional<std::string> number = Match(module, alias.theirs);
    if (!number) continue;
    std::string ours(alias.ours);
    if (const size_t mark = ours.find('#'); mark != std::string::npos) {
      ours.replace(mark, 1, *number);
    }
    return TranslatedName{.parameter = ours + std::string(ending), .order = alias.order};
  }
  for (const std::string_view prefix : kPrefixes) {
    if (name.starts_with(prefix)) return TranslateParameter(name.substr(prefix.size()));
  }
  return std::nullopt;
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

std::optional<TranslatedName> Translate(std::string_view name) {
  // "optimizer.state.<parameter>.<tensor>", "optim.state....", "state....".
  for (const std::string_view marker : {".state.", "state."}) {
    const size_t at = name.find(marker);
    const bool is_state = at != std::string_view::npos && (marker.front() == '.' || at == 0);
    const size_t dot = name.rfind('.');
    if (!is_state || dot < at + marker.size()) continue;
    const size_t begin = at + marker.size();
    std::optional<TranslatedName> translated = TranslateParameter(name.substr(begin, dot - begin));
    if (translated) translated->tensor = name.substr(dot + 1);
    return translated;
  }
  return TranslateParameter(name);
}

}  // namespace shardscope::checkpoint
