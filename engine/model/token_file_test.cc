#include "engine/model/token_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "engine/model/byte_tokenizer_test_util.h"
#include "engine/model/data.h"

namespace shardscope::model {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr uint32_t kEnd = 256;
constexpr uint32_t kAsk = 257;
constexpr uint32_t kAnswer = 258;

std::shared_ptr<const tokenizer::Tokenizer> Made(const tokenizer::TokenizerFiles& files) {
  const auto tokenizer = tokenizer::Tokenizer::Parse(files);
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.message();
  return *tokenizer;
}

class TokenFileTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("tokens-" + std::to_string(getpid()));
    fs::create_directories(folder_ / "data");
    options_ = {.tokenizer = Made(ByteTokenizer()),
                .cache = (folder_ / "cache").string(),
                .max_cache_bytes = 1 << 20};
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string Write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / "data" / name, std::ios::binary) << text;
    return (folder_ / "data" / name).string();
  }
  Result<Corpus> Load() { return LoadTokens((folder_ / "data").string(), options_); }
  std::string ErrorOf(const std::string& name, const std::string& text) {
    const auto file = TokenFile::Open({Write(name, text)}, options_);
    return file.ok() ? "none" : file.message();
  }
  std::vector<fs::path> CacheFiles() const {
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(folder_ / "cache")) {
      if (entry.path().extension() == ".tokens") files.push_back(entry.path());
    }
    return files;
  }
  static std::vector<uint32_t> Ids(const Corpus& corpus) {
    return {corpus.tokens.begin(), corpus.tokens.end()};
  }

  fs::path folder_;
  TokenizeOptions options_;
};

TEST_F(TokenFileTest, FilesAndLinesAreDocumentsThatEndWithTheEndOfText) {
  Write("a.txt", "ab");
  Write("b.jsonl", "{\"text\":\"c\"}\n\n{\"text\":\"d<e>\"}\r\n");
  Write("c.bin", std::string("x\0y", 3));
  Write("d.txt", "");
  const Result<Corpus> corpus = Load();
  ASSERT_TRUE(corpus.ok()) << corpus.message();
  EXPECT_EQ(Ids(*corpus), (std::vector<uint32_t>{'a', 'b', kEnd, 'c', kEnd, 'd', kEnd}));
  EXPECT_EQ(corpus->num_documents, 3);
  EXPECT_EQ(corpus->num_files, 3);
  EXPECT_FALSE(corpus->is_masked);
  options_.format = DataFormat::kText;
  EXPECT_EQ(Load()->num_documents, 2);  // the lines are one text
}

TEST_F(TokenFileTest, OfConversationsTheLossCountsWhatTheAssistantSays) {
  Write("a.jsonl",
        R"({"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"xy"},
{"role":"user","content":"r"},{"role":"assistant","content":"z"}]})"
        "\n");
  EXPECT_NE(Load().message().find("line 1: it is no JSON"), std::string::npos);  // it has two lines
  Write("a.jsonl", R"({"messages":[{"role":"user","content":"q","name":null},)"
                   R"({"role":"assistant","content":"xy"},{"role":"user","content":"r"},)"
                   R"({"role":"assistant","content":"z"}]})");
  const Result<Corpus> corpus = Load();
  ASSERT_TRUE(corpus.ok()) << corpus.message();
  constexpr uint32_t kNot = kNotCounted;
  EXPECT_EQ(Ids(*corpus),
            (std::vector<uint32_t>{kAsk | kNot, 'q' | kNot, '\n' | kNot, kAnswer | kNot, 'x', 'y',
                                   '\n' | kNot, kAsk | kNot, 'r' | kNot, '\n' | kNot,
                                   kAnswer | kNot, 'z', '\n' | kNot, kEnd | kNot}));
  EXPECT_TRUE(corpus->is_masked);
}

// As transformers has it: the newline of the header and the answer's are one token.
TEST_F(TokenFileTest, ATokenThatReachesIntoAnAnswerCounts) {
  tokenizer::TokenizerFiles files = ByteTokenizer();
  Json json = Json::parse(files.tokenizer);
  const std::string newline = "\u010a";
  json["model"]["vocab"][newline + newline] = 259;
  json["model"]["vocab"][newline + newline + newline] = 260;
  json["model"]["merges"] =
      Json::array({Json::array({newline, newline}), Json::array({newline + newline, newline})});
  const Json split = {{"type", "Split"},
                      {"pattern", {{"Regex", R"(\p{L}+|\s*[\r\n]+|\s+)"}}},
                      {"behavior", "Isolated"}};
  const Json bytes = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
  json["pre_tokenizer"] = {{"type", "Sequence"}};
  json["pre_tokenizer"]["pretokenizers"] = Json::array({split, bytes});
  files.tokenizer = json.dump();
  files.chat_template =
      "{% for m in messages %}{{ ('<a>' if m.role == 'assistant' else '<u>') + '\n' + m.content + "
      "'<e>' + '\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<a>\n' }}{% endif %}";
  options_.tokenizer = Made(files);
  Write("a.jsonl", R"({"messages":[{"role":"user","content":"q"},)"
                   R"({"role":"assistant","content":"\n\nhi"}]})");
  const Result<Corpus> corpus = Load();
  ASSERT_TRUE(corpus.ok()) << corpus.message();
  constexpr uint32_t kNot = kNotCounted;
  EXPECT_EQ(Ids(*corpus),
            (std::vector<uint32_t>{kAsk | kNot, '\n' | kNot, 'q' | kNot, kEnd | kNot, '\n' | kNot,
                                   kAnswer | kNot, 260, 'h', 'i', kEnd, '\n' | kNot, kEnd | kNot}));
}

TEST_F(TokenFileTest, WhatIsWrongIsSaidWithFileAndLine) {
  const auto has = [&](const std::string& text, const std::string& part) {
    const std::string error = ErrorOf("x.jsonl", "{\"text\":\"a\"}\n" + text);
    EXPECT_NE(error.find("x.jsonl, line 2: "), std::string::npos) << error;
    EXPECT_NE(error.find(part), std::string::npos) << error;
  };
  has("{\"text\":", "it is no JSON");
  has("{\"text\":\"\xff\"}", "it is no JSON");
  has("[]", "an object with \"text\" or \"messages\"");
  has("{\"text\":1}", "an object with \"text\" or \"messages\"");
  has(R"({"messages":[{"role":"user","content":"q"}]})", "no message is the assistant's");
  has(R"({"messages":[{"role":"user"}]})", "\"role\" and \"content\"");
  has(R"({"messages":[{"role":"user","content":"q"},{"role":"assistant","content":null}]})",
      "\"content\" of message 2 is null");
  has(R"({"messages":[{"role":"user","content":["image"]}]})",
      "\"content\" of a message is no text");
  EXPECT_NE(ErrorOf("x.txt", "a\xff").find("no UTF-8 at byte 1"), std::string::npos);
  EXPECT_TRUE(CacheFiles().empty());  // nothing half made
  fs::remove_all(folder_ / "data");
  fs::create_directories(folder_ / "data");
  Write("empty.txt", "");
  EXPECT_NE(Load().message().find("has no text in it"), std::string::npos);
  tokenizer::TokenizerFiles files = ByteTokenizer();
  files.config = "{}";
  options_.tokenizer = Made(files);
  EXPECT_NE(ErrorOf("x.txt", "a").find("names no eos_token"), std::string::npos);
  files.folder = "/some/where";
  options_.tokenizer = Made(files);
  EXPECT_NE(ErrorOf("x.txt", "a").find("/some/where/tokenizer_config.json names no eos_token"),
            std::string::npos);
  files.config = "";
  options_.tokenizer = Made(files);
  EXPECT_NE(ErrorOf("x.txt", "a").find("/some/where/tokenizer_config.json is not there"),
            std::string::npos);
  files.config = R"({"eos_token":"<e>"})";
  options_.tokenizer = Made(files);
  EXPECT_NE(ErrorOf("x.jsonl", R"({"messages":[]})")
                .find("need a chat template, and /some/where/tokenizer_config.json has none"),
            std::string::npos);
  const std::string chat = R"({"messages":[{"role":"assistant","content":"a"}]})";
  files.chat_template = "{{ raise_exception('only users') }}";
  options_.tokenizer = Made(files);
  std::string error = ErrorOf("x.jsonl", chat);
  EXPECT_NE(error.find("x.jsonl, line 1: the chat template in /some/where/chat_template.jinja: "),
            std::string::npos)
      << error;
  EXPECT_NE(error.find("only users"), std::string::npos) << error;
  files.chat_template = "";
  files.config = R"({"eos_token":"<e>","chat_template":"{{ a"})";
  options_.tokenizer = Made(files);
  error = ErrorOf("x.jsonl", chat);
  EXPECT_NE(error.find("the chat template in /some/where/tokenizer_config.json: "),
            std::string::npos)
      << error;
}

TEST_F(TokenFileTest, WhatKilledProcessesWereWritingIsRemoved) {
  const auto partial_of = [&](pid_t process) {
    return fs::path(options_.cache) / (".shardscope-" + std::to_string(process) + "-1.partial");
  };
  const fs::path gone = partial_of(std::numeric_limits<pid_t>::max());
  const fs::path living = partial_of(getppid());
  fs::create_directories(options_.cache);
  for (const fs::path& path : {gone, living}) std::ofstream(path) << "x";
  ASSERT_TRUE(TokenFile::Open({Write("a.txt", "abc")}, options_).ok());
  EXPECT_FALSE(fs::exists(gone));
  EXPECT_TRUE(fs::exists(living));
}

TEST_F(TokenFileTest, TheCacheIsUsedAgainUnlessAnythingHasChanged) {
  const std::string path = Write("a.txt", "abc");
  const auto first = TokenFile::Open({path}, options_);
  ASSERT_TRUE(first.ok()) << first.message();
  ASSERT_EQ(CacheFiles().size(), 1u);
  const fs::path cached = CacheFiles().front();
  struct stat before {};
  struct stat after {};
  ASSERT_EQ(stat(cached.c_str(), &before), 0);
  ASSERT_TRUE(TokenFile::Open({path}, options_).ok());
  ASSERT_EQ(stat(cached.c_str(), &after), 0);
  EXPECT_EQ(before.st_ino, after.st_ino);  // not written again
  Write("a.txt", "abd");                   // the same length, perhaps the same second
  const auto changed = TokenFile::Open({path}, options_);
  EXPECT_EQ((*changed)->tokens()[2], uint32_t{'d'});
  EXPECT_EQ(CacheFiles().size(), 2u);
  tokenizer::TokenizerFiles files = ByteTokenizer();
  files.config = R"({"eos_token":"<u>"})";
  options_.tokenizer = Made(files);
  EXPECT_EQ((*TokenFile::Open({path}, options_))->tokens()[3], kAsk);
  EXPECT_EQ(CacheFiles().size(), 3u);
  EXPECT_EQ((*first)->tokens()[2], uint32_t{'c'});  // still mapped
}

TEST_F(TokenFileTest, TellsHowMuchIsTokenised) {
  std::string words;
  for (int i = 0; i < 10'000; ++i) words += " word";
  std::string lines;
  for (int i = 0; i < 10'000; ++i) lines += "{\"text\": \"one word\"}\n";
  const std::vector<std::string> files = {Write("a.txt", words), Write("b.jsonl", lines),
                                          Write("c.txt", words)};
  const auto all = static_cast<int64_t>(2 * words.size() + lines.size());
  std::vector<int64_t> told;
  options_.on_progress = [&](int64_t done, int64_t of) {
    EXPECT_EQ(of, all);
    told.push_back(done);
  };
  const auto file = TokenFile::Open(files, options_);
  ASSERT_TRUE(file.ok()) << file.message();
  ASSERT_GT(told.size(), 6u);
  EXPECT_EQ(told.front(), 0);
  EXPECT_TRUE(std::is_sorted(told.begin(), told.end()));
  EXPECT_LE(told.back(), all);
  EXPECT_GT(told.back(), all - static_cast<int64_t>(words.size()));
  // Of each file more than once: as one of a few words it would be said of none.
  const auto first = static_cast<int64_t>(words.size());
  EXPECT_GT(std::ranges::count_if(told, [&](int64_t done) { return 0 < done && done < first; }), 1);
  EXPECT_GT(
      std::ranges::count_if(told, [&](int64_t done) { return first < done && done < all - first; }),
      1);
  // Known tokens are not made again.
  told.clear();
  ASSERT_TRUE(TokenFile::Open(files, options_).ok());
  EXPECT_TRUE(told.empty());
}

TEST_F(TokenFileTest, TokensAndTokenizerHaveAChecksumEach) {
  Write("a.txt", "abc");
  const Corpus first = *Load();
  EXPECT_EQ(first.content.size(), 16u);
  EXPECT_EQ(first.tokenizer.size(), 16u);
  Write("a.txt", "abd");
  EXPECT_NE(Load()->content, first.content);
  EXPECT_EQ(Load()->tokenizer, first.tokenizer);
  Write("a.txt", "abc");
  tokenizer::TokenizerFiles files = ByteTokenizer();
  files.config = R"({"eos_token":"<u>"})";  // other tokens, of the same ids
  options_.tokenizer = Made(files);
  EXPECT_NE(Load()->content, first.content);
  EXPECT_EQ(Load()->tokenizer, first.tokenizer);
}

TEST_F(TokenFileTest, ADamagedFileOfTheCacheIsMadeAgain) {
  const std::string path = Write("a.txt", "abc");
  ASSERT_TRUE(TokenFile::Open({path}, options_).ok());
  const fs::path cached = CacheFiles().front();
  for (const bool cut : {true, false}) {
    if (cut) {
      fs::resize_file(cached, fs::file_size(cached) - 4);
    } else {
      std::fstream(cached, std::ios::in | std::ios::out | std::ios::binary) << "zz";
    }
    const auto again = TokenFile::Open({path}, options_);
    ASSERT_TRUE(again.ok()) << again.message();
    EXPECT_EQ((*again)->tokens()[0], uint32_t{'a'});
    EXPECT_EQ((*again)->tokens().size(), 4u);
  }
}

TEST_F(TokenFileTest, TheCacheIsBounded) {
  options_.max_cache_bytes = 3000;
  for (int i = 0; i < 8; ++i) {
    ASSERT_TRUE(
        TokenFile::Open({Write("a.txt", std::string(200, static_cast<char>('a' + i)))}, options_)
            .ok());
  }
  uintmax_t bytes = 0;
  for (const fs::path& file : CacheFiles()) bytes += fs::file_size(file);
  EXPECT_LE(bytes, 3000u);
  EXPECT_GE(CacheFiles().size(), 2u);
  options_.cache = "/proc/no-folder";
  EXPECT_NE(ErrorOf("b.txt", "b").find("data.cache: cannot write to /proc/no-folder"),
            std::string::npos);
}

}  // namespace
}  // namespace shardscope::model
