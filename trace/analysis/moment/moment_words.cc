#include "trace/analysis/moment/moment_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "trace/base/units.h"

namespace shardscope::analysis {
namespace {

const std::string& PhraseOf(const MomentWords& words, MomentPhrase phrase) {
  return words.phrases[static_cast<size_t>(phrase)];
}

template <typename... Args>
std::string Fill(const MomentWords& words, MomentPhrase phrase, const Args&... args) {
  return fmt::format(fmt::runtime(PhraseOf(words, phrase)), args...);
}

std::string Listed(const std::vector<std::string>& parts, const std::string& between) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : between) + part;
  return text;
}

std::string OpWords(const query::PlanOp& op, const MomentWords& words, bool is_communication) {
  const std::string kind = words.kind(op);
  std::string object = op.segment.empty() ? op.unit : op.segment;
  if (object.empty()) return kind;
  if (op.micro_batch > 0) object = fmt::format("m{} {}", op.micro_batch, object);
  return Fill(words, is_communication ? MomentPhrase::kTheOp : MomentPhrase::kOp, kind, object);
}

std::string NamesOf(const std::vector<RunningOp>& ops, const MomentWords& words) {
  std::vector<std::string> names;
  for (const RunningOp& running : ops) names.push_back(OpWords(*running.op, words, false));
  return Listed(names, PhraseOf(words, MomentPhrase::kAnd));
}

std::string Progress(const RunningOp& running, const MomentWords& words) {
  const std::string name = OpWords(*running.op, words, true);
  if (running.awaited_rank >= 0)
    return Fill(words, MomentPhrase::kAwaitsRank, name, running.awaited_rank);
  return Fill(words, MomentPhrase::kShare, name, FormatPercent(running.done));
}

// What the rank's compute is about, before its communication is told.
std::string Clause(const RankMoment& moment, const MomentWords& words) {
  switch (moment.state) {
    case RankState::kNothing:
      return Fill(words, MomentPhrase::kNothing, moment.rank);
    case RankState::kBetweenSteps:
      return Fill(words, MomentPhrase::kBetween, moment.rank);
    case RankState::kComputes:
      return Fill(words, MomentPhrase::kComputes, moment.rank, NamesOf(moment.compute, words));
    case RankState::kWaitsForSlot:
      return Fill(words, MomentPhrase::kWaitsSlot, moment.rank);
    case RankState::kWaits:
    case RankState::kNoCompute:
      break;
  }
  if (moment.copies.empty()) return Fill(words, MomentPhrase::kNoCompute, moment.rank);
  return Fill(words, MomentPhrase::kCopies, moment.rank, NamesOf(moment.copies, words));
}

std::string WaitSentence(const RankMoment& moment, const MomentWords& words) {
  const auto under_way =
      std::find_if(moment.communication.begin(), moment.communication.end(),
                   [&](const RunningOp& it) { return it.op_run == moment.stall->blocking_op_run; });
  const bool has_begun = under_way != moment.communication.end();
  std::string text =
      has_begun ? Fill(words, MomentPhrase::kWaits, moment.rank, Progress(*under_way, words))
                : Fill(words, MomentPhrase::kWaitsUnbegun, moment.rank,
                       OpWords(*moment.awaited, words, true));
  if (moment.exposes()) text = Fill(words, MomentPhrase::kExposed, text);
  return Fill(words, MomentPhrase::kBecause, text, words.cause(*moment.stall));
}

std::string KindWord(const query::PlanOp& op) {
  std::string word = op.kind;
  std::replace(word.begin(), word.end(), '_', '-');
  return word;
}

}  // namespace

const MomentWords& EnglishMomentWords() {
  static const MomentWords kWords = {
      .phrases =
          {
              " and ",
              "{} of {}",
              "the {} of {}",
              "{} ({} done)",
              "{} (rank {} has not come)",
              "rank {} computes {}",
              "rank {} computes nothing",
              "rank {} runs {}",
              "rank {} waits for {}",
              "rank {} waits for {}, which has not begun",
              "rank {} waits for a compute slot",
              "rank {} is between two steps",
              "nothing of rank {} is recorded here",
              "{} while {} is under way, hidden behind it",
              "{} while {} are under way, hidden behind it",
              "{} while {} is under way: exposed",
              "{} while {} are under way: exposed",
              "{}: exposed",
              "{}; {}",
          },
      .kind = KindWord,
      .cause = [](const Stall& stall) { return stall.sentence; },
  };
  return kWords;
}

std::string MomentSentence(const RankMoment& moment, const MomentWords& words) {
  if (moment.state == RankState::kWaits) return WaitSentence(moment, words);
  const std::string clause = Clause(moment, words);
  if (moment.communication.empty()) return clause;
  std::vector<std::string> under_way;
  for (const RunningOp& running : moment.communication) {
    under_way.push_back(Progress(running, words));
  }
  const bool one = under_way.size() == 1;
  const MomentPhrase hidden = one ? MomentPhrase::kHiddenOne : MomentPhrase::kHiddenMany;
  const MomentPhrase exposed = one ? MomentPhrase::kExposedOne : MomentPhrase::kExposedMany;
  return Fill(words, moment.hides() ? hidden : exposed, clause,
              Listed(under_way, PhraseOf(words, MomentPhrase::kAnd)));
}

}  // namespace shardscope::analysis
