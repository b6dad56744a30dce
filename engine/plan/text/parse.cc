#include <string>
#include <utility>

#include "engine/plan/text.h"
#include "engine/plan/text/line.h"
#include "trace/base/text.h"

namespace shardscope::plan {
namespace {

constexpr size_t kFormatVersion = 1;
constexpr int64_t kMaxRanks = 1 << 20;

template <typename Enum>
Enum ParseEnum(const std::string& name, std::string_view what, Line* line) {
  const std::optional<Enum> value = EnumNamed<Enum>(name);
  if (!value) line->Fail("'" + name + "' is no " + std::string(what));
  return value.value_or(Enum());
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
    if (kind == "segment") return ParseSegment(line);
    if (kind == "program") {
      line->Index(schedule_.programs.size());
      schedule_.programs.emplace_back();
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
    schedule_.num_ranks = static_cast<int>(ranks);
    schedule_.num_micro_batches = line->Id("micro_batches", 1);
  }

  void ParseStream(Line* line) {
    line->Index(schedule_.streams.size());
    Stream stream;
    stream.name = line->QuotedString("the stream's name");
    stream.role = EnumField("role", StreamRole::kCompute, line);
    schedule_.streams.push_back(std::move(stream));
  }

  void ParseCommunicator(Line* line) {
    line->Index(schedule_.communicators.size());
    schedule_.communicators.push_back(line->QuotedString("the communicator's name"));
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
    schedule_.units.back().parameters.push_back(std::move(parameter));
  }

  void ParseSegment(Line* line) {
    line->Index(schedule_.segments.size());
    Segment segment;
    segment.name = line->QuotedString("the segment's name");
    segment.unit = line->Id("unit", kNone);
    segment.activation_bytes = line->Number("activation", 0);
    segment.output_bytes = line->Number("output", 0);
    schedule_.segments.push_back(std::move(segment));
  }

  void ParseProgramLine(const std::string& kind, Line* line) {
    if (schedule_.programs.empty()) {
      return line->Fail("'" + kind + "' before the first 'program' line");
    }
    Program& program = schedule_.programs.back();
    if (kind == "op") {
      line->Index(program.ops.size());
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

  Schedule schedule_;
  bool has_header_ = false;
  bool has_ranks_ = false;
};

}  // namespace

Result<Schedule> ParseSchedule(std::string_view text) { return Parser().Parse(text); }

}  // namespace shardscope::plan
