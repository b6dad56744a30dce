#include "app/train/loss_file.h"

#include <fmt/format.h>

#include <utility>

#include "app/say.h"

namespace shardscope::app {

std::string LossLine(const runtime::StepReport& report) {
  return fmt::format("{} {:.17g} {:.17g}\n", report.step, report.loss, report.grad_norm);
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
