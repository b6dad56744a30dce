#!/usr/bin/env python3
"""The words that engine and trace share: what may stand in text columns, and what the code calls it. The one description.

words.py --out FOLDER      words.h and words.cc, into FOLDER

trace/schema/tables.py takes the lists of docs/trace.md from here. A word's number counts for nothing but the order of loops.
"""

import argparse
import dataclasses
import pathlib


@dataclasses.dataclass(frozen=True)
class Word:
    text: str
    doc: str = ""
    # Of the enum's value where the text gives none.
    name: str = ""
    # What else the code needs of it: a value for each of the enum's traits.
    traits: tuple = ()

    def value(self):
        return "k" + "".join(part.capitalize() for part in (self.name or self.text).split("_"))


@dataclasses.dataclass(frozen=True)
class Words:
    name: str
    doc: str
    words: tuple
    # Name of the constant with their number, if loops ask for it.
    count: str = ""
    # Further texts that are read as one of the words: (text, word).
    aliases: tuple = ()
    traits: tuple = ()  # of Trait


@dataclasses.dataclass(frozen=True)
class Trait:
    """A fact that every word of an enum has: a member of the struct that TraitsOf() gives."""
    name: str
    type: str  # "bool", "int", "text" or the name of another enum here
    doc: str

    def member(self):
        return f"{'std::string_view' if self.type == 'text' else self.type} {self.name};"

    def initial(self, value):
        if self.type == "text":
            return f'"{value}"'
        if self.type in ("bool", "int"):
            return str(value).lower()
        return f"{self.type}::{Word(value).value()}"


def words(name, doc, *found, **options):
    """An enum; a word without a doc is its text alone."""
    return Words(name, doc, tuple(Word(word) if isinstance(word, str) else Word(*word) for word in found), **options)


def described(name, doc, traits, *found, **options):
    """An enum whose words have traits: (text, doc, value, value, ...)."""
    assert all(len(word) == 2 + len(traits) for word in found), f"{name}: a word without one of {[trait.name for trait in traits]}"
    return Words(name, doc, tuple(Word(word[0], word[1], traits=word[2:]) for word in found), traits=traits, **options)


# (text, doc, share)
CATEGORIES = (("compute", "", "compute"), ("communication", "", "communication"), ("copy", "", "copy"), ("host", "", "none"),
              ("optimizer", "", "compute"))
SHARE = (Trait("share", "OpShare", "which part of a step it counts to"),)

ENUMS = (
    described("OpKind", "What an op of a Schedule does.",
              (Trait("op_class", "OpClass", "what it is drawn and listed as, and its time counts as"),
               Trait("short_name", "text", "in front of the unit or segment"),
               Trait("runs_segment", "bool", "it belongs to a segment of the model, not only to a unit"),
               Trait("payload", "PayloadSide", "of a collective"),
               Trait("ring_passes", "int", "of a collective: how often a ring sends (N-1)/N of the payload, N: ranks"),
               Trait("reduces", "bool", "a collective that adds what the ranks have"),
               Trait("has_peer", "bool", "two ranks of a communicator, not all, exchange something"),
               Trait("has_root", "bool", "a collective in which one rank has, or gets, all of it")),
              ("control", "host: step boundary at which ranks agree on the Schedule of this step; starts every step",
               "bookkeeping", "control", False, "none", 0, False, False, False),
              ("load_batch", "host: reads one micro-batch of samples", "host", "load batch", False, "none", 0, False, False, False),
              ("cast", "copy: master shard to param dtype, before the all-gather (FSDP1 pre_unshard stream)",
               "copy", "cast", False, "none", 0, False, False, False),
              ("copy_in", "copy: own shard to collective buffer; gradients to reduce-scatter input",
               "copy", "copy-in", False, "none", 0, False, False, False),
              ("copy_out", "copy: all-gather output to unsharded parameters", "copy", "copy-out", False, "none", 0, False, False, False),
              ("copy_to_device", "copy: a shard that the host's memory holds, before it is gathered (FSDP2: CPUOffloadPolicy)",
               "copy", "H2D", False, "none", 0, False, False, False),
              ("copy_to_host", "copy: a reduced gradient to where the optimizer has it, in the host's memory",
               "copy", "D2H", False, "none", 0, False, False, False),
              ("accumulate", "copy: reduce-scatter output to gradient shard; casts, and adds if there is one already",
               "copy", "accumulate", False, "none", 0, False, False, False),
              ("all_gather", "", "all_gather", "AG", False, "writes", 1, False, False, False),
              ("reduce_scatter", "", "reduce_scatter", "RS", False, "reads", 1, True, False, False),
              ("all_reduce", "", "all_reduce", "AR", False, "both", 2, True, False, False),
              ("broadcast", "to all ranks from the root, which alone keeps the model", "broadcast", "BC", False, "none", 1, False, False, True),
              ("scatter", "to each rank its batch, from the root that has read all of them", "broadcast", "scatter", False, "none", 0, False, False, True),
              ("gather", "from each rank what its last segment has put out, to the root", "reduce", "gather", False, "none", 0, False, False, True),
              ("reduce", "the sum of what the ranks have, to the root", "reduce", "reduce", False, "none", 1, True, False, True),
              ("send", "to the peer: a stage's output, or its input's gradient", "send_receive", "send", False, "reads", 0, False, True, False),
              ("receive", "from the peer: what it sends", "send_receive", "receive", False, "writes", 0, False, True, False),
              ("forward", "", "forward", "F", True, "none", 0, False, False, False),
              ("norm_forward", "the norm of a segment, before ranks that share its work have gathered the sequence of which each has a part",
               "forward", "NF", True, "none", 0, False, False, False),
              ("backward", "", "backward", "B", True, "none", 0, False, False, False),
              ("norm_backward", "the rest of a segment's backward, through its norm, once ranks that share its work have added up the "
                                "gradient of what the norm puts out", "backward", "NB", True, "none", 0, False, False, False),
              ("weight_backward", "the gradient of the weight behind a segment's norm, while ranks that share its work add up the gradient of "
                                  "what the norm puts out", "backward", "WB", True, "none", 0, False, False, False),
              ("recompute", "what a segment's forward has left for its backward and not kept, once more, or its norm alone (activation checkpointing)",
               "recompute", "R", True, "none", 0, False, False, False),
              ("reshard", "takes no time of its own: frees a unit's unsharded parameters once the stream reaches it",
               "bookkeeping", "reshard", False, "none", 0, False, False, False),
              ("release", "likewise: frees other buffers, all-gather output or reduce-scatter input; with nothing to free it is a plain "
                          "wait of its stream, FSDP1's wait_stream before a prefetch, and its name says 'wait'",
               "bookkeeping", "release", False, "none", 0, False, False, False),
              ("unscale", "whether the scaled gradient shards are finite (GradScaler.unscale_); norm and update take them by 1/scale", "optimizer",
               "unscale", False, "none", 0, False, False, False),
              ("grad_norm", "local sum of squares of the gradient shards", "optimizer", "grad norm", False, "none", 0, False, False, False),
              ("optimizer", "clip scale and update of one unit's shards", "optimizer", "optimizer", False, "none", 0, False, False, False)),
    described("OpClass", "What a span is drawn and listed as.",
              (Trait("category", "Category", "what its time counts as"),
               Trait("nccl_name", "text", "of a collective: part of the names of NCCL's kernels")),
              ("forward", "", "compute", ""),
              ("backward", "", "compute", ""),
              ("recompute", "of activations, for a backward", "compute", ""),
              ("all_gather", "", "communication", "AllGather"),
              ("reduce_scatter", "", "communication", "ReduceScatter"),
              ("all_reduce", "", "communication", "AllReduce"),
              ("send_receive", "", "communication", "SendRecv"),
              ("broadcast", "from one rank, to each all or its part", "communication", "Broadcast"),
              ("reduce", "to one rank, of each all or its part", "communication", "Reduce_"),
              ("optimizer", "", "optimizer", ""),
              ("copy", "", "copy", ""),
              ("host", "", "host", ""),
              ("bookkeeping", "takes no time of its own", "host", ""),
              count="kNumOpClasses"),
    words("PayloadSide", "Which buffers of a collective hold what all ranks have together.", "none", "writes", "reads", "both"),
    described("BufferKind", "What a buffer holds, so that the engine can bind it to memory.",
              (Trait("memory", "MemoryCategory", "what its bytes count as"),
               Trait("form", "BufferForm", "how a transient one lies in memory"),
               Trait("kept_as", "KeptAs", "what it is to its unit, if ranks keep it"),
               Trait("part", "UnitPart", "how many elements of its unit it has"),
               Trait("part_dtype", "PartDType", "and in which dtype"),
               Trait("trained_only", "bool", "it has no place for frozen parameters"),
               Trait("summed", "SummedPart", "what an all-reduce or reduce adds up in it")),
              ("parameter_shard", "persistent: this rank's padded slice of each parameter of the unit, master dtype",
               "parameter_shard", "block", "parameter_shard", "shard", "master", False, "none"),
              ("gradient_shard", "persistent: same shape, reduced gradient; one that is not persistent waits to go to the host",
               "gradient_shard", "block", "gradient_shard", "shard", "gradient", True, "shard"),
              ("optimizer_state", "persistent: what the optimizer keeps of each parameter, as AdamW's two moments",
               "optimizer", "block", "optimizer_state", "none", "none", True, "none"),
              ("host_parameter_shard", "persistent: as parameter_shard, in the host's memory; a parameter_shard that is not persistent is its copy",
               "host", "block", "host_master", "shard", "master", False, "none"),
              ("host_gradient_shard", "persistent: as gradient_shard, in the host's memory",
               "host", "block", "gradient_shard", "shard", "gradient", True, "none"),
              ("host_optimizer_state", "persistent: as optimizer_state, in the host's memory",
               "host", "block", "optimizer_state", "none", "none", True, "none"),
              ("host_reduced", "one padded chunk, reduce dtype, in the host's memory: to be accumulated there",
               "host", "block", "none", "shard", "reduce", True, "none"),
              ("cast_shard", "the shard in param dtype (only if it differs from master dtype)",
               "communication_buffer", "block", "none", "shard", "parameter", False, "none"),
              ("all_gather_output", "num_ranks padded shards, rank-major",
               "communication_buffer", "block", "none", "rank_major", "parameter", False, "none"),
              ("unsharded", "the unit's parameters, each contiguous",
               "unsharded_parameter", "block", "whole_parameters", "whole", "parameter", False, "none"),
              ("parameter_slot", "persistent: where units are gathered in turn, as large as the largest of them",
               "unsharded_parameter", "block", "parameter_slot", "whole", "parameter", False, "none"),
              ("gradient_slot", "persistent: where their gradients are in turn, likewise",
               "gradient", "block", "gradient_slot", "whole", "parameter", True, "none"),
              ("post_forward_shard", "from forward to backward: this rank's part of the unit among fewer ranks",
               "unsharded_parameter", "block", "none", "post_forward", "parameter", False, "none"),
              ("gradient", "unsharded gradients of the unit",
               "gradient", "block", "whole_gradient", "whole", "parameter", True, "whole"),
              ("accumulated_gradient", "unsharded gradients of the unit, added up over micro-batches, reduce dtype",
               "gradient", "block", "none", "whole", "reduce", True, "none"),
              ("reduce_scatter_input", "num_ranks padded chunks, rank-major",
               "communication_buffer", "block", "none", "rank_major", "reduce", True, "chunk"),
              ("reduce_scatter_output", "one padded chunk, reduce dtype",
               "communication_buffer", "block", "none", "shard", "reduce", True, "shard"),
              ("activation", "what a segment's forward saves for its backward; includes its output",
               "activation", "saved", "none", "none", "none", False, "none"),
              ("recomputed", "what it would have saved and did not: with its output, if another segment needs that",
               "activation", "saved", "none", "none", "none", False, "none"),
              ("activation_gradient", "gradient with respect to a segment's input",
               "activation", "tensor", "none", "none", "none", False, "none"),
              ("norm_gradient", "gradient with respect to what a segment's norm puts out",
               "activation", "tensor", "none", "none", "none", False, "none"),
              ("hidden_gradient", "gradient with respect to what the weight behind a segment's norm puts out",
               "activation", "tensor", "none", "none", "none", False, "none"),
              ("norm_output", "what a segment's norm puts out, of the whole sequence once that is gathered, and saves for its backward",
               "activation", "saved_norm", "none", "none", "none", False, "none"),
              ("partial_output", "a rank's part of the sum that a segment's output is, of the whole sequence",
               "activation", "tensor", "none", "none", "none", False, "none"),
              ("received_activation", "output of the stage before: the input of this one",
               "activation", "rows", "none", "none", "none", False, "none"),
              ("received_gradient", "gradient of this stage's output, from the next one",
               "activation", "rows", "none", "none", "none", False, "none"),
              ("batch", "token ids of one micro-batch",
               "other", "block", "none", "none", "none", False, "none"),
              ("inputs", "batches of all ranks, on the one that scatters them",
               "other", "block", "none", "none", "none", False, "none"),
              ("outputs", "what the last segments of all ranks put out, on the one that gathers that",
               "other", "block", "none", "none", "none", False, "none"),
              ("norm", "the sum of squares, one scalar",
               "other", "block", "none", "none", "none", False, "scalar"),
              ("found_inf", "above 0: a gradient is not finite, one scalar",
               "other", "block", "none", "none", "none", False, "scalar")),
    words("BufferForm", "How a transient buffer lies in memory.",
          ("block", "plain memory"),
          ("rows", "plain memory, with a row of the model's width for each token"),
          ("tensor", "such rows as a tensor that an op makes"),
          ("saved", "what a segment saves, its output among it"),
          ("saved_norm", "what a segment's norm saves, its output among it")),
    words("KeptAs", "What a buffer that ranks keep is to its unit.",
          "none",
          ("parameter_shard", "the rank's slice of the weights"),
          ("host_master", "the same, which the host updates"),
          ("whole_parameters", "all of them, on every rank"),
          ("whole_gradient", "likewise"),
          ("gradient_shard", "the rank's slice, beside or in the host's memory"),
          ("optimizer_state", "likewise"),
          ("parameter_slot", "where the weights are to lie, if that is fixed"),
          ("gradient_slot", "likewise")),
    words("UnitPart", "How many elements of a unit a buffer has, and how they lie.",
          ("none", "no elements, or an optimizer's state of them, whose size has a rule of its own"),
          ("shard", "one rank's padded shard"),
          ("whole", "each parameter contiguous and aligned, with its padding"),
          ("rank_major", "the padded shards of all ranks, one after the other"),
          ("post_forward", "a part among the fewer ranks that share it after its forward")),
    words("PartDType", "Which dtype elements of a unit have: a program has one for each.",
          "none", "master", "parameter", "reduce", "gradient", count="kNumPartDTypes"),
    words("SummedPart", "What ranks add up in place in a buffer.",
          "none",
          "scalar",
          ("chunk", "a shard's worth of a unit's gradient, not scaled yet"),
          ("shard", "that of the rank's shard"),
          ("whole", "a unit's gradient")),
    words("OpShare", "Which part of a step the time of an op, or of work of a GPU, counts to.",
          "none", ("compute", "the optimizer's, too"), "communication", "copy"),
    described("Category", "What an op's time counts as.", SHARE, *CATEGORIES),
    described("SpanCategory", "What a span's time counts as.", SHARE, *CATEGORIES, ("wait", "", "none")),
    words("Phase", "Part of a step, or an evaluation, which is forwards alone.", "forward", "backward", "optimizer", "evaluation"),
    words("MeshDimension", "A dimension of the mesh of ranks, from the slowest to the fastest in rank number.",
          ("pipeline", "stages of the model, one after the other"),
          ("replicate", "ranks that hold the same shards and have other samples"),
          ("shard", "ranks that share parameters, gradients or optimizer state among them, and have other samples"),
          ("tensor", "ranks that share the work of each layer"), count="kNumMeshDimensions"),
    words("TensorSplit", "What ranks of mesh.tensor have of a parameter.", "whole", "rows", "columns"),
    words("DType", "Type of numbers.", "fp32", "bf16", "fp64", "fp16"),
    words("OptimizerKind", "How parameters are updated, as torch.optim does.",
          ("adamw", "weight decay apart from the gradient"), ("adam", "weight decay as a part of the gradient"), "sgd"),
    words("StateForm", "How a tensor of the optimizer's state is kept.",
          ("master", "in the dtype of the master weights"),
          ("blocks", "a byte an element, and a scale for a block of them")),
    words("TrackRole", "What a track or stream is for: the timeline draws its ops in the lane of that role (kLanes in ui/timeline/lane_source.cc).",
          "host", "compute", "copy", "to_device", "to_host", "host_optimizer", "all_gather", "reduce_scatter", "all_reduce", "broadcast", "reduce", "tensor", "send_activation",
          "receive_activation", "send_gradient", "receive_gradient", count="kNumTrackRoles"),
    words("DependencyKind", "How an op waits for another.",
          ("event", "its stream waits until one earlier op has ended, cudaStreamWaitEvent"),
          ("stream", "its stream waits for all that was issued on another stream before it, wait_stream"),
          ("host", "the host blocks until one earlier op has ended, before it issues this one")),
    words("BlockingKind", "Why an op could not start earlier: what was done last before it became ready.",
          ("none", "ready when issued"),
          "event",
          "stream",
          ("host", "the host waited before it issued this op"),
          "stream_order",
          "communicator_order",
          ("slot", "ready, but all compute slots were taken")),
    words("MemoryCategory", "What memory holds.",
          "parameter_shard",
          "unsharded_parameter",
          "gradient",
          "gradient_shard",
          "communication_buffer",
          "optimizer",
          "activation",
          ("temporary", "what an op takes for itself and gives back before it ends: its highest point, for the length of the op; no "
                        "Schedule lists it"),
          ("host", "what is offloaded: in the host's memory, and in no total of a rank"),
          ("other", "token batches, gaps that align parameters, tables that the ranks of a process share, at its first rank; unit "
                    "'unaccounted': what the allocator handed out by the end of a step and no op accounts for, as workspaces of libraries"),
          count="kNumMemoryCategories", aliases=(("unattributed", "other"),)),
    words("Truth", "Where times come from.", "measured", "emulated", "projected"),
    words("PauseCause", "Why a rank was between two steps.",
          ("user", "paused or stepped one by one, perhaps with more done meanwhile"),
          ("checkpoint", "written"),
          ("change", "of knobs taken up"),
          ("evaluation", "the loss over held-out data")),
    words("StallCause", "Why a stall's collective was late.",
          ("first_gather", "nothing could hide it: the first all-gather of a phase"),
          ("queued_behind", "the all-gather waited for the communicator; names the other collective"),
          ("late_rank", "wait for the last rank; names it"),
          ("bubble", "a pipeline had nothing for this stage to do yet; names the rank that it waited for"),
          ("on_path", "nothing could hide it: it adds up or gathers what compute has just made and needs next, of ranks that share a layer's work"),
          ("issued_late", "the host issued it late, by rate limit or run-ahead; names the op for which the host waited"),
          ("slow_transfer", "issued early enough, the link needed longer than the compute it hides under"),
          ("tail", "last reduce-scatter, nothing left to hide under"),
          ("slot", "waited for a compute slot"),
          "other"),
    words("PathKind", "What a part of the critical path is.",
          "compute",
          "optimizer",
          ("transfer", "of a collective, behind the arrival of its last rank"),
          "copy",
          ("host", "it did something else, or had issued nothing yet"),
          ("slot", "waiting for a compute slot"),
          ("wait", "for nothing that is known: what came before had ended, and it was issued"), count="kNumPathKinds"),
    words("GpuWorkKind", "What a GPU did.",
          "kernel", "copy_to_device", "copy_to_host", "copy_on_device", "copy_to_peer", "copy", "set"),
    words("MemorySegmentKind", "What memory the CUDA driver handed out.", "device", "managed", "pinned", "pageable", "other"),
    words("GpuTimes", "How well the times of GPU work are known.",
          "measured",
          ("lost", "CUPTI has none: the span is empty and stands where its launch ended"),
          ("unfinished", "it still ran when recording ended: the span is empty and stands at its start")),
    words("ChannelKind", "What a hardware queue of a GPU is for.",
          "compute", "copy", "decompression", ("", "not told", "unknown")),
    words("AllocationState", "What had become of an allocator's block when recording ended.",
          "freed",
          ("in use", "given back, and still used by a stream when recording ended", "in_use"),
          ("held", "not given back")),
    words("FlightState", "How far a collective, send or receive of a flight recorder had come: in this order.",
          ("scheduled", "its stream has not come to it"), "started", "completed"),
    words("MarkerKind", "What a marker is of.",
          "change", "pause", "resume", "checkpoint", "stop",
          ("skip", "of a step whose fp16 gradient is not finite"),
          "error", "note"),
    words("CapabilityStatus", "How far a source of records is there.", "on", "off", "partial"),
    words("GpuClockMethod", "Whose times of a GPU are held against the host's.",
          ("cupti", "its times, bound by launches and waits of the host"),
          ("events", "times of CUDA events, where there is no CUPTI, tied to the host's clock before each step")),
    words("TraceState", "Of a trace.",
          "live",
          "finished",
          ("cut", "its process was killed"),
          ("finishing", "recording ended; its file is being closed")),
    words("RunState", "Of a training, as its control socket says it.",
          ("starting", "no step has begun"),
          "training",
          ("paused", "a step waits"),
          ("stopping", "after the step that runs"),
          "finished"),
    words("ClockMethod", "How a clock was placed on the common one of a run.",
          ("reference", "it is the common clock"),
          ("collectives", "by the ends of shared collectives"),
          ("time_of_day", "no shared collectives yet: by the time of day"),
          ("unknown", "neither: taken as it is")),
)


def listed(name, last=""):
    """'a, b (what that is) or c' for the docs; `last` is one more."""
    texts = []
    for word in next(enum for enum in ENUMS if enum.name == name).words:
        text = word.text or "empty"
        texts.append(f"{text} ({word.doc})" if word.doc else text)
    texts += [last] if last else []
    return ", ".join(texts[:-1]) + " or " + texts[-1]


def listed_collectives():
    """'a, b or c': the kinds of ops whose time counts as communication."""
    of = {enum.name: enum for enum in ENUMS}
    classes = {word.text for word in of["OpClass"].words if "communication" in word.traits}
    texts = [word.text for word in of["OpKind"].words if word.traits[0] in classes]
    return ", ".join(texts[:-1]) + " or " + texts[-1]


NOTE = "// Generated by trace/base/words.py: edit that.\n"


def enum_class(enum):
    values = "".join(f"  {word.value()},{'  // ' + word.doc if word.doc else ''}\n" for word in enum.words)
    aliases = "".join(f'inline constexpr std::string_view k{text.capitalize()} = "{text}";  // read as {word}\n'
                      for text, word in enum.aliases)
    count = f"inline constexpr int {enum.count} = {len(enum.words)};\n" if enum.count else ""
    return f"""
// {enum.doc}
enum class {enum.name} : uint8_t {{
{values}}};
{count}{aliases}std::string_view Name({enum.name} value);
std::optional<{enum.name}> Parse{enum.name}(std::string_view text);
"""


def traits_of(enum):
    members = "".join(f"  {trait.member()}  // {trait.doc}\n" for trait in enum.traits)
    rows = "".join("    {" + ", ".join(trait.initial(value) for trait, value in zip(enum.traits, word.traits)) + f"}},  // {word.text}\n"
                   for word in enum.words)
    array = f"k{enum.name}Traits"
    return f"""
struct {enum.name}Traits {{
{members}}};
inline constexpr std::array<{enum.name}Traits, {len(enum.words)}> {array} = {{{{
{rows}}}}};
constexpr const {enum.name}Traits& TraitsOf({enum.name} value) {{ return {array}[static_cast<size_t>(value)]; }}
"""


def header():
    return f"""{NOTE}// Words of the trace as enums, and back: Name() of a value beyond the last is empty, Parse...() of another text gives nullopt.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace shardscope::words {{
{"".join(map(enum_class, ENUMS))}{"".join(traits_of(enum) for enum in ENUMS if enum.traits)}
}}  // namespace shardscope::words
"""


def functions(enum):
    texts = ", ".join(f'"{word.text}"' for word in enum.words)
    aliases = "".join(f'  if (text == "{text}") text = "{word}";\n' for text, word in enum.aliases)
    array = f"k{enum.name}"
    return f"""
constexpr std::array<std::string_view, {len(enum.words)}> {array} = {{{texts}}};
std::string_view Name({enum.name} value) {{ return At({array}, static_cast<size_t>(value)); }}
std::optional<{enum.name}> Parse{enum.name}(std::string_view text) {{
{aliases}  return Find<{enum.name}>({array}, text);
}}
"""


def source():
    return f"""{NOTE}#include "trace/base/words.h"

#include <algorithm>

namespace shardscope::words {{
namespace {{

template <size_t kCount>
std::string_view At(const std::array<std::string_view, kCount>& texts, size_t index) {{
  return index < kCount ? texts[index] : std::string_view();
}}

template <typename Enum, size_t kCount>
std::optional<Enum> Find(const std::array<std::string_view, kCount>& texts, std::string_view text) {{
  const auto found = std::find(texts.begin(), texts.end(), text);
  if (found == texts.end()) return std::nullopt;
  return static_cast<Enum>(found - texts.begin());
}}

}}  // namespace
{"".join(map(functions, ENUMS))}
}}  // namespace shardscope::words
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    folder = parser.parse_args().out
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in (("words.h", header()), ("words.cc", source())):
        path = folder / name
        if not path.exists() or path.read_text() != text:  # else nothing is rebuilt for it
            path.write_text(text)


if __name__ == "__main__":
    main()
