// The words in front of the rows of Details, each with what explains it.
#pragma once

#include "ui/terms.h"
#include "ui/text.h"

namespace shardscope::panels {

inline constexpr ui::Term kTermIssued = {ui::Text::kDetailsIssued, ui::Text::kDetailsIssuedTip};
inline constexpr ui::Term kTermReady = {ui::Text::kDetailsReady, ui::Text::kDetailsReadyTip};
inline constexpr ui::Term kTermStarted = {ui::Text::kDetailsStarted, ui::Text::kDetailsStartedTip};
inline constexpr ui::Term kTermLastArrived = {ui::Text::kDetailsLastArrived,
                                              ui::Text::kDetailsLastArrivedTip};
inline constexpr ui::Term kTermFirstArrived = {ui::Text::kDetailsFirstArrived,
                                               ui::Text::kDetailsFirstArrivedTip};
inline constexpr ui::Term kTermCameLast = {ui::Text::kDetailsCameLast,
                                           ui::Text::kDetailsCameLastTip};
inline constexpr ui::Term kTermCameBefore = {ui::Text::kDetailsCameBefore,
                                             ui::Text::kDetailsCameBeforeTip};
inline constexpr ui::Term kTermEnded = {ui::Text::kDetailsEnded, ui::Text::kDetailsEndedTip};
inline constexpr ui::Term kTermFirstWanted = {ui::Text::kDetailsFirstWanted,
                                              ui::Text::kDetailsFirstWantedTip};
inline constexpr ui::Term kTermDuration = {ui::Text::kDetailsDuration,
                                           ui::Text::kDetailsDurationTip};
inline constexpr ui::Term kTermPayloadWire = {ui::Text::kDetailsPayloadWire,
                                              ui::Text::kDetailsPayloadWireTip};
inline constexpr ui::Term kTermBusBandwidth = {ui::Text::kDetailsBusBandwidth,
                                               ui::Text::kDetailsBusBandwidthTip};
inline constexpr ui::Term kTermHiddenUnder = {ui::Text::kDetailsHiddenUnder,
                                              ui::Text::kDetailsHiddenUnderTip};
inline constexpr ui::Term kTermSequence = {ui::Text::kDetailsSequence,
                                           ui::Text::kDetailsSequenceTip};
inline constexpr ui::Term kTermCpuTime = {ui::Text::kDetailsCpuTime, ui::Text::kDetailsCpuTimeTip};
inline constexpr ui::Term kTermSlotWait = {ui::Text::kDetailsSlotWait,
                                           ui::Text::kDetailsSlotWaitTip};
inline constexpr ui::Term kTermBlockedBy = {ui::Text::kDetailsBlockedBy,
                                            ui::Text::kDetailsBlockedByTip};
inline constexpr ui::Term kTermWait = {ui::Text::kWait, ui::Text::kDetailsWaitTip};
inline constexpr ui::Term kTermTransfer = {ui::Text::kTransfer, ui::Text::kDetailsTransferTip};
inline constexpr ui::Term kTermSlack = {ui::Text::kSlack, ui::Text::kDetailsSlackTip};
inline constexpr ui::Term kTermStall = {ui::Text::kStall, ui::Text::kDetailsStallTip};
inline constexpr ui::Term kTermOp = {ui::Text::kWorkOp, ui::Text::kWorkOpTip};
inline constexpr ui::Term kTermLaunched = {ui::Text::kWorkLaunched, ui::Text::kWorkLaunchedTip};
inline constexpr ui::Term kTermLaunchedBy = {ui::Text::kWorkLaunchedBy,
                                             ui::Text::kWorkLaunchedByTip};
inline constexpr ui::Term kTermDelay = {ui::Text::kWorkDelay, ui::Text::kWorkDelayTip};
inline constexpr ui::Term kTermNccl = {ui::Text::kWorkNccl, ui::Text::kWorkNcclTip};
inline constexpr ui::Term kTermGrid = {ui::Text::kWorkGrid, ui::Text::kWorkGridTip};
inline constexpr ui::Term kTermBlock = {ui::Text::kWorkBlock, ui::Text::kWorkBlockTip};
inline constexpr ui::Term kTermCluster = {ui::Text::kWorkCluster, ui::Text::kWorkClusterTip};
inline constexpr ui::Term kTermRegisters = {ui::Text::kWorkRegisters, ui::Text::kWorkRegistersTip};
inline constexpr ui::Term kTermShared = {ui::Text::kWorkShared, ui::Text::kWorkSharedTip};
inline constexpr ui::Term kTermBytes = {ui::Text::kWorkBytes, ui::Text::kWorkBytesTip};
inline constexpr ui::Term kTermStream = {ui::Text::kWorkStream, ui::Text::kWorkStreamTip};
inline constexpr ui::Term kTermThread = {ui::Text::kWorkThread, ui::Text::kWorkThreadTip};
inline constexpr ui::Term kTermChannel = {ui::Text::kWorkChannel, ui::Text::kWorkChannelTip};
inline constexpr ui::Term kTermWaitIncoming = {ui::Text::kWaitIncoming, ui::Text::kWaitIncomingTip};
inline constexpr ui::Term kTermWaitOutgoing = {ui::Text::kWaitOutgoing, ui::Text::kWaitOutgoingTip};

}  // namespace shardscope::panels
