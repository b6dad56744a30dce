#include "ui/panels/details/wait_text.h"

#include <algorithm>

namespace shardscope::panels {
namespace {

using timeline::StreamWait;
using ui::Text;

constexpr size_t kMostRows = 4;

DetailRow RowOf(const StreamWait& wait, ui::Language language) {
  const timeline::WaitEnd& other = wait.incoming ? wait.from : wait.to;
  DetailRow row{wait.incoming ? "waited_event" : "awaited_event",
                wait.incoming ? Text::kWaitIncoming : Text::kWaitOutgoing,
                other.name,
                {},
                ""};
  if (wait.differs()) {
    const bool extra = wait.verdict == StreamWait::Verdict::kExtra;
    row.value = ui::TrFormat(language, extra ? Text::kWaitExtra : Text::kWaitMissing, other.name);
    row.tone = DetailRow::Tone::kBad;
  }
  if (other.id < 0) return row;
  if (other.is_op) {
    row.link = ui::SelectOp{other.id, other.rank};
  } else {
    row.link = ui::SelectSpan{other.id, other.rank};
  }
  return row;
}

}  // namespace

std::vector<DetailRow> WaitRows(const std::vector<StreamWait>& waits, ui::Language language) {
  std::vector<StreamWait> ordered = waits;
  std::stable_sort(ordered.begin(), ordered.end(), [](const StreamWait& a, const StreamWait& b) {
    return std::pair(!a.differs(), !a.incoming) < std::pair(!b.differs(), !b.incoming);
  });
  std::vector<DetailRow> rows;
  for (size_t at = 0; at < std::min(kMostRows, ordered.size()); ++at) {
    rows.push_back(RowOf(ordered[at], language));
  }
  return rows;
}

std::string WaitMeaning(const std::vector<StreamWait>& waits, ui::Language language) {
  const auto differs = std::find_if(waits.begin(), waits.end(),
                                    [](const StreamWait& wait) { return wait.differs(); });
  if (differs == waits.end()) return "";
  const bool extra = differs->verdict == StreamWait::Verdict::kExtra;
  return ui::TrFormat(language, extra ? Text::kWaitExtraMeaning : Text::kWaitMissingMeaning,
                      differs->to.name, differs->from.name);
}

}  // namespace shardscope::panels
