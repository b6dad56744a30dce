#include "app/train/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "app/say.h"
#include "trace/base/token_rate.h"
#include "trace/base/units.h"
#include "trace/store/finisher.h"

namespace shardscope::app {
namespace {

constexpr int64_t kPlainLines = 10;  // about so many over a run that is not watched
constexpr int kBarCells = 20;
constexpr auto kFirstFinishing = std::chrono::seconds(1);
constexpr auto kNextFinishing = std::chrono::seconds(5);  // of plain lines

// Not "-nan", as fmt prints what a GPU's or CPU's arithmetic may give.
double WithoutSign(double value) {
  return std::isnan(value) ? std::numeric_limits<double>::quiet_NaN() : value;
}

std::string Bar(int64_t done, int64_t all) {
  const auto cells = static_cast<size_t>(done * kBarCells / std::max<int64_t>(1, all));
  return "[" + std::string(cells, '#') + std::string(kBarCells - cells, '.') + "]";
}

}  // namespace

std::string LossText(const runtime::StepReport& report) {
  return report.counts ? fmt::format("loss {:.4f}", WithoutSign(report.loss)) : "no token counts";
}

std::string ProgressText(const runtime::StepReport& report) {
  const double rate =
      TokensPerSecond(static_cast<double>(report.tokens), static_cast<double>(report.step_ns));
  std::string text = fmt::format("step {} ({} of {})  {}  {} tokens/s  {}", report.step,
                                 report.step + 1, report.steps, LossText(report), FormatCount(rate),
                                 FormatDuration(report.step_ns));
  if (report.communication_ns > 0) {
    text += fmt::format("  exposed communication {} of {}", FormatDuration(report.exposed_ns),
                        FormatDuration(report.communication_ns));
  }
  if (report.peak_bytes > 0) text += "  peak " + FormatBytes(report.peak_bytes);
  return text;
}

TrainProgress::TrainProgress(std::function<void()> on_no_reader)
    : on_no_reader_(std::move(on_no_reader)), is_terminal_(isatty(STDOUT_FILENO) == 1) {}

void TrainProgress::Flush() {
  if (!FlushOutput() && HasNoReader()) on_no_reader_();
}

void TrainProgress::OnStep(const runtime::StepReport& report) {
  if (is_terminal_) {
    // Back to the line's start, and the rest of an earlier, longer line cleared.
    PrintControl("\r");
    Print(Bar(report.step + 1, report.steps) + " " + ProgressText(report));
    PrintControl("\x1b[K");
    Flush();
    line_is_open_ = true;
    return;
  }
  const int64_t every = std::max<int64_t>(1, report.steps / kPlainLines);
  const bool is_last = report.step + 1 == report.steps;
  if (report.step == 0 || (report.step + 1) % every == 0 || is_last) {
    Print(ProgressText(report) + "\n");
    Flush();
  }
}

void TrainProgress::OnMessage(const std::string& text) {
  Close();
  Print(text + "\n");
  Flush();
}

std::string FinishingText(int percent) { return fmt::format("finishing the trace: {} %", percent); }

void TrainProgress::OnFinishing(int percent) {
  const auto now = std::chrono::steady_clock::now();
  if (next_finishing_ == std::chrono::steady_clock::time_point{}) {
    Close();  // the last step's line stays
    next_finishing_ = now + kFirstFinishing;
  }
  if (now < next_finishing_) return;
  if (is_terminal_) {
    PrintControl("\r");
    Print(FinishingText(percent));
    PrintControl("\x1b[K");
    line_is_open_ = true;
  } else {
    Print(FinishingText(percent) + "\n");
    next_finishing_ = now + kNextFinishing;
  }
  Flush();
}

FinishingTold::FinishingTold(TrainProgress* progress) {
  if (progress == nullptr) return;
  store::SetFinishProgress([progress](int percent) { progress->OnFinishing(percent); });
}

FinishingTold::~FinishingTold() { store::SetFinishProgress(nullptr); }

void TrainProgress::Close() {
  if (line_is_open_) Print("\n");
  line_is_open_ = false;
}

std::string LossLine(const runtime::StepReport& report) {
  const double loss = report.counts ? report.loss : std::numeric_limits<double>::quiet_NaN();
  return fmt::format("{} {:.17g} {:.17g}\n", report.step, WithoutSign(loss),
                     WithoutSign(report.grad_norm));
}

Status LossFile::Open(const std::string& path) {
  if (path.empty()) return Status::Ok();
  Result<OutputFile> file = OutputFile::Create(path);
  if (!file.ok()) return Status::Error("--losses: " + file.message());
  file_.emplace(std::move(file).value());
  return Status::Ok();
}

void LossFile::Add(const runtime::StepReport& report) {
  if (!file_ || !status_.ok()) return;
  Status status = file_->Write(LossLine(report));
  if (status.ok()) status = file_->Publish();
  if (status.ok()) return;
  status_ = Status::Error("--losses: " + status.message());
  Say(status_.message() + " (the training goes on)");
}

Status LossFile::Close() {
  if (!file_ || !status_.ok()) return status_;
  const Status status = file_->Close();
  return status.ok() ? status : Status::Error("--losses: " + status.message());
}

}  // namespace shardscope::app
