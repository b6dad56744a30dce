// LiveRecorder: the Recorder that writes a live trace file.
//
// Locks: threads_mutex_ guards the list of rings (taken once a thread), result_mutex_ what the
// writer tells. Recording takes neither, nor those of its parts.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "trace/base/mutex.h"
#include "trace/record/batch_writer.h"
#include "trace/record/rare_rows.h"
#include "trace/record/recorder.h"
#include "trace/record/recording_window.h"
#include "trace/record/thread_rings.h"
#include "trace/record/writer_calls.h"

namespace shardscope::record {

class LiveRecorder final : public Recorder {
 public:
  LiveRecorder(const RecorderOptions& options, std::unique_ptr<BatchWriter> batches);
  // Without Finish() the live file stays, and is finished as `cut` when it is opened.
  ~LiveRecorder() override;

  // Writes meta, config and the first capability rows, then starts the writer thread.
  Status Start(const RecorderOptions& options);

  schema::StringId AddString(std::string_view text) override { return rare_.Intern(text); }
  void MakeRoom() override;
  void SetWindow(bool recording) override { window_.Set(recording); }
  bool WasRecording(int64_t time_ns) const override { return window_.WasOpen(time_ns); }
  std::map<std::string, int64_t> Dropped() const override;
  Status WriterStatus() const override;
  Status Flush() override;
  Status Finish() override;
  std::string path() const override;

 private:
  friend class Recorder;  // calls Take()

  int64_t AddRow(RareRow row) override;
  template <typename T>
  void Take(const T& record);
  ThreadRings& MyRings();
  std::vector<ThreadRings*> AllRings() const;

  Status GiveUp(const std::string& reason);
  void WriterThread();
  void WriteUntilStopped();
  void StopThread();
  // Writer thread only: drains what is there when it is called.
  void Drain();
  // What was lost, where the disk is full to the end.
  void WriteLosses();
  void NoteLosses();
  void SetError(const Status& status);
  void AddClockPair();
  // Adds capability rows for what was lost since the last call.
  void ReportLosses();
  std::string_view SourceOf(size_t kind) const;
  void AddEngineSources();

  const uint64_t key_;  // never reused, unlike `this`: what threads find their rings by
  const size_t ring_records_;
  const std::string source_;  // of kinds without one of their own
  RareRows rare_;
  const std::unique_ptr<BatchWriter> batches_;  // writer thread
  bool last_failed_ = false;                    // the last batch; writer thread
  RecordingWindow window_;
  std::atomic<bool> finished_ = false;
  std::atomic<bool> thread_failed_ = false;

  mutable Mutex threads_mutex_;
  std::map<std::thread::id, std::unique_ptr<ThreadRings>> threads_ GUARDED_BY(threads_mutex_);

  WriterCalls calls_;

  mutable Mutex result_mutex_;
  Status status_ GUARDED_BY(result_mutex_);
  HotCounts lost_by_writer_ GUARDED_BY(result_mutex_) = {};
  std::string path_ GUARDED_BY(result_mutex_);

  // What was lost, by why, as of the last capability rows; writer thread.
  struct Reported {
    HotCounts rings = {}, bound = {}, errors = {};
  };
  Reported reported_;
  std::thread thread_;
};

}  // namespace shardscope::record
