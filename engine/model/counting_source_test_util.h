// Counts what is read of a source of parameters.
#pragma once

#include <atomic>
#include <memory>
#include <utility>

#include "engine/model/initialize.h"

namespace shardscope::model {

class CountingSource final : public ParameterSource {
 public:
  explicit CountingSource(std::shared_ptr<const ParameterSource> source)
      : source_(std::move(source)) {}

  void Read(const plan::Parameter& parameter, int64_t first,
            const at::Tensor& values) const override {
    source_->Read(parameter, first, values);
    elements_read_ += values.numel();
  }
  void WillRead(const plan::Parameter& parameter, int64_t first, int64_t count) const override {
    source_->WillRead(parameter, first, count);
    elements_announced_ += count;
  }
  void HasRead(const plan::Parameter& parameter, int64_t first, int64_t count) const override {
    source_->HasRead(parameter, first, count);
  }

  int64_t elements_read() const { return elements_read_; }
  int64_t elements_announced() const { return elements_announced_; }

 private:
  const std::shared_ptr<const ParameterSource> source_;
  mutable std::atomic<int64_t> elements_read_ = 0;
  mutable std::atomic<int64_t> elements_announced_ = 0;
};

}  // namespace shardscope::model
