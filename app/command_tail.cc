#include "app/commands.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "app/say.h"
#include "trace/base/units.h"
#include "trace/store/remote/tail_protocol.h"
#include "trace/store/run_files.h"
#include "trace/store/run_source.h"

namespace shardscope::app {
namespace {

constexpr auto kPollTime = std::chrono::milliseconds(50);

struct TailArguments {
  std::string run;
  bool stdio = false;
};

// false: our output takes no more.
bool PrintBatch(const store::RowBatch& batch, store::SourceState state, bool stdio) {
  if (stdio) {
    return PrintExact(store::TailGroup(batch, state)) && FlushOutput();
  }
  for (const schema::StepRow& step : batch.Get<schema::StepRow>()) {
    Print(fmt::format("step {} rank {}: {}, loss {:.4f}, {} tokens\n", step.step, step.rank,
                      FormatDuration(step.end_ns - step.start_ns), step.loss, step.tokens));
  }
  if (state != store::SourceState::kLive) {
    Print(state == store::SourceState::kCut ? "cut: the run was killed, or its folder is gone\n"
                                            : "finished\n");
  }
  return FlushOutput();
}

Status Follow(store::Source* source, bool stdio) {
  while (true) {
    store::RowBatch batch;
    const Result<bool> more = source->Read(&batch);
    if (!more.ok()) return more.status();
    const bool done = source->state() != store::SourceState::kLive && !more.value();
    const store::SourceState state = done ? source->state() : store::SourceState::kLive;
    if ((done || !store::IsEmpty(batch)) && !PrintBatch(batch, state, stdio)) return Status::Ok();
    if (done) return Status::Ok();
    if (!more.value()) std::this_thread::sleep_for(kPollTime);
  }
}

Status RunTail(const TailArguments& arguments) {
  const Result<store::RunFiles> run = store::FindRun(arguments.run);
  if (!run.ok()) return run.status();
  Result<std::unique_ptr<store::RunSource>> source = store::RunSource::Open(run.value());
  if (!source.ok()) return source.status();
  if (arguments.stdio) PrintExact(store::TailHello(run.value().name));
  return Follow(source.value().get(), arguments.stdio);
}

}  // namespace

void AddTailCommand(CLI::App& app, int* exit_code) {
  CLI::App* command = app.add_subcommand("tail", "Follow a run until it ends");
  const auto arguments = std::make_shared<TailArguments>();
  command->add_option("run", arguments->run, "Run folder or trace file; it may still be running")
      ->required()
      ->type_name("RUN");
  command->add_flag("--stdio", arguments->stdio,
                    "All rows as lines of JSON, for another machine (through ssh)");
  command->callback([arguments, exit_code] {
    const Status status = RunTail(*arguments);
    // The other end reads only our output.
    if (!status.ok() && arguments->stdio) PrintExact(store::TailError(status.message()));
    *exit_code = EndCommand("tail", status);
  });
}

}  // namespace shardscope::app
