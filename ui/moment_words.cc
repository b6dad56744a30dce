#include "ui/moment_words.h"

#include <string>

#include "ui/text.h"

namespace shardscope::ui {
namespace {

const char* Chinese(Text text) { return Tr(Language::kChinese, text); }

// Kinds that the app has a word for; others go by that of the trace.
std::string ChineseKind(const query::PlanOp& op) {
  switch (op.op_class) {
    case query::OpClass::kForward:
      return Chinese(Text::kForward);
    case query::OpClass::kBackward:
      return Chinese(Text::kBackward);
    case query::OpClass::kRecompute:
      return Chinese(Text::kRecompute);
    case query::OpClass::kOptimizer:
      return Chinese(Text::kOptimizer);
    default:
      return analysis::EnglishMomentWords().kind(op);
  }
}

std::string ChineseCause(const analysis::Stall& stall) {
  return ChineseStallSentence(stall.cause, stall.cause_object);
}

}  // namespace

const analysis::MomentWords& MomentWordsOf(Language language) {
  static const analysis::MomentWords kChinese = [] {
    analysis::MomentWords words{.kind = ChineseKind, .cause = ChineseCause};
    for (size_t at = 0; at < words.phrases.size(); ++at) {
      words.phrases[at] = Chinese(kMomentTexts[at]);
    }
    return words;
  }();
  return language == Language::kChinese ? kChinese : analysis::EnglishMomentWords();
}

}  // namespace shardscope::ui
