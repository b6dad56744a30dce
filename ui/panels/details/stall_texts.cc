#include "ui/panels/details/stall_texts.h"

namespace shardscope::panels {

StallTexts StallTextsOf(words::StallCause cause) {
  using ui::Text;
  using words::StallCause;
  switch (cause) {
    case StallCause::kFirstGather:
      return {{Text::kAreaFirstGather, Text::kAreaFirstGatherTip}, Text::kRemedyFirstGather};
    case StallCause::kQueuedBehind:
      return {{Text::kAreaQueuedBehind, Text::kAreaQueuedBehindTip}, Text::kRemedyQueuedBehind};
    case StallCause::kLateRank:
      return {{Text::kAreaLateRank, Text::kAreaLateRankTip}, Text::kRemedyLateRank};
    case StallCause::kBubble:
      return {{Text::kAreaBubble, Text::kAreaBubbleTip}, Text::kRemedyBubble};
    case StallCause::kOnPath:
      return {{Text::kAreaOnPath, Text::kAreaOnPathTip}, Text::kRemedyOnPath};
    case StallCause::kIssuedLate:
      return {{Text::kAreaIssuedLate, Text::kAreaIssuedLateTip}, Text::kRemedyIssuedLate};
    case StallCause::kSlowTransfer:
      return {{Text::kAreaSlowTransfer, Text::kAreaSlowTransferTip}, Text::kRemedySlowTransfer};
    case StallCause::kTail:
      return {{Text::kAreaTail, Text::kAreaTailTip}, Text::kRemedyTail};
    case StallCause::kSlot:
      return {{Text::kAreaSlot, Text::kAreaSlotTip}, Text::kRemedySlot};
    case StallCause::kOther:
      break;
  }
  return {{Text::kAreaOther, Text::kAreaOtherTip}, Text::kRemedyOther};
}

}  // namespace shardscope::panels
