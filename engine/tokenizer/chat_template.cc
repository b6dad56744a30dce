#include "engine/tokenizer/chat_template.h"

#include <pthread.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <functional>
#include <iterator>
#include <system_error>

#include <minja.hpp>

#include "trace/base/process.h"
#include "trace/base/text.h"

namespace shardscope::tokenizer {
namespace {

constexpr size_t kMaxTemplateBytes = 64 << 10;
constexpr int kMaxBrackets =
    32;  // in one another: minja tries some readings of each again and again
constexpr size_t kMaxBlocks = 64;  // in one another: the time to read them grows with the square
// minja and std::regex call themselves for every level, or byte, of what they read; of this only
// what is used is taken.
constexpr size_t kStackBytes = size_t{512} << 20;
// Of the stack: more than a thousand macros in one another, and less than what sanitizers can
// follow.
constexpr std::ptrdiff_t kMaxRenderBytes = std::ptrdiff_t{4} << 20;
constexpr int64_t kMaxRange = 1'000'000;  // numbers that all calls of range() may give

// Error: there is no thread with such a stack, and nothing was done.
Status OnLargeStack(const std::function<void()>& work) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, kStackBytes);
  pthread_t thread{};
  const int error = pthread_create(
      &thread, &attributes,
      [](void* argument) -> void* {
        (*static_cast<const std::function<void()>*>(argument))();
        return nullptr;
      },
      const_cast<std::function<void()>*>(&work));
  pthread_attr_destroy(&attributes);
  if (error != 0) {
    return Status::Error("the chat template: " +
                         ErrorText(std::system_error(error, std::generic_category())));
  }
  pthread_join(thread, nullptr);
  return Status::Ok();
}

// Not an exception of the library's: at each level minja would write the place into those.
struct TooMuch {
  const char* what;
};

// Not the address of a variable: the address sanitizer keeps those elsewhere.
const char* StackTop() { return static_cast<const char*>(__builtin_frame_address(0)); }

// The names of a conversation. Stops templates that would not end, or take all memory.
class BoundedContext : public minja::Context {
 public:
  // On the thread that renders, near the beginning of its stack.
  explicit BoundedContext(minja::Value values)
      : minja::Context(std::move(values), minja::Context::builtins()), stack_(StackTop()) {
    set("range", minja::Value::callable([this, range = parent_->get("range")](
                                            const std::shared_ptr<minja::Context>& context,
                                            minja::ArgumentsValue& arguments) {
          for (const minja::Value& number : arguments.args) TakeOfRange(number);
          for (const auto& [name, number] : arguments.kwargs) TakeOfRange(number);
          return range.call(context, arguments);
        }));
  }

  // Asked for every name that a macro or a loop does not have itself, above all those of macros.
  bool contains(const minja::Value& key) override {
    if (stack_ - StackTop() > kMaxRenderBytes)
      throw TooMuch{"a macro calls itself again and again"};
    return minja::Context::contains(key);
  }

 private:
  void TakeOfRange(const minja::Value& number) {
    left_of_range_ -= std::abs(std::clamp(number.get<int64_t>(), -kMaxRange, kMaxRange));
    if (left_of_range_ <= 0) throw TooMuch{"range() counts further than a million"};
  }

  const char* const stack_;
  int64_t left_of_range_ = kMaxRange;
};

// minja throws, with the place in the template behind the first line.
Status Guarded(const std::function<void()>& work) {
  std::string error;
  SHARDSCOPE_RETURN_IF_ERROR(OnLargeStack([&] {
    try {
      work();
    } catch (const std::exception& exception) {
      error = exception.what();
      if (error.empty()) error = "an error without a message";
    } catch (const TooMuch& too_much) {
      error = too_much.what;
    }
  }));
  if (error.empty()) return Status::Ok();
  error.resize(std::min(error.size(), error.find('\n')));
  // Which leads over to the place.
  error.resize(error.find_last_not_of(": ") + 1);
  return Status::Error("the chat template: " + Shortened(Printable(error), 300));
}

// How deep brackets nest inside of {{ }} or {% %}.
int DepthOfBrackets(std::string_view source) {
  int depth = 0;
  int deepest = 0;
  for (size_t i = 0; i < source.size(); ++i) {
    const std::string_view two = source.substr(i, 2);
    if (two == "{{" || two == "{%") {
      depth = 0;
      ++i;
    } else if (source[i] == '(' || source[i] == '[' || source[i] == '{') {
      deepest = std::max(deepest, ++depth);
    } else if (source[i] == ')' || source[i] == ']' || source[i] == '}') {
      --depth;
    }
  }
  return deepest;
}

// What is wrong with the blocks of a template; empty: nothing. Those that have an end are looked
// at; `set` has one only sometimes, and does not nest.
std::string BlockError(std::string_view source) {
  constexpr std::string_view kBlocks[] = {"if", "for", "macro", "call", "filter", "generation"};
  std::vector<std::string_view> open;
  for (size_t at = source.find("{%"); at != std::string_view::npos;
       at = source.find("{%", at + 2)) {
    std::string_view tag = source.substr(at + 2);
    tag.remove_prefix(std::min(tag.find_first_not_of("-+ \t\r\n"), tag.size()));
    const std::string_view word = tag.substr(0, tag.find_first_of("-+ \t\r\n(%"));
    const auto is_word = [word](std::string_view block) { return word == block; };
    if (std::any_of(std::begin(kBlocks), std::end(kBlocks), is_word)) {
      // Names that a loop has itself are not asked of BoundedContext.
      const bool is_in_loop = std::find(open.begin(), open.end(), "for") != open.end();
      if (word == "macro" && is_in_loop) return "a macro in a loop: put it in front of the loop";
      if (word == "for" && Contains(tag.substr(0, tag.find("%}")), " recursive"))
        return "a recursive loop: use a macro";
      open.push_back(word);
      if (open.size() > kMaxBlocks)
        return "more than " + std::to_string(kMaxBlocks) + " blocks in one another";
    } else if (word.starts_with("end") && word != "endset" && !open.empty()) {
      open.pop_back();
    }
  }
  return "";
}

std::string RoleOf(const Message& message) {
  for (const auto& [name, value] : message) {
    if (name == "role") return value;
  }
  return "";
}

}  // namespace

struct ChatTemplate::Program {
  std::shared_ptr<minja::TemplateNode> root;
  Tokens tokens;
};

ChatTemplate::ChatTemplate(std::unique_ptr<Program> program) : program_(std::move(program)) {}
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;

ChatTemplate::~ChatTemplate() {
  if (program_ == nullptr || OnLargeStack([this] { program_.reset(); }).ok()) return;
  static_cast<void>(program_.release());  // lost: to free it may take such a stack, too
}

Result<ChatTemplate> ChatTemplate::Parse(const std::string& source, const Tokens& tokens) {
  if (source.size() > kMaxTemplateBytes) {
    return Status::Error("the chat template: it has " + std::to_string(source.size()) +
                         " bytes, more than " + std::to_string(kMaxTemplateBytes));
  }
  if (DepthOfBrackets(source) > kMaxBrackets) {
    return Status::Error("the chat template: more than " + std::to_string(kMaxBrackets) +
                         " brackets in one another");
  }
  const std::string block_error = BlockError(source);
  if (!block_error.empty()) return Status::Error("the chat template: " + block_error);
  auto program = std::make_unique<Program>();
  program->tokens = tokens;
  // transformers' settings of Jinja.
  const minja::Options options{
      .trim_blocks = true, .lstrip_blocks = true, .keep_trailing_newline = false};
  SHARDSCOPE_RETURN_IF_ERROR(
      Guarded([&] { program->root = minja::Parser::parse(source, options); }));
  return ChatTemplate(std::move(program));
}

Result<std::string> ChatTemplate::Render(const std::vector<Message>& messages,
                                         bool add_generation_prompt) const {
  std::string text;
  SHARDSCOPE_RETURN_IF_ERROR(Guarded([&] {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const Message& message : messages) {
      nlohmann::ordered_json& fields = list.emplace_back(nlohmann::ordered_json::object());
      for (const auto& [name, value] : message) fields[name] = value;
    }
    const auto context = std::make_shared<BoundedContext>(nlohmann::ordered_json{
        {"messages", std::move(list)},
        {"add_generation_prompt", add_generation_prompt},
        {"bos_token", program_->tokens.bos},
        {"eos_token", program_->tokens.eos},
    });
    text = program_->root->render(context);
  }));
  return text;
}

Result<std::vector<Span>> ChatTemplate::Spans(const std::vector<Message>& messages) const {
  std::vector<Span> spans;
  std::string written;  // what the spans are together
  const auto add = [&](const std::string& text, bool is_answer) {
    if (!text.starts_with(written)) {
      return Status::Error(
          "the chat template writes the beginning of a conversation differently when more follows: "
          "which part of it is the assistant's cannot be told");
    }
    std::string more = text.substr(written.size());
    const size_t end = is_answer ? more.find_last_not_of(" \t\r\n") + 1 : more.size();
    if (end > 0) spans.push_back({more.substr(0, end), is_answer});
    if (end < more.size()) spans.push_back({more.substr(end), false});
    written = text;
    return Status::Ok();
  };
  bool has_answer = false;
  for (size_t i = 0; i < messages.size(); ++i) {
    if (RoleOf(messages[i]) != "assistant") continue;
    has_answer = true;
    const auto begin = messages.begin();
    const auto place = static_cast<std::ptrdiff_t>(i);
    SHARDSCOPE_ASSIGN_OR_RETURN(const std::string prompt, Render({begin, begin + place}, true));
    SHARDSCOPE_RETURN_IF_ERROR(add(prompt, false));
    SHARDSCOPE_ASSIGN_OR_RETURN(const std::string answered,
                                Render({begin, begin + place + 1}, false));
    SHARDSCOPE_RETURN_IF_ERROR(add(answered, true));
  }
  if (!has_answer) return Status::Error("no message is the assistant's: nothing to learn from it");
  SHARDSCOPE_ASSIGN_OR_RETURN(const std::string whole, Render(messages, false));
  SHARDSCOPE_RETURN_IF_ERROR(add(whole, false));
  return spans;
}

}  // namespace shardscope::tokenizer
