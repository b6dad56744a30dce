// SilenceWatch: notices that another tool took CUPTI's buffers over. PyTorch's profiler can
// register callbacks of its own over ours, without an error here: then launches go on and no buffer
// comes.
//
// Counting launches costs a call of ours in each, so it is asked for only when no buffer has come
// for a while. One thread.
#pragma once

#include <cstdint>

namespace shardscope::cupti {

class SilenceWatch {
 public:
  explicit SilenceWatch(int64_t silence_ns) : silence_ns_(silence_ns) {}

  // With the numbers so far: of buffers that CUPTI asked for or gave back, and of launches counted.
  // Called once a while; before the first call there was nothing.
  void Look(int64_t now_ns, int64_t buffers, int64_t launches) {
    if (!started_ || buffers != buffers_) {
      started_ = true;
      buffers_ = buffers;
      last_buffer_ns_ = now_ns;
      counts_launches_ = is_silent_ = false;
      first_launch_ns_ = 0;
      return;
    }
    if (is_silent_) return;
    if (counts_launches_ && launches > launches_ && first_launch_ns_ == 0)
      first_launch_ns_ = now_ns;
    if (first_launch_ns_ > 0 && now_ns - first_launch_ns_ >= silence_ns_) {
      is_silent_ = true;
      counts_launches_ = false;
    } else if (!counts_launches_ && now_ns - last_buffer_ns_ >= silence_ns_) {
      counts_launches_ = true;
      launches_ = launches;
    }
  }

  // Whether launches are to be counted now.
  bool counts_launches() const { return counts_launches_; }
  // Launches went on for the whole time without a buffer. Ends with the next buffer.
  bool is_silent() const { return is_silent_; }

 private:
  const int64_t silence_ns_;
  bool started_ = false;
  int64_t buffers_ = 0;
  int64_t launches_ = 0;  // when counting began
  int64_t last_buffer_ns_ = 0;
  int64_t first_launch_ns_ = 0;  // seen while counting; 0: none
  bool counts_launches_ = false;
  bool is_silent_ = false;
};

}  // namespace shardscope::cupti
