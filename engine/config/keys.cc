// The table of all keys, and --help made from it. Everything else (parsing, run.toml, the form of a
// new run) reads it too.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "engine/config/config.h"
#include "engine/config/device.h"
#include "engine/config/parse.h"
#include "engine/plan/optimizer_state.h"
#include "engine/plan/policy_words.h"
#include "engine/plan/strategy.h"
#include "trace/base/text.h"
#include "trace/base/time.h"
#include "trace/base/trace_bytes.h"
#include "trace/base/words.h"

namespace shardscope::config {
namespace {

using Keys = std::vector<KeyInfo>;

KeyInfo Int(std::string name, int64_t value, double minimum, double maximum, std::string help) {
  return {.name = std::move(name),
          .type = KeyType::kInt,
          .default_value = std::to_string(value),
          .minimum = minimum,
          .maximum = maximum,
          .help = std::move(help)};
}

// The first choice is the default.
KeyInfo Choice(std::string name, std::vector<std::string> choices, std::string help) {
  std::string first = choices.front();
  return {.name = std::move(name),
          .type = KeyType::kChoice,
          .default_value = std::move(first),
          .choices = std::move(choices),
          .help = std::move(help)};
}

KeyInfo TextKey(std::string name, std::string value, std::string help) {
  return {.name = std::move(name),
          .type = KeyType::kString,
          .default_value = std::move(value),
          .help = std::move(help)};
}

KeyInfo Bool(std::string name, bool value, std::string help) {
  return {.name = std::move(name),
          .type = KeyType::kBool,
          .default_value = value ? "true" : "false",
          .help = std::move(help)};
}

// A bound in bytes, 0 by default: none.
KeyInfo MostBytes(std::string name, std::string help) {
  return {.name = std::move(name),
          .type = KeyType::kBytes,
          .default_value = "0",
          .unit = "B",
          .minimum = 0,
          .maximum = 1e15,
          .help = std::move(help)};
}

KeyInfo Float(std::string name, std::string value, double minimum, double maximum,
              std::string help) {
  return {.name = std::move(name),
          .type = KeyType::kFloat,
          .default_value = std::move(value),
          .minimum = minimum,
          .maximum = maximum,
          .help = std::move(help)};
}

KeyInfo Live(KeyInfo key) {
  key.live = true;
  return key;
}

// KeyInfo::shapes_schedule.
KeyInfo Shapes(KeyInfo key) {
  key.shapes_schedule = true;
  return key;
}

// KeyInfo::is_of_model.
KeyInfo OfModel(KeyInfo key) {
  key.is_of_model = true;
  return key;
}

KeyInfo PathKey(std::string name, std::string help) {
  KeyInfo key = TextKey(std::move(name), "", std::move(help));
  key.is_path = true;
  return key;
}

KeyInfo In(std::string unit, KeyInfo key) {
  key.unit = std::move(unit);
  return key;
}

// As words::Parse...() reads them back; the first is the default.
constexpr std::array kDTypes = {plan::DType::kFp32, plan::DType::kBf16, plan::DType::kFp16,
                                plan::DType::kFp64};
constexpr std::array kOptimizerKinds = {plan::OptimizerKind::kAdamw, plan::OptimizerKind::kAdam,
                                        plan::OptimizerKind::kSgd};

template <typename Enum, size_t kCount>
std::vector<std::string> NamesOf(const std::array<Enum, kCount>& values) {
  std::vector<std::string> names;
  for (const Enum value : values) names.emplace_back(words::Name(value));
  return names;
}

KeyInfo StrategyKey() {
  std::vector<std::string> names;
  std::vector<std::string> help;
  for (const plan::Strategy& strategy : plan::Strategies()) {
    names.emplace_back(strategy.name);
    help.emplace_back(strategy.shards);
  }
  return Choice("strategy", std::move(names), "What is sharded: " + Join(help, "; ") + ".");
}

KeyInfo OffloadKey() {
  std::vector<std::string> with_all;
  for (const plan::Strategy& strategy : plan::Strategies()) {
    if (strategy.shards_parameters) with_all.emplace_back(strategy.name);
  }
  return Choice(
      "offload", TextsOf(plan::kOffloadWords),
      "What lies in the host's memory, and is updated there: optimizer = optimizer state, "
      "gradient shards and weights, of which ranks keep a copy, with strategies that "
      "shard that state; all = parameter shards too, during backward if train.clip=0, "
      "with " +
          Join(with_all, ", ") + ". Not with double_buffer.");
}

KeyInfo BucketCapKey() {
  KeyInfo key = MostBytes("ddp.bucket_cap",
                          "With strategy=ddp: a bucket of gradients is reduced once it has so many "
                          "bytes, the first one with 1 MB.");
  key.default_value = "25MB";
  key.minimum = 1;
  return key;
}

KeyInfo ReshardKey() {
  KeyInfo key = Bool("reshard_after_forward", true,
                     "Free a unit's gathered parameters after its forward and gather them again "
                     "for its backward; a number k: among groups of k ranks, each of which keeps "
                     "its part until then.");
  key.minimum = 2;
  // A group is a part of the ranks, so at most half of them: all of them are `true`.
  key.maximum = kMostRanks / 2;
  return key;
}

KeyInfo MeshKey(std::string_view dimension, std::string value, std::string help) {
  return TextKey("mesh." + std::string(dimension), std::move(value), std::move(help));
}

Keys ShardingKeys() {
  return {
      Live(Shapes(
          Choice("preset", TextsOf(plan::kPresetWords),
                 "Whose waits, copies and free points the schedule has, and the defaults of other "
                 "keys: PyTorch's FSDP2 or FSDP1, or double_buffer = units take turns in two fixed "
                 "buffers for parameters and two for gradients."))),
      Live(Shapes(StrategyKey())),
      Live(Shapes(MeshKey(
          "replicate", "1",
          "Ranks along the mesh's dimension of replicas, which hold the same shards and reduce "
          "their gradients; auto = what the other dimensions leave of run.ranks."))),
      Live(Shapes(MeshKey(
          "shard", "auto",
          "Ranks that share parameters, gradients and optimizer state among them; auto = what "
          "the other dimensions leave of run.ranks."))),
      Live(Shapes(MeshKey("pipeline", "1",
                          "Ranks that have the layers one after the other; auto = what the other "
                          "dimensions leave of run.ranks."))),
      Live(Shapes(
          MeshKey("tensor", "1",
                  "Ranks that share the work of attention and MLP, some heads and columns each; "
                  "they have the same samples; auto = what the other dimensions leave of "
                  "run.ranks."))),
      Live(Shapes(
          Bool("tensor.sequence_parallel", false,
               "With mesh.tensor above 1: between the parts of layers that ranks share each has a "
               "part of the sequence, so that norms, residual, embedding and head hold less; an "
               "all-gather and a reduce-scatter stand for each all-reduce."))),
      Live(Shapes(
          Bool("tensor.async", false,
               "With mesh.tensor above 1: the gradient of the weight behind each norm is computed "
               "while ranks add up the gradient of what the norm puts out, not before."))),
      Live(Shapes(
          Choice("pipeline.schedule", TextsOf(plan::kPipelineScheduleWords),
                 "How micro-batches follow each other through the stages: 1f1b = each goes back "
                 "as soon as it can, gpipe = all go forward first, interleaved = as 1f1b, with "
                 "several stages on each rank. It needs train.micro_batches."))),
      Live(Shapes(
          Int("pipeline.chunks", 1, 1, 64,
              "Stages on each rank; more than one with pipeline.schedule=interleaved only."))),
      Live(Shapes(ReshardKey())),
  };
}

// What units are, when they are gathered, and what of them is kept.
Keys UnitKeys() {
  return {
      Live(Shapes(
          Choice("prefetch.backward", TextsOf(plan::kBackwardPrefetchWords),
                 "When the next unit's all-gather is issued in the backward pass: before this "
                 "unit's backward, after it, or only when it is needed."))),
      Live(Shapes(In("units", Int("prefetch.backward_depth", 1, 1, 3,
                                  "How many units ahead the backward prefetch reaches.")))),
      Live(Shapes(
          In("units", Int("prefetch.forward", 0, 0, 3,
                          "How many units ahead all-gathers are issued in the forward pass; 0 = "
                          "none.")))),
      Live(Shapes(
          TextKey("prefetch.forward_list", "",
                  "Units whose all-gathers a unit issues in the forward pass: "
                  "block0:block1+block2,block1:block3; instead of prefetch.forward for those "
                  "that are named before a colon."))),
      Live(Shapes(TextKey("prefetch.backward_list", "",
                          "The same in the backward pass, instead of prefetch.backward."))),
      Live(Shapes(
          In("units", Int("prefetch.limit", 0, 0, 64,
                          "At most this many gathered units in flight; the host waits for the "
                          "oldest to be freed; 0 = no limit.")))),
      Live(Shapes(
          In("ops", Int("host.run_ahead", -1, -1, 1000,
                        "How many compute ops the host may issue ahead of the one that runs; 0 = a "
                        "host that waits, -1 = no limit.")))),
      Live(PathKey("schedule.file",
                   "A file with the Schedule of each step, as schedules/0.txt of a run has it, in "
                   "place of the one that strategy and prefetch give: the same ops, issued in "
                   "another order or with other waits (docs/schedule.md).")),
      OfModel(Live(TextKey(
          "unit.policy", "block",
          "What is gathered together: block = each block is a unit, blocks:n = n of them, module = "
          "attention and MLP apart, size:n = modules with n elements or more, list:block0,head = "
          "these; what is in none of them is one root unit."))),
      Live(Shapes(
          Bool("unit.root", false,
               "Put embedding and head into one root unit that stays gathered, instead of units "
               "of their own."))),
      Live(Shapes(
          TextKey("checkpointing", "none",
                  "Activations that forward does not keep and backward computes again: full = "
                  "all but each block's input, every:k = of every k-th block, blocks:0-3,5 = of "
                  "these, selective = norms and activation functions only, budget:1GB = of the "
                  "cheapest blocks such that the predicted peak of a rank is no higher."))),
      Live(Shapes(OffloadKey())),
      Live(Shapes(BucketCapKey())),
  };
}

Keys ZeroKeys() {
  return {
      Live(Shapes(
          In("elements",
             Int("zero.reduce_bucket_size", 5'000'000, 1, 1e12,
                 "With strategy=zero1 or zero2: gradients are reduced, and parameters gathered, "
                 "so many elements at a time.")))),
      Live(Shapes(
          Bool("zero.overlap_comm", true,
               "With strategy=zero1, zero2 or zero3: compute goes on while gradients are reduced "
               "and parameters gathered; false = it waits for each collective at once."))),
      Live(Shapes(
          In("elements", Int("zero.prefetch_bucket_size", 1'000'000, 0, 1e12,
                             "With strategy=zero3: the next units are gathered ahead while they "
                             "have no more elements together; 0 = none.")))),
      Live(Shapes(
          In("elements", Int("zero.max_live_parameters", 10'000'000, 0, 1e12,
                             "With strategy=zero3: nothing is gathered ahead that would bring "
                             "all gathered parameters above so many elements.")))),
      Live(Shapes(
          In("elements",
             Int("zero.max_reuse_distance", 1'000'000, 0, 1e12,
                 "With strategy=zero3: a unit stays gathered after its forward if fewer elements "
                 "are used before its backward; 0 = none does.")))),
      Live(Shapes(In("elements", Int("zero.persistence_threshold", 1'000, 0, 1e12,
                                     "With strategy=zero3: every rank keeps parameters with fewer "
                                     "elements whole, and gathers them after each update.")))),
  };
}

// For each dimension of the mesh: empty is the link of all.
Keys LinkKeys() {
  Keys keys = {
      Live(TextKey("link.host.bandwidth", "",
                   "With offload: speed of each rank's emulated link to the host's memory, in "
                   "each direction; empty = as fast as memory is.")),
      Live(TextKey("link.host.latency", "", "Fixed time of each copy on that link; empty = none.")),
  };
  for (size_t at = 0; at < plan::kNumMeshDimensions; ++at) {
    const std::string dimension(Name(static_cast<plan::MeshDimension>(at)));
    const std::string name = "link." + dimension;
    const std::string between = " between ranks that differ along mesh." + dimension + " only";
    keys.push_back(Live(TextKey(name + ".bandwidth", "",
                                "Speed of the emulated link" + between +
                                    ", a wire of its own; empty = that of link.bandwidth.")));
    keys.push_back(
        Live(TextKey(name + ".latency", "",
                     "Fixed time of a collective" + between + "; empty = that of link.latency.")));
  }
  return keys;
}

Keys CommunicationKeys() {
  return {
      Choice("transport", {"shared_memory", "emulated", "gloo", "nccl", "local"},
             "What moves the bytes: this machine's memory at full speed, the same paced to the "
             "stated link, or Gloo; with run.device=cuda: NCCL, local = virtual ranks on one GPU, "
             "or emulated."),
      Shapes(Int(
          "comm.communicators", 1, 1, 2,
          "1 = all-gathers and reductions share one communicator and so wait for each other, as "
          "in PyTorch; 2 = one each.")),
      Live(KeyInfo{.name = "link.bandwidth",
                   .type = KeyType::kBandwidth,
                   .default_value = "1GB/s",
                   .unit = "B/s",
                   .minimum = 1e3,
                   .maximum = 1e12,
                   .help = "Speed of each rank's emulated link; auto:0.6 = such that a block's "
                           "all-gather takes 0.6 of its measured forward."}),
      Live(KeyInfo{.name = "link.latency",
                   .type = KeyType::kDuration,
                   .default_value = "20us",
                   .unit = "s",
                   .minimum = 0,
                   .maximum = 10.0 * kNsPerSecond,
                   .help = "Fixed time that each collective on the emulated link takes besides its "
                           "bytes."}),
      KeyInfo{
          .name = "comm.timeout",
          .type = KeyType::kDuration,
          .default_value = "60s",
          .unit = "s",
          .minimum = 10.0 * kNsPerMs,
          .maximum = 3600.0 * kNsPerSecond,
          .help = "How long a rank waits for others to start, or in a collective, until it fails."},
  };
}

Keys PrecisionKeys() {
  return {
      Shapes(Choice("precision.param", NamesOf(kDTypes),
                    "Type of the gathered parameters and of compute; fp64 is for tests.")),
      Shapes(Choice("precision.reduce", NamesOf(kDTypes),
                    "Type in which gradients are sent; they are summed in fp32 or better.")),
      Shapes(Bool(
          "precision.keep_low_grads", false,
          "Reduced gradients stay in precision.reduce, in which the optimizer reads them; else "
          "they are cast to the type of the weights.")),
      Shapes(
          Bool("scaler.enabled", false,
               "Scale the loss so that small fp16 gradients do not vanish, and skip a step whose "
               "gradient is not finite on any rank; on by default with precision.param=fp16.")),
      Float("scaler.init", "65536", 1, 1e12, "Scale of the loss in the first step."),
      Float("scaler.growth", "2", 1, 1e6,
            "Factor on the scale after scaler.interval steps without a skipped one."),
      Float("scaler.backoff", "0.5", 1e-6, 1, "Factor on the scale after a skipped step."),
      In("steps", Int("scaler.interval", 2000, 1, 1e9,
                      "Steps without a skipped one after which the scale grows.")),
  };
}

Keys AccumulationKeys() {
  return {
      Live(
          Shapes(Choice("accumulation", TextsOf(plan::kGradientSyncWords),
                        "What becomes of the gradients of micro-batches: reduce = each is reduced; "
                        "no_sync = they are added up unsharded and reduced with the last one; "
                        "reduce_scatter_only = with strategy=hybrid each is reduce-scattered, and "
                        "replicas all-reduce with the last one."))),
      Live(Shapes(
          Bool("reshard_after_backward", true,
               "Free a unit after the backward of every micro-batch, and gather it again for the "
               "next; false = after that of the last one only."))),
      Live(Shapes(
          Bool("is_last_backward", true,
               "Every micro-batch's backward is taken for the last of the step, at whose end "
               "compute waits for reductions; false = the last one's is."))),
  };
}

Keys OptimizerKeys() {
  return {
      Shapes(Choice(
          "optimizer.kind", NamesOf(kOptimizerKinds),
          "How parameters are updated: torch.optim's AdamW; Adam, whose weight decay is a part "
          "of the gradient; SGD with momentum.")),
      Float("optimizer.beta1", "0.9", 0, 0.999999, "Adam's decay of the mean of gradients."),
      Float("optimizer.beta2", "0.95", 0, 0.999999999,
            "Adam's decay of the mean of their squares."),
      Float("optimizer.eps", "1e-08", 1e-30, 1, "Added to the root by which Adam divides."),
      Float("optimizer.weight_decay", "0.01", 0, 10, "Decay of weights."),
      Shapes(Float("optimizer.momentum", "0.9", 0, 0.999999,
                   "SGD's decay of the sum of gradients; 0 = none, and no state.")),
      Shapes(Choice(
          "optimizer.state", {"full", "8bit"},
          "How the optimizer's state is kept: in the type of the weights, or a byte an element "
          "with a scale for each 256 of them.")),
  };
}

Keys RunKeys() {
  KeyInfo socket =
      TextKey("run.control_socket", "", "The run's control socket; the trainer writes it.");
  socket.settable = false;
  return {
      TextKey("run.name", "", "Name of the run; empty = the name of its folder."),
      Shapes(
          In("ranks", Int("run.ranks", 4, 1, kMostRanks, "Number of ranks that train together."))),
      Choice("run.device", std::vector<std::string>(kDeviceNames.begin(), kDeviceNames.end()),
             "What the ranks compute on; auto = cuda where there are a GPU, its driver and the "
             "plugin, else cpu."),
      Choice("cuda.memory", {"caching", "pool"},
             "Where buffers of the schedule lie on a GPU: in LibTorch's caching allocator, or in "
             "one block at places that are chosen before the step."),
      Int("run.seed", 0, 0, 4294967295.0,
          "Seed of the initial weights and of the order of the samples."),
      socket,
  };
}

Keys ModelKeys() {
  return {
      OfModel(
          Choice("model.kind", {"gpt", "llama"},
                 "What blocks are made of: gpt = attention and GELU MLP, without biases, llama = "
                 "grouped-query attention and SwiGLU MLP, as LlamaForCausalLM.")),
      PathKey("model.path",
              "Folder in Hugging Face's layout (config.json, model.safetensors) whose weights the "
              "run begins with; it gives the other keys of the model but model.seq. Empty = drawn "
              "from run.seed."),
      Shapes(In("blocks", Int("model.layers", 4, 1, 128, "Number of transformer blocks."))),
      OfModel(Int("model.dim", 256, 8, 16384, "Width of the model; a multiple of model.heads.")),
      OfModel(Int("model.heads", 4, 1, 128,
                  "Attention heads; each has model.dim/model.heads channels, an even number.")),
      OfModel(Int(
          "model.kv_heads", 0, 0, 128,
          "With model.kind=llama: heads of keys and values, each of which several heads of queries "
          "share; divides model.heads; 0 = model.heads.")),
      OfModel(Int(
          "model.ffn", 0, 0, 131072,
          "Width inside the MLP; 0 = 4 * model.dim, with model.kind=llama 8/3 of it, as a multiple "
          "of 32.")),
      OfModel(In("tokens", Int("model.vocab", 256, 1, 1048576,
                               "Size of the vocabulary; 256 where a token is a byte."))),
      OfModel(In("tokens", Int("model.seq", 128, 2, 8192, "Length of a sample."))),
      PathKey("data.path",
              "File or folder of UTF-8 text to learn; empty = Shardscope's own source tree."),
      PathKey(
          "data.tokenizer",
          "Folder with a tokenizer.json (byte-level BPE) that makes tokens of the text; empty = "
          "that of model.path; bytes, or no tokenizer there = a token is a byte."),
      Choice("data.format", {"auto", "text", "jsonl"},
             "With a tokenizer: what files are. text = a file is a document, jsonl = a line is an "
             "object with \"text\", or with \"messages\", of which the loss counts the "
             "assistant's alone; auto = by the ending .jsonl."),
      PathKey("data.cache",
              "Folder in which token ids are kept for later runs and for all ranks; empty = "
              "shardscope/tokens in the user's cache folder."),
      {.name = "data.cache_limit",
       .type = KeyType::kBytes,
       .default_value = "20GB",
       .unit = "B",
       .minimum = 0,
       .maximum = 1e15,
       .help = "Most bytes in data.cache; what was not used for longest goes first."},
  };
}

Keys TrainKeys() {
  return {
      In("steps", Int("train.steps", 100, 1, 1e9, "Number of optimizer steps.")),
      OfModel(In("samples", Int("train.batch", 4, 1, 4096, "Samples per rank and micro-batch."))),
      Shapes(Int("train.micro_batches", 1, 1, 64,
                 "Micro-batches per step, whose gradients are accumulated.")),
      OfModel(In("tokens",
                 Int("train.logits_block", 0, 0, 1048576,
                     "Tokens of the vocabulary whose logits are there at a time, 16 or more: the "
                     "loss is added up block by block, and backward computes each block once "
                     "more; 0 = all at once, which are kept until then."))),
      Live(KeyInfo{.name = "train.lr",
                   .type = KeyType::kFloat,
                   .default_value = "0.001",
                   .minimum = 0,
                   .maximum = 10,
                   .help = "Learning rate after the warm-up."}),
      Shapes(Float("train.clip", "1", 0, 1e6,
                   "Largest global gradient norm; larger gradients are scaled down; 0 = off.")),
      In("steps", Int("train.warmup_steps", 10, 0, 1e6,
                      "Steps over which the learning rate rises to train.lr.")),
      Choice("train.schedule", {"constant", "linear", "cosine"},
             "After the warm-up the learning rate stays, or falls to train.min_lr until the end, "
             "in a line or half a cosine."),
      Float("train.min_lr", "0", 0, 10, "Least learning rate, where it falls."),
      OfModel(
          TextKey("train.frozen", "",
                  "Modules whose parameters are not trained, separated by commas: embedding, head, "
                  "blocks = all of them, block0, block0.attention, block0.mlp.")),
      PathKey("lora.path",
              "Folder of adapters as peft writes it (adapter_config.json, "
              "adapter_model.safetensors), with which the run begins over model.path; it gives the "
              "other keys of lora. Empty = drawn from run.seed."),
      OfModel(
          Int("lora.rank", 0, 0, 1024,
              "Rank of low-rank adapters (LoRA), which alone are trained; 0 = there are none.")),
      OfModel(Float("lora.alpha", "16", 0.001, 1e6,
                    "What an adapter adds is scaled by lora.alpha/lora.rank.")),
      OfModel(TextKey(
          "lora.targets", "all",
          "Layers of blocks that get an adapter, separated by commas: q_proj, k_proj, v_proj, "
          "o_proj, gate_proj, up_proj, down_proj, of a gpt qkv, projection, up, down; or all.")),
  };
}

Keys EngineKeys() {
  return {
      Live(Int("engine.compute_slots", 0, 0, 1024,
               "How many compute ops may run at once over all ranks; 0 = one per core.")),
      MostBytes("engine.memory_limit",
                "Bytes that one rank may allocate. A schedule that can need more in some order of "
                "execution is refused, and a run that needs more all the same fails as if out of "
                "memory; 0 = no limit."),
      Live(In("steps", TextKey("record.steps", "all",
                               "Which steps are recorded: all, or a:b = from step a up to, not "
                               "including, step b."))),
      Choice("record.on_error", {"continue", "stop"},
             "What to do when the trace cannot be written, as on a full disk: train on without it, "
             "or stop."),
      In("times",
         Int("record.measure_overhead", -1, -1, 1000,
             "How often the run measures what recording costs, each time by a step that "
             "is not recorded, between others that are; those steps are marked. -1 = 3 to 5 "
             "times in a run of 45 steps or more on a GPU, else never; 0 = never.")),
      MostBytes(
          "record.max_bytes",
          fmt::format("Most bytes that the trace takes on disk at any moment, at least {}; to "
                      "keep it the oldest steps go. 0 = no limit.",
                      SizeText(kLeastTraceBytes))),
  };
}

Keys CheckpointKeys() {
  return {
      Live(In("steps",
              Int("checkpoint.every", 0, 0, 1e9,
                  "A checkpoint before every so many steps, and one when the run ends or is "
                  "stopped; written while the next steps run. 0 = only when the control "
                  "socket asks for one."))),
      Live(In("checkpoints", Int("checkpoint.keep", 0, 0, 1e6,
                                 "How many of the checkpoints that this run has written stay: the "
                                 "oldest goes when a newer one is whole. 0 = all."))),
      PathKey("checkpoint.path",
              "Folder of the run's checkpoints; empty = checkpoints in the folder of the run."),
      PathKey("checkpoint.resume",
              "A run or one of its checkpoints to go on from, with its settings unless others are "
              "given: as --resume."),
  };
}

Keys EvaluationKeys() {
  return {
      In("steps",
         Int("eval.every", 0, 0, 1e9,
             "The loss over held-out data before the first step, after every so many steps "
             "and at the end: forwards alone, between steps. 0 = never.")),
      PathKey("eval.path",
              "File or folder of held-out data, which no step learns from; as data.path, with the "
              "same tokenizer and format."),
      In("batches", Int("eval.batches", 0, 0, 1e9,
                        "How many batches an evaluation takes at most, each of as many samples as "
                        "a step in which every rank has its own. 0 = all of the data.")),
  };
}

Keys FaultKeys() {
  return {
      Live(TextKey("fault.delay", "",
                   "A rank that computes more slowly: 1:20ms = rank 1 takes 20 ms longer in each "
                   "step, 1:25% = each of its compute ops a quarter longer; 1:20ms:10:20 = in "
                   "steps 10 to 19.")),
      Live(TextKey("fault.jitter", "",
                   "Each compute op of every rank takes longer by a random time: 5ms = by 0 to 5 "
                   "ms, 10% = by 0 to 10% of its own. The same in every run with the same "
                   "run.seed.")),
      Int("fault.init", -1, -1, kMostRanks - 1,
          "A rank that draws its parameters from another seed than the others; -1 = none."),
      TextKey("fault.skip", "",
              "A rank that leaves out a collective: 1:3 = rank 1 the first one of step 3, or the "
              "op that is named behind it."),
      TextKey("fault.hang", "",
              "A rank that never comes back: 1:3 = rank 1 from the first forward of step 3, or "
              "from the op that is named behind it."),
      TextKey("fault.die", "",
              "A rank that dies: 1:3 = rank 1 in the first forward of step 3, or in the op that is "
              "named behind it. Its process is killed; if it shares one with other ranks, it fails "
              "there."),
  };
}

Keys MakeKeys() {
  Keys all;
  for (Keys (*group)() : {ShardingKeys, UnitKeys, ZeroKeys, CommunicationKeys, LinkKeys,
                          PrecisionKeys, AccumulationKeys, RunKeys, ModelKeys, TrainKeys,
                          OptimizerKeys, EngineKeys, CheckpointKeys, EvaluationKeys, FaultKeys}) {
    Keys keys = group();
    std::move(keys.begin(), keys.end(), std::back_inserter(all));
  }
  return all;
}

constexpr size_t kWidth = 100;

std::string_view TypeName(KeyType type) {
  switch (type) {
    case KeyType::kInt:
      return "int";
    case KeyType::kFloat:
      return "float";
    case KeyType::kBool:
      return "bool";
    case KeyType::kChoice:
      return "choice";
    case KeyType::kString:
      return "text";
    case KeyType::kDuration:
      return "duration";
    case KeyType::kBandwidth:
      return "bandwidth";
    case KeyType::kBytes:
      return "size";
  }
  return "";
}

// Breaks `text` at spaces into lines of kWidth with `indent` spaces in front.
std::string Wrapped(std::string_view text, size_t indent) {
  std::string lines;
  std::string line(indent, ' ');
  for (const std::string_view word : Split(text, ' ')) {
    if (line.size() > indent && line.size() + 1 + word.size() > kWidth) {
      lines += line + "\n";
      line.assign(indent, ' ');
    }
    if (line.size() > indent) line += ' ';
    line += word;
  }
  return lines + line + "\n";
}

}  // namespace

const std::vector<KeyInfo>& AllKeys() {
  static const Keys kKeys = MakeKeys();
  return kKeys;
}

const KeyInfo* FindKey(std::string_view name) {
  const auto& keys = AllKeys();
  const auto found =
      std::find_if(keys.begin(), keys.end(), [&](const KeyInfo& key) { return key.name == name; });
  return found == keys.end() ? nullptr : &*found;
}

std::string KeyHelp() {
  std::string help =
      "Keys (--set key=value, run.toml, and those marked live in the control socket):\n";
  for (const KeyInfo& key : AllKeys()) {
    std::string facts = fmt::format("{}, default {}", TypeName(key.type),
                                    key.default_value.empty() ? "empty" : key.default_value);
    if (!key.unit.empty()) facts += ", unit " + key.unit;
    facts += key.live ? ", live" : ", not live";
    if (!key.settable) facts += ", written by the trainer";
    help += fmt::format("  {:<24} {}\n", key.name, facts);
    help += Wrapped(fmt::format("{} ({})", key.help, Allowed(key)), 6);
  }
  return help;
}

}  // namespace shardscope::config
