// Pace: when the window draws. Input has the first look in every turn of the loop and is answered
// at once; new rows and what moves by itself are rationed by what a frame costs, so that where
// frames are slow at least half of the time is free for input.
#pragma once

#include <atomic>

namespace shardscope::shell {

// What Pace needs of the window and of what is shown in it.
class PaceHost {
 public:
  virtual ~PaceHost() = default;
  virtual double Now() = 0;  // seconds
  // Takes what input there is; first waits until some comes, Wake() is called, or `seconds` are
  // over.
  virtual void TakeInput(double seconds) = 0;
  virtual bool HasInput() = 0;   // taken, and not yet answered by a frame
  virtual bool IsClosing() = 0;  // no further frame is wanted
  virtual void Wake() = 0;       // any thread
  // How long nothing has to be looked after; 0: something moves.
  virtual double SecondsUntilPoll() = 0;
  virtual bool Poll() = 0;  // true: there is something new to show
};

class Pace {
 public:
  // `data_seconds`: from one frame for new rows to the next, at least.
  Pace(PaceHost* host, double data_seconds) : host_(*host), data_seconds_(data_seconds) {}

  // Any thread: there are new rows.
  void WakeForData();

  // Around each frame.
  void BeginFrame();
  void EndFrame();

  // After a frame: takes input, and returns when the next frame is due or the window closes.
  void Wait();

 private:
  bool IsInterrupted() { return host_.IsClosing() || host_.HasInput(); }
  // Until `due`, or until an input comes: the frame that follows shows all that is new.
  void WaitForFrame(double due);
  // No sooner comes a frame that no input waits for.
  double RestedAt() const;

  PaceHost& host_;
  const double data_seconds_;
  std::atomic<bool> data_pending_{false};
  std::atomic<bool> rationing_{false};
  double frame_start_ = 0;
  double frame_end_ = 0;
};

}  // namespace shardscope::shell
