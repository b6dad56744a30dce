#include "engine/plan/text.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trace/base/parse_number.h"
#include "trace/base/status.h"
#include "trace/base/text.h"

namespace shardscope::plan {
namespace {

bool IsSpace(char c) { return c == ' ' || c == '\t' || c == '\r'; }

// One line of the text form, taken apart word by word. Reading stops at the first problem:
// afterwards every getter returns its default, and Finish() tells the problem. So a caller reads a
// whole line and looks once.
class Line {
 public:
  Line(std::string_view text, int number) : number_(number) { Split(text); }

  bool empty() const { return words_.empty(); }
  int number() const { return number_; }

  // The next positional word, or "" with an error that names what was expected.
  std::string Word(std::string_view expected) {
    const Part* part = NextPositional(expected);
    return part != nullptr ? part->value : "";
  }

  // The next positional word, a quoted string without its quotes.
  std::string QuotedString(std::string_view expected) {
    const Part* part = NextPositional(expected);
    if (part == nullptr) return "";
    if (!part->quoted) {
      Fail("expected " + std::string(expected) + " in quotes, found '" + part->value + "'");
    }
    return part->value;
  }

  // A positional index that must be `expected`: entries are numbered from 0 without gaps.
  void Index(size_t expected) {
    const std::string word = Word("index " + std::to_string(expected));
    if (word != std::to_string(expected)) {
      Fail("expected index " + std::to_string(expected) + ", found '" + word + "'");
    }
  }

  // A positional number that names an op.
  int32_t OpNumber() {
    const int64_t number = ParseNumber("op", Word("the op's number")).value_or(0);
    if (number >= 0 && number <= std::numeric_limits<int32_t>::max()) {
      return static_cast<int32_t>(number);
    }
    Fail("'op' is out of range");
    return 0;
  }

  // Fields "key=value", in any order.
  int64_t Number(std::string_view key, int64_t default_value) {
    const std::optional<std::string> text = Field(key);
    return text ? ParseNumber(key, *text).value_or(default_value) : default_value;
  }

  int32_t Id(std::string_view key, int32_t default_value) {
    const int64_t number = Number(key, default_value);
    if (number >= std::numeric_limits<int32_t>::min() &&
        number <= std::numeric_limits<int32_t>::max()) {
      return static_cast<int32_t>(number);
    }
    Fail("'" + std::string(key) + "' is out of range");
    return default_value;
  }

  template <typename Int>
  std::vector<Int> List(std::string_view key) {
    std::vector<Int> values;
    const std::optional<std::string> text = Field(key);
    if (!text) return values;
    for (const std::string_view item : shardscope::Split(*text, ',')) {
      const std::optional<int64_t> number = ParseNumber(key, item);
      if (!number) return {};
      if (*number > std::numeric_limits<Int>::max() || *number < std::numeric_limits<Int>::min()) {
        Fail("'" + std::string(key) + "' is out of range");
        return {};
      }
      values.push_back(static_cast<Int>(*number));
    }
    return values;
  }

  std::optional<std::string> Field(std::string_view key) {
    for (Part& part : words_) {
      if (part.used || part.key != key) continue;
      part.used = true;
      return part.value;
    }
    return std::nullopt;
  }

  void Fail(const std::string& what) {
    if (status_.ok()) status_ = Status::Error("line " + std::to_string(number_) + ": " + what);
  }

  // An error if anything failed, or if a word of the line was not asked for.
  Status Finish() {
    for (const Part& part : words_) {
      if (part.used) continue;
      Fail("'" + (part.key.empty() ? part.value : part.key + "=" + part.value) +
           "' is not expected here");
    }
    return status_;
  }

 private:
  struct Part {
    std::string key;  // empty for a positional word
    std::string value;
    bool quoted = false;
    bool used = false;
  };
  void Split(std::string_view text) {
    size_t at = 0;
    while (at < text.size() && text[at] != '#') {
      if (IsSpace(text[at])) {
        ++at;
        continue;
      }
      Part part;
      if (text[at] == '"') {
        part.quoted = true;
        for (++at; at < text.size() && text[at] != '"'; ++at) {
          const bool escaped = text[at] == '\\' && at + 1 < text.size();
          if (escaped) ++at;
          part.value += escaped && text[at] == 'n' ? '\n' : text[at];
        }
        if (at == text.size()) return Fail("a string without a closing quote");
        ++at;
      } else {
        const size_t begin = at;
        while (at < text.size() && !IsSpace(text[at])) ++at;
        const std::string_view word = text.substr(begin, at - begin);
        const size_t equals = word.find('=');
        if (equals == std::string_view::npos) {
          part.value = word;
        } else {
          part.key = word.substr(0, equals);
          part.value = word.substr(equals + 1);
        }
      }
      words_.push_back(std::move(part));
    }
  }

  const Part* NextPositional(std::string_view expected) {
    for (Part& part : words_) {
      if (part.used || !part.key.empty()) continue;
      part.used = true;
      return &part;
    }
    Fail("expected " + std::string(expected) + ", found the end of the line");
    return nullptr;
  }

  std::optional<int64_t> ParseNumber(std::string_view key, std::string_view text) {
    if (const auto number = ParseInteger<int64_t>(text)) return number;
    Fail("expected a number for '" + std::string(key) + "', found '" + std::string(text) + "'");
    return std::nullopt;
  }

  int number_;
  std::vector<Part> words_;
  Status status_;
};

constexpr size_t kFormatVersion = 1;
constexpr int64_t kMaxRanks = 1 << 20;

// The value of `Enum` whose Name() is `name`.
template <typename Enum>
Enum ParseEnum(const std::string& name, std::string_view what, Line* line) {
  for (uint8_t value = 0; !Name(static_cast<Enum>(value)).empty(); ++value) {
    if (Name(static_cast<Enum>(value)) == name) return static_cast<Enum>(value);
  }
  line->Fail("'" + name + "' is no " + std::string(what));
  return Enum();
}

template <typename Enum>
Enum EnumField(std::string_view key, Enum default_value, Line* line) {
  const std::optional<std::string> name = line->Field(key);
  return name ? ParseEnum<Enum>(*name, key, line) : default_value;
}

bool BoolField(std::string_view key, Line* line) {
  const int64_t value = line->Number(key, 0);
  if (value != 0 && value != 1) line->Fail("'" + std::string(key) + "' must be 0 or 1");
  return value == 1;
}

std::vector<Dependency> Dependencies(Line* line) {
  std::vector<Dependency> dependencies;
  const std::optional<std::string> text = line->Field("wait");
  if (!text) return dependencies;
  for (const std::string_view item : Split(*text, ',')) {
    const size_t colon = item.find(':');
    const std::string kind(item.substr(0, colon));
    Dependency dependency;
    dependency.kind = ParseEnum<DependencyKind>(kind, "kind of wait", line);
    if (colon == std::string_view::npos) {
      line->Fail("expected KIND:INDEX in 'wait', found '" + std::string(item) + "'");
      break;
    }
    Line target("target=" + std::string(item.substr(colon + 1)), 0);
    dependency.target = target.Id("target", kNone);
    if (!target.Finish().ok()) {
      line->Fail("expected a number after '" + kind + ":' in 'wait', found '" + std::string(item) +
                 "'");
    }
    dependencies.push_back(dependency);
  }
  return dependencies;
}

Op ParseOp(Line* line) {
  Op op;
  op.kind = ParseEnum<OpKind>(line->Word("a kind of op"), "kind of op", line);
  op.phase = EnumField("phase", Phase::kForward, line);
  op.micro_batch = line->Id("mb", kNone);
  op.unit = line->Id("unit", kNone);
  op.segment = line->Id("segment", kNone);
  op.stream = line->Id("stream", 0);
  op.communicator = line->Id("comm", kNone);
  op.peer = line->Id("peer", kNone);
  op.root = line->Id("root", kNone);
  op.dtype = EnumField("dtype", DType::kFp32, line);
  op.payload_bytes = line->Number("payload", 0);
  op.wire_bytes = line->Number("wire", 0);
  op.allocates = line->List<int32_t>("alloc");
  op.reads = line->List<int32_t>("read");
  op.writes = line->List<int32_t>("write");
  op.frees = line->List<int32_t>("free");
  op.dependencies = Dependencies(line);
  return op;
}

Buffer ParseBuffer(Line* line) {
  Buffer buffer;
  buffer.kind = ParseEnum<BufferKind>(line->Word("a kind of buffer"), "kind of buffer", line);
  buffer.unit = line->Id("unit", kNone);
  buffer.segment = line->Id("segment", kNone);
  buffer.micro_batch = line->Id("mb", kNone);
  buffer.bytes = line->Number("bytes", 0);
  buffer.persistent = BoolField("persistent", line);
  buffer.slot = line->Id("slot", kNone);
  return buffer;
}

class Parser {
 public:
  Result<Schedule> Parse(std::string_view text) {
    int number = 0;
    for (const std::string_view raw : Split(text, '\n')) {
      Line line(raw, ++number);
      if (!line.empty()) ParseLine(&line);
      SHARDSCOPE_RETURN_IF_ERROR(line.Finish());
    }
    SHARDSCOPE_RETURN_IF_ERROR(ResolveWaits());
    if (!has_header_) return Status::Error("no schedule here: the text has no 'schedule' line");
    if (!has_ranks_) {
      return Status::Error("the schedule is cut off: it has no 'rank_programs' line");
    }
    return std::move(schedule_);
  }

 private:
  void ParseLine(Line* line) {
    const std::string kind = line->Word("the kind of line");
    if (kind == "schedule") return ParseHeader(line);
    if (!has_header_) return line->Fail("expected 'schedule' first, found '" + kind + "'");
    if (kind == "stream") return ParseStream(line);
    if (kind == "communicator") return ParseCommunicator(line);
    if (kind == "unit") return ParseUnit(line);
    if (kind == "parameter") return ParseParameter(line);
    if (kind == "state") return ParseState(line);
    if (kind == "segment") return ParseSegment(line);
    if (kind == "program") {
      line->Index(schedule_.programs.size());
      schedule_.programs.emplace_back();
      numbers_.emplace_back();
      return;
    }
    if (kind == "rank_programs") return ParseRanks(line);
    if (kind == "buffer" || kind == "op") return ParseProgramLine(kind, line);
    line->Fail("'" + kind + "' is no kind of line");
  }

  void ParseHeader(Line* line) {
    if (std::exchange(has_header_, true)) return line->Fail("a second 'schedule' line");
    line->Index(kFormatVersion);
    schedule_.name = line->QuotedString("the schedule's name");
    const int64_t ranks = line->Number("ranks", 1);
    if (ranks < 1 || ranks > kMaxRanks) return line->Fail("'ranks' is out of range");
    schedule_.mesh = MeshOf(MeshDimension::kShard, static_cast<int>(ranks));
    ParseMesh(static_cast<int32_t>(ranks), line);
    schedule_.num_micro_batches = line->Id("micro_batches", 1);
  }

  // Sizes in the order of MeshDimension.
  void ParseMesh(int32_t ranks, Line* line) {
    const std::vector<int32_t> sizes = line->List<int32_t>("mesh");
    if (sizes.empty()) return;
    if (sizes.size() != kNumMeshDimensions) {
      return line->Fail("'mesh' needs " + std::to_string(kNumMeshDimensions) + " sizes");
    }
    int64_t product = 1;
    for (size_t dimension = 0; dimension < sizes.size(); ++dimension) {
      if (sizes[dimension] < 1 || sizes[dimension] > ranks) {
        return line->Fail("a size of 'mesh' is out of range");
      }
      product = std::min(product * sizes[dimension], kMaxRanks + 1);
      schedule_.mesh.sizes[dimension] = sizes[dimension];
    }
    if (product != ranks) {
      line->Fail("the sizes of 'mesh' multiply to other than " + std::to_string(ranks) + " ranks");
      schedule_.mesh = MeshOf(MeshDimension::kShard, ranks);
    }
  }

  void ParseStream(Line* line) {
    if (schedule_.streams.size() == kMostStreams) {
      return line->Fail("a schedule has at most " + std::to_string(kMostStreams) + " streams");
    }
    line->Index(schedule_.streams.size());
    Stream stream;
    stream.name = line->QuotedString("the stream's name");
    stream.role = EnumField("role", StreamRole::kCompute, line);
    schedule_.streams.push_back(std::move(stream));
  }

  void ParseCommunicator(Line* line) {
    line->Index(schedule_.communicators.size());
    Communicator communicator;
    communicator.name = line->QuotedString("the communicator's name");
    if (const std::optional<std::string> dimensions = line->Field("dimensions")) {
      communicator.dimensions = 0;
      for (const std::string_view name : Split(*dimensions, ',')) {
        communicator.dimensions |=
            Only(ParseEnum<MeshDimension>(std::string(name), "dimension of the mesh", line));
      }
    }
    communicator.run = line->Id("run", 0);
    schedule_.communicators.push_back(std::move(communicator));
  }

  void ParseUnit(Line* line) {
    line->Index(schedule_.units.size());
    Unit unit;
    unit.name = line->QuotedString("the unit's name");
    unit.is_root = BoolField("root", line);
    schedule_.units.push_back(std::move(unit));
  }

  void ParseParameter(Line* line) {
    if (schedule_.units.empty()) return line->Fail("a parameter before the first unit");
    Parameter parameter;
    parameter.name = line->QuotedString("the parameter's name");
    parameter.shape = line->List<int64_t>("shape");
    parameter.split = EnumField("tensor", TensorSplit::kWhole, line);
    parameter.row_parts = line->Id("parts", 1);
    if (parameter.row_parts < 1) line->Fail("'parts' is out of range");
    parameter.is_frozen = BoolField("frozen", line);
    schedule_.units.back().parameters.push_back(std::move(parameter));
  }

  // One line a tensor, or "none"; without any it is the default.
  void ParseState(Line* line) {
    if (!std::exchange(has_state_, true)) schedule_.optimizer_state.clear();
    const std::string name = line->Word("the name of a state tensor, or none");
    if (name == "none") return;
    schedule_.optimizer_state.push_back({name, EnumField("form", StateForm::kMaster, line)});
  }

  void ParseSegment(Line* line) {
    line->Index(schedule_.segments.size());
    Segment segment;
    segment.name = line->QuotedString("the segment's name");
    segment.units = line->List<int32_t>("unit");
    segment.activation_bytes = line->Number("activation", 0);
    segment.output_bytes = line->Number("output", 0);
    segment.stage = line->Id("stage", 0);
    segment.is_split = BoolField("split", line);
    segment.norm_bytes = line->Number("norm", 0);
    segment.hidden_bytes = line->Number("hidden", 0);
    segment.frozen_units = line->List<int32_t>("frozen");
    schedule_.segments.push_back(std::move(segment));
  }

  void ParseProgramLine(const std::string& kind, Line* line) {
    if (schedule_.programs.empty()) {
      return line->Fail("'" + kind + "' before the first 'program' line");
    }
    Program& program = schedule_.programs.back();
    if (kind == "op") {
      const int32_t op = line->OpNumber();
      const bool is_new =
          numbers_.back().ops.emplace(op, static_cast<OpIndex>(program.ops.size())).second;
      if (!is_new) line->Fail("a second op " + std::to_string(op) + " of this program");
      numbers_.back().lines.push_back(line->number());
      program.ops.push_back(ParseOp(line));
    } else {
      line->Index(program.buffers.size());
      program.buffers.push_back(ParseBuffer(line));
    }
  }

  void ParseRanks(Line* line) {
    if (std::exchange(has_ranks_, true)) return line->Fail("a second 'rank_programs' line");
    schedule_.program_of_rank = line->List<int32_t>("ranks");
  }

  // An op's number is its name: what waits for it names it so, wherever its line stands.
  Status ResolveWaits() {
    for (size_t index = 0; index < schedule_.programs.size(); ++index) {
      std::vector<Op>& ops = schedule_.programs[index].ops;
      for (size_t at = 0; at < ops.size(); ++at) {
        for (Dependency& dependency : ops[at].dependencies) {
          if (dependency.kind == DependencyKind::kStream) continue;
          const auto found = numbers_[index].ops.find(dependency.target);
          if (found == numbers_[index].ops.end()) {
            return Status::Error("line " + std::to_string(numbers_[index].lines[at]) +
                                 ": waits for op " + std::to_string(dependency.target) +
                                 ", which is not in this program");
          }
          dependency.target = found->second;
        }
      }
    }
    return Status::Ok();
  }

  struct Numbers {
    std::map<int32_t, OpIndex> ops;  // where the op of a number stands
    std::vector<int> lines;          // by op
  };

  Schedule schedule_;
  std::vector<Numbers> numbers_;  // by program
  bool has_header_ = false;
  bool has_ranks_ = false;
  bool has_state_ = false;
};

}  // namespace

Result<Schedule> ParseSchedule(std::string_view text) { return Parser().Parse(text); }

}  // namespace shardscope::plan
