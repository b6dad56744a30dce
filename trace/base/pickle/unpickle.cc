#include "trace/base/pickle/unpickle.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "trace/base/text.h"

namespace shardscope::pickle {
namespace {

// Lib/pickletools.py. Opcodes that are not here are of protocol 0 and 1, or ask for more than data.
enum Opcode : uint8_t {
  kMark = '(',
  kStop = '.',
  kPop = '0',
  kPopMark = '1',
  kDup = '2',
  kBinFloat = 'G',
  kBinInt = 'J',
  kBinInt1 = 'K',
  kBinInt2 = 'M',
  kNoneValue = 'N',
  kPersId = 'P',
  kBinPersId = 'Q',
  kReduce = 'R',
  kBinString = 'T',
  kShortBinString = 'U',
  kBinUnicode = 'X',
  kAppend = 'a',
  kBuild = 'b',
  kGlobal = 'c',
  kDictOpcode = 'd',
  kAppends = 'e',
  kBinGet = 'h',
  kInst = 'i',
  kLongBinGet = 'j',
  kListOpcode = 'l',
  kObj = 'o',
  kBinPut = 'q',
  kLongBinPut = 'r',
  kSetItem = 's',
  kTuple = 't',
  kSetItems = 'u',
  kEmptyDict = '}',
  kEmptyList = ']',
  kEmptyTuple = ')',
  kProto = 0x80,
  kNewObj = 0x81,
  kExt1 = 0x82,
  kExt2 = 0x83,
  kExt4 = 0x84,
  kTuple1 = 0x85,
  kTuple2 = 0x86,
  kTuple3 = 0x87,
  kNewTrue = 0x88,
  kNewFalse = 0x89,
  kLong1 = 0x8a,
  kLong4 = 0x8b,
  kBinBytes = 'B',
  kShortBinBytes = 'C',
  kShortBinUnicode = 0x8c,
  kBinUnicode8 = 0x8d,
  kBinBytes8 = 0x8e,
  kEmptySet = 0x8f,
  kAddItems = 0x90,
  kFrozenSet = 0x91,
  kNewObjEx = 0x92,
  kStackGlobal = 0x93,
  kMemoize = 0x94,
  kFrame = 0x95,
  kByteArray8 = 0x96,
  kNextBuffer = 0x97,
  kReadOnlyBuffer = 0x98,
};

// What makes data of data. The names that Python 2 and 3 and LibTorch have for them.
enum Function : uint32_t {
  kMakeBytes,
  kMakeSet,
  kMakeList,
  kMakeDict,
  kEncode,
  kFirstArgument,
  kFirstRecord,  // and all beyond: of UnpickleOptions::names
};

struct KnownFunction {
  std::string_view module;
  std::string_view name;
  Function function;
};

constexpr KnownFunction kKnownFunctions[] = {
    {"builtins", "bytes", kMakeBytes},
    {"__builtin__", "bytes", kMakeBytes},
    {"builtins", "bytearray", kMakeBytes},
    {"__builtin__", "bytearray", kMakeBytes},
    {"builtins", "set", kMakeSet},
    {"__builtin__", "set", kMakeSet},
    {"builtins", "frozenset", kMakeSet},
    {"__builtin__", "frozenset", kMakeSet},
    {"builtins", "list", kMakeList},
    {"__builtin__", "list", kMakeList},
    {"collections", "OrderedDict", kMakeDict},
    {"_codecs", "encode", kEncode},
    // Typed lists of LibTorch's pickler (torch/csrc/jit/serialization/pickler.cpp).
    {"torch.jit._pickle", "build_intlist", kFirstArgument},
    {"torch.jit._pickle", "build_doublelist", kFirstArgument},
    {"torch.jit._pickle", "build_boollist", kFirstArgument},
    {"torch.jit._pickle", "restore_type_tag", kFirstArgument},
};

constexpr uint64_t kMostTextBytes = 0xffffffff;
// References are cheap in a pickle, one byte each: so many are no data.
constexpr size_t kMostOnStack = size_t{1} << 28;

// A name of a pickle, for a message.
std::string Shown(std::string_view name) { return Shortened(Printable(name.substr(0, 512)), 120); }

class Unpickler {
 public:
  Unpickler(std::string bytes, const UnpickleOptions& options)
      : document_(std::move(bytes)), bytes_(document_.bytes()), options_(options) {}

  Result<Document> Run() {
    while (!is_stopped_) {
      opcode_at_ = at_;
      const Status status = Step();
      if (!status.ok()) {
        return Status::Error(fmt::format("{} (byte {})", status.message(), opcode_at_));
      }
    }
    return std::move(document_);
  }

 private:
  Status Step();
  Status StepOnConstant(uint8_t opcode);
  Status StepOnText(uint8_t opcode);
  Status StepOnContainer(uint8_t opcode);
  Status StepOnMemo(uint8_t opcode);
  Status StepOnForbidden(uint8_t opcode);

  // Of the bytes that follow.
  Result<std::string_view> Take(uint64_t size);
  Result<uint64_t> TakeNumber(size_t size);  // little endian
  Result<std::string_view> TakeLine();
  Status TakeText(size_t size_bytes, ValueKind kind);
  Status TakeLong(size_t size_bytes);

  Status Push(Value value);
  Status Need(size_t count) const;
  Value Pop() {
    const Value value = stack_.back();
    stack_.pop_back();
    return value;
  }
  // How many values lie above the last mark, which goes.
  Result<size_t> PopMark();
  Status MakeOf(ValueKind kind, size_t count);
  Status AddTo(std::initializer_list<ValueKind> kinds, size_t count);
  Status Put(uint64_t index);
  Status Get(uint64_t index);
  Status Name(std::string_view module, std::string_view name);
  Status Reduce();
  Status NewObject();
  Status Build();
  Result<Value> MakeRecord(Value function, Value arguments);
  Result<Value> Call(uint32_t function, std::span<const Value> arguments);
  Result<Value> Encoded(std::string_view text);
  // Copies are made of what stands in the pickle once; one that needs more would fill memory.
  Status Spend(size_t bytes) {
    if (bytes > bytes_.size() - copied_bytes_) {
      return Status::Error("this pickle copies the same data again and again: refused");
    }
    copied_bytes_ += bytes;
    return Status::Ok();
  }

  Document document_;
  const std::string_view bytes_;
  const UnpickleOptions options_;
  size_t at_ = 0;
  size_t opcode_at_ = 0;
  size_t copied_bytes_ = 0;
  bool is_stopped_ = false;
  std::vector<Value> stack_;
  std::vector<size_t> marks_;  // how many values lay on the stack
  std::vector<Value> memo_;
  std::unordered_set<uint32_t> records_;             // containers that are objects
  std::unordered_map<uint32_t, Value> class_names_;  // by number of the function
  std::unordered_map<uint64_t, Value> sparse_memo_;  // numbers that no pickler counts to
};

Result<std::string_view> Unpickler::Take(uint64_t size) {
  if (size > bytes_.size() - at_) return Status::Error("the pickle ends in the middle");
  const std::string_view taken = bytes_.substr(at_, size);
  at_ += size;
  return taken;
}

Result<uint64_t> Unpickler::TakeNumber(size_t size) {
  SHARDSCOPE_ASSIGN_OR_RETURN(const std::string_view taken, Take(size));
  uint64_t number = 0;
  for (size_t at = size; at-- > 0;) number = number << 8 | static_cast<uint8_t>(taken[at]);
  return number;
}

Result<std::string_view> Unpickler::TakeLine() {
  const size_t end = bytes_.find('\n', at_);
  if (end == std::string_view::npos) return Status::Error("the pickle ends in the middle");
  const std::string_view line = bytes_.substr(at_, end - at_);
  at_ = end + 1;
  return line;
}

Status Unpickler::TakeText(size_t size_bytes, ValueKind kind) {
  SHARDSCOPE_ASSIGN_OR_RETURN(const uint64_t size, TakeNumber(size_bytes));
  if (size > kMostTextBytes && size <= bytes_.size()) {
    return Status::Error("a text of more than 4 GiB");
  }
  SHARDSCOPE_ASSIGN_OR_RETURN(const std::string_view text, Take(size));
  return Push(Value::Text(text, kind));
}

// Two's complement, little endian, of any length.
Status Unpickler::TakeLong(size_t size_bytes) {
  SHARDSCOPE_ASSIGN_OR_RETURN(const uint64_t size, TakeNumber(size_bytes));
  SHARDSCOPE_ASSIGN_OR_RETURN(std::string_view digits, Take(size));
  const bool is_negative = !digits.empty() && static_cast<uint8_t>(digits.back()) >= 0x80;
  const char sign = is_negative ? '\xff' : '\0';
  // Bytes that only repeat the sign say nothing.
  while (digits.size() > 8 && digits.back() == sign) digits.remove_suffix(1);
  const bool fits =
      digits.size() < 8 ||
      (digits.size() == 8 && (static_cast<uint8_t>(digits.back()) >= 0x80) == is_negative);
  if (fits) {
    uint64_t number = is_negative ? ~uint64_t{0} : 0;
    for (size_t at = digits.size(); at-- > 0;) {
      number = number << 8 | static_cast<uint8_t>(digits[at]);
    }
    return Push(Value::Int(static_cast<int64_t>(number)));
  }
  constexpr size_t kLongestBytes = 128;  // of what a double can hold
  if (digits.size() > kLongestBytes) {
    return Push(Value::Real(is_negative ? -HUGE_VAL : HUGE_VAL));
  }
  double number = is_negative ? -1.0 : 0.0;
  for (size_t at = digits.size(); at-- > 0;) {
    number = number * 256 + static_cast<uint8_t>(digits[at]);
  }
  return Push(Value::Real(number));
}

Status Unpickler::Push(Value value) {
  if (stack_.size() >= kMostOnStack) return Status::Error("too many values on the pickle's stack");
  stack_.push_back(value);
  return Status::Ok();
}

Status Unpickler::Need(size_t count) const {
  const size_t bottom = marks_.empty() ? 0 : marks_.back();
  return stack_.size() - bottom >= count
             ? Status::Ok()
             : Status::Error("the pickle is damaged: it takes more than it has made");
}

Result<size_t> Unpickler::PopMark() {
  if (marks_.empty()) return Status::Error("the pickle is damaged: it ends what it did not begin");
  const size_t count = stack_.size() - marks_.back();
  marks_.pop_back();
  return count;
}

// Puts the uppermost values into a new container.
Status Unpickler::MakeOf(ValueKind kind, size_t count) {
  SHARDSCOPE_ASSIGN_OR_RETURN(const Value made, document_.AddContainer(kind));
  if (count > 0) {
    SHARDSCOPE_RETURN_IF_ERROR(document_.Append(made, std::span(stack_).last(count)));
    stack_.resize(stack_.size() - count);
  }
  return Push(made);
}

// Puts the uppermost values into the container below them.
Status Unpickler::AddTo(std::initializer_list<ValueKind> kinds, size_t count) {
  SHARDSCOPE_RETURN_IF_ERROR(Need(1));
  if (stack_.size() < count + 1) return Need(count + 1);
  const Value to = stack_[stack_.size() - count - 1];
  if (std::find(kinds.begin(), kinds.end(), to.kind()) == kinds.end()) {
    return Status::Error(
        fmt::format("the pickle is damaged: it puts values into {}", Describe(to)));
  }
  if (to.kind() == ValueKind::kDict && count % 2 != 0) {
    return Status::Error("the pickle is damaged: a key without a value");
  }
  SHARDSCOPE_RETURN_IF_ERROR(document_.Append(to, std::span(stack_).last(count)));
  stack_.resize(stack_.size() - count);
  return Status::Ok();
}

Status Unpickler::Put(uint64_t index) {
  SHARDSCOPE_RETURN_IF_ERROR(Need(1));
  if (index < memo_.size()) {
    memo_[index] = stack_.back();
  } else if (index == memo_.size()) {
    memo_.push_back(stack_.back());
  } else {
    sparse_memo_[index] = stack_.back();
  }
  return Status::Ok();
}

Status Unpickler::Get(uint64_t index) {
  if (const auto found = sparse_memo_.find(index); found != sparse_memo_.end()) {
    return Push(found->second);
  }
  if (index >= memo_.size()) {
    return Status::Error(fmt::format("the pickle is damaged: it has no value {}", index));
  }
  return Push(memo_[index]);
}

Status Unpickler::Name(std::string_view module, std::string_view name) {
  for (const KnownFunction& known : kKnownFunctions) {
    if (known.module == module && known.name == name) {
      return Push(Value::Function(known.function));
    }
  }
  for (size_t at = 0; at < options_.names.size(); ++at) {
    const PickledName& known = options_.names[at];
    if (known.module != module || known.name != name) continue;
    switch (known.kind) {
      case PickledName::Kind::kConstant:
        return Push(document_.AddText(fmt::format("{}.{}", module, name)));
      case PickledName::Kind::kArgument:
        return Push(Value::Function(kFirstArgument));
      case PickledName::Kind::kRecord:
        return Push(Value::Function(kFirstRecord + static_cast<uint32_t>(at)));
    }
  }
  return Status::Error(fmt::format("this pickle asks for {}.{}: refused, nothing was run",
                                   Shown(module), Shown(name)));
}

// Protocol 2 has no bytes: they are a text, each byte a character below 256.
Result<Value> Unpickler::Encoded(std::string_view text) {
  SHARDSCOPE_RETURN_IF_ERROR(Spend(text.size()));
  std::string bytes;
  bytes.reserve(text.size());
  for (size_t at = 0; at < text.size(); ++at) {
    const auto byte = static_cast<uint8_t>(text[at]);
    const bool is_pair = (byte == 0xc2 || byte == 0xc3) && at + 1 < text.size();
    if (is_pair) ++at;
    const int first = is_pair ? (byte & 0x03) << 6 : 0;
    bytes += static_cast<char>(is_pair ? first | (static_cast<uint8_t>(text[at]) & 0x3f) : byte);
  }
  return document_.AddText(std::move(bytes), ValueKind::kBytes);
}

Result<Value> Unpickler::Call(uint32_t function, std::span<const Value> arguments) {
  const Value argument = arguments.empty() ? Value() : arguments.front();
  switch (function) {
    case kMakeBytes:
      // bytearray("text", "latin-1"), bytearray(b"..."), bytes()
      if (argument.is_text()) return Encoded(argument.text());
      return Value::Text(argument.text(), ValueKind::kBytes);
    case kEncode:
      return Encoded(argument.text());
    case kFirstArgument:
      return argument;
    default:
      break;
  }
  const ValueKind kind = function == kMakeSet    ? ValueKind::kSet
                         : function == kMakeDict ? ValueKind::kDict
                                                 : ValueKind::kList;
  SHARDSCOPE_ASSIGN_OR_RETURN(const Value made, document_.AddContainer(kind));
  // A copy: adding moves what items refer to.
  const std::span<const Value> items = document_.Items(argument);
  SHARDSCOPE_RETURN_IF_ERROR(Spend(items.size()));
  const std::vector<Value> copy(items.begin(), items.end());
  if (kind != ValueKind::kDict) {
    SHARDSCOPE_RETURN_IF_ERROR(document_.Append(made, copy));
    return made;
  }
  for (const Value& pair : copy) {  // Python 2: OrderedDict([[key, value], ...])
    const std::span<const Value> of_pair = document_.Items(pair);
    if (of_pair.size() != 2) return Status::Error("the pickle is damaged: a key without a value");
    const std::array<Value, 2> both = {of_pair[0], of_pair[1]};
    SHARDSCOPE_RETURN_IF_ERROR(document_.Append(made, both));
  }
  return made;
}

Status Unpickler::Reduce() {
  SHARDSCOPE_RETURN_IF_ERROR(Need(2));
  const Value arguments = Pop();
  const Value function = Pop();
  if (function.kind() != ValueKind::kFunction || arguments.kind() != ValueKind::kTuple) {
    return Status::Error(
        fmt::format("this pickle calls {}: refused, nothing was run", Describe(function)));
  }
  if (function.function() >= kFirstRecord) {
    SHARDSCOPE_ASSIGN_OR_RETURN(const Value record, MakeRecord(function, arguments));
    return Push(record);
  }
  const std::span<const Value> given = document_.Items(arguments);
  const std::vector<Value> copy(given.begin(),
                                given.begin() + std::min<std::ptrdiff_t>(std::ssize(given), 2));
  SHARDSCOPE_ASSIGN_OR_RETURN(const Value made, Call(function.function(), copy));
  return Push(made);
}

Result<Value> Unpickler::MakeRecord(Value function, Value arguments) {
  const PickledName& name = options_.names[function.function() - kFirstRecord];
  SHARDSCOPE_ASSIGN_OR_RETURN(const Value record, document_.AddContainer(ValueKind::kDict));
  Value& class_name = class_names_[function.function()];
  if (class_name.is_none()) {
    class_name = document_.AddText(fmt::format("{}.{}", name.module, name.name));
  }
  const std::array<Value, 4> fields = {Value::Text("class"), class_name, Value::Text("arguments"),
                                       arguments};
  SHARDSCOPE_RETURN_IF_ERROR(document_.Append(record, fields));
  records_.insert(record.container());
  return record;
}

Status Unpickler::NewObject() {
  SHARDSCOPE_RETURN_IF_ERROR(Need(2));
  const Value arguments = Pop();
  const Value function = Pop();
  if (function.kind() != ValueKind::kFunction || function.function() < kFirstRecord ||
      arguments.kind() != ValueKind::kTuple) {
    return Status::Error("this pickle asks for a new object: refused, nothing was run");
  }
  SHARDSCOPE_ASSIGN_OR_RETURN(const Value record, MakeRecord(function, arguments));
  return Push(record);
}

// The state of an object: its fields as a dictionary, or something of its own.
Status Unpickler::Build() {
  SHARDSCOPE_RETURN_IF_ERROR(Need(2));
  const Value state = Pop();
  const Value record = stack_.back();
  if (!record.is_container() || !records_.contains(record.container())) {
    return Status::Error("this pickle asks for the state of an object: refused, nothing was run");
  }
  if (state.kind() != ValueKind::kDict) {
    const std::array<Value, 2> field = {Value::Text("state"), state};
    return document_.Append(record, field);
  }
  const std::span<const Value> items = document_.Items(state);
  SHARDSCOPE_RETURN_IF_ERROR(Spend(items.size()));
  return document_.Append(record, std::vector<Value>(items.begin(), items.end()));
}

Status Unpickler::StepOnConstant(uint8_t opcode) {
  switch (opcode) {
    case kNoneValue:
      return Push(Value());
    case kNewTrue:
    case kNewFalse:
      return Push(Value::Bool(opcode == kNewTrue));
    case kBinInt: {
      SHARDSCOPE_ASSIGN_OR_RETURN(const uint64_t number, TakeNumber(4));
      return Push(Value::Int(static_cast<int32_t>(static_cast<uint32_t>(number))));
    }
    case kBinInt1:
    case kBinInt2: {
      SHARDSCOPE_ASSIGN_OR_RETURN(const uint64_t number, TakeNumber(opcode == kBinInt1 ? 1 : 2));
      return Push(Value::Int(static_cast<int64_t>(number)));
    }
    case kBinFloat: {  // the one number that is big endian
      SHARDSCOPE_ASSIGN_OR_RETURN(const uint64_t reversed, TakeNumber(8));
      const uint64_t bits = __builtin_bswap64(reversed);
      double number = 0;
      std::memcpy(&number, &bits, sizeof number);
      return Push(Value::Real(number));
    }
    case kLong1:
    case kLong4:
      return TakeLong(opcode == kLong1 ? 1 : 4);
    default:
      return StepOnText(opcode);
  }
}

Status Unpickler::StepOnText(uint8_t opcode) {
  switch (opcode) {
    case kShortBinUnicode:
      return TakeText(1, ValueKind::kText);
    case kBinUnicode:
      return TakeText(4, ValueKind::kText);
    case kBinUnicode8:
      return TakeText(8, ValueKind::kText);
    // Texts of Python 2, which LibTorch's pickler may write.
    case kShortBinString:
      return TakeText(1, ValueKind::kText);
    case kBinString:
      return TakeText(4, ValueKind::kText);
    case kShortBinBytes:
      return TakeText(1, ValueKind::kBytes);
    case kBinBytes:
      return TakeText(4, ValueKind::kBytes);
    case kBinBytes8:
    case kByteArray8:
      return TakeText(8, ValueKind::kBytes);
    default:
      return StepOnContainer(opcode);
  }
}

Status Unpickler::StepOnContainer(uint8_t opcode) {
  using enum ValueKind;
  switch (opcode) {
    case kEmptyDict:
      return MakeOf(kDict, 0);
    case kEmptyList:
      return MakeOf(kList, 0);
    case kEmptySet:
      return MakeOf(kSet, 0);
    case kEmptyTuple:
      return MakeOf(ValueKind::kTuple, 0);
    case kTuple1:
    case kTuple2:
    case kTuple3: {
      const size_t count = opcode - kTuple1 + 1;
      SHARDSCOPE_RETURN_IF_ERROR(Need(count));
      return MakeOf(ValueKind::kTuple, count);
    }
    case kAppend:
      SHARDSCOPE_RETURN_IF_ERROR(Need(2));
      return AddTo({kList}, 1);
    case kSetItem:
      SHARDSCOPE_RETURN_IF_ERROR(Need(3));
      return AddTo({kDict}, 2);
    case Opcode::kTuple:
    case kListOpcode:
    case kDictOpcode:
    case kFrozenSet:
    case kAppends:
    case kSetItems:
    case kAddItems:
      break;
    default:
      return StepOnMemo(opcode);
  }
  SHARDSCOPE_ASSIGN_OR_RETURN(const size_t count, PopMark());
  switch (opcode) {
    case Opcode::kTuple:
      return MakeOf(ValueKind::kTuple, count);
    case kListOpcode:
      return MakeOf(kList, count);
    case kFrozenSet:
      return MakeOf(kSet, count);
    case kDictOpcode:
      if (count % 2 != 0) return Status::Error("the pickle is damaged: a key without a value");
      return MakeOf(kDict, count);
    case kAppends:
      return AddTo({kList}, count);
    case kAddItems:
      return AddTo({kSet}, count);
    default:
      return AddTo({kDict}, count);
  }
}

Status Unpickler::StepOnMemo(uint8_t opcode) {
  switch (opcode) {
    case kMemoize:
      return Put(memo_.size());
    case kBinPut:
    case kLongBinPut: {
      SHARDSCOPE_ASSIGN_OR_RETURN(const uint64_t index, TakeNumber(opcode == kBinPut ? 1 : 4));
      return Put(index);
    }
    case kBinGet:
    case kLongBinGet: {
      SHARDSCOPE_ASSIGN_OR_RETURN(const uint64_t index, TakeNumber(opcode == kBinGet ? 1 : 4));
      return Get(index);
    }
    default:
      return StepOnForbidden(opcode);
  }
}

Status Unpickler::StepOnForbidden(uint8_t opcode) {
  const auto refused = [](const std::string& what) {
    return Status::Error(fmt::format("this pickle asks for {}: refused, nothing was run", what));
  };
  switch (opcode) {
    case kInst: {
      SHARDSCOPE_ASSIGN_OR_RETURN(const std::string_view module, TakeLine());
      SHARDSCOPE_ASSIGN_OR_RETURN(const std::string_view name, TakeLine());
      return refused(Shown(module) + "." + Shown(name));
    }
    case kExt1:
    case kExt2:
    case kExt4: {
      const size_t size = opcode == kExt1 ? 1 : opcode == kExt2 ? 2 : 4;
      SHARDSCOPE_ASSIGN_OR_RETURN(const uint64_t number, TakeNumber(size));
      return refused(fmt::format("extension {} of copyreg", number));
    }
    case kPersId: {
      SHARDSCOPE_ASSIGN_OR_RETURN(const std::string_view name, TakeLine());
      return refused("the persistent object " + Shown(name));
    }
    case kBinPersId:
      SHARDSCOPE_RETURN_IF_ERROR(Need(1));
      if (options_.keeps_persistent_ids) return Status::Ok();
      return refused("the persistent object " + Describe(stack_.back()));
    case kNewObj:
      return NewObject();
    case kBuild:
      return Build();
    case kObj:
    case kNewObjEx:
      return refused("a new object");
    case kNextBuffer:
    case kReadOnlyBuffer:
      return refused("a buffer outside of it");
    default:
      return Status::Error(fmt::format(
          "the pickle is damaged, or of a protocol other than 2 to 5: opcode 0x{:02x}", opcode));
  }
}

Status Unpickler::Step() {
  SHARDSCOPE_ASSIGN_OR_RETURN(const uint64_t taken, TakeNumber(1));
  const auto opcode = static_cast<uint8_t>(taken);
  switch (opcode) {
    case kProto: {
      SHARDSCOPE_ASSIGN_OR_RETURN(const uint64_t protocol, TakeNumber(1));
      if (protocol >= 2 && protocol <= 5) return Status::Ok();
      return Status::Error(fmt::format("a pickle of protocol {}: only 2 to 5 are read", protocol));
    }
    case kFrame:  // only says how far to read ahead
      return TakeNumber(8).status();
    case kStop:
      SHARDSCOPE_RETURN_IF_ERROR(Need(1));
      document_.SetRoot(Pop());
      is_stopped_ = true;
      return Status::Ok();
    case kMark:
      if (marks_.size() >= kMostOnStack) return Status::Error("too many marks");
      marks_.push_back(stack_.size());
      return Status::Ok();
    case kPop:
      // Of a mark, where nothing lies on it.
      if (!marks_.empty() && marks_.back() == stack_.size()) return PopMark().status();
      SHARDSCOPE_RETURN_IF_ERROR(Need(1));
      stack_.pop_back();
      return Status::Ok();
    case kPopMark: {
      SHARDSCOPE_ASSIGN_OR_RETURN(const size_t count, PopMark());
      stack_.resize(stack_.size() - count);
      return Status::Ok();
    }
    case kDup:
      SHARDSCOPE_RETURN_IF_ERROR(Need(1));
      return Push(stack_.back());
    case kGlobal: {
      SHARDSCOPE_ASSIGN_OR_RETURN(const std::string_view module, TakeLine());
      SHARDSCOPE_ASSIGN_OR_RETURN(const std::string_view name, TakeLine());
      return Name(module, name);
    }
    case kStackGlobal: {
      SHARDSCOPE_RETURN_IF_ERROR(Need(2));
      const Value name = Pop();
      const Value module = Pop();
      return Name(module.text(), name.text());
    }
    case kReduce:
      return Reduce();
    default:
      return StepOnConstant(opcode);
  }
}

}  // namespace

bool IsPickle(std::string_view head) {
  return head.size() >= 2 && static_cast<uint8_t>(head[0]) == kProto && head[1] >= 2 &&
         head[1] <= 5;
}

Result<Document> Unpickle(std::string bytes, const UnpickleOptions& options) {
  return Unpickler(std::move(bytes), options).Run();
}

}  // namespace shardscope::pickle
