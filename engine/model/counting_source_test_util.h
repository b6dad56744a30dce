// Counts what is read of a source of parameters.
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <utility>

#include "engine/model/initialize.h"

namespace shardscope::model {

class CountingSource final : public ParameterSource {
 public:
  explicit CountingSource(std::shared_ptr<const ParameterSource> source)
      : source_(std::move(source)) {}

  void Read(const plan::Parameter& parameter, int64_t first,
            std::span<double> values) const override {
    source_->Read(parameter, first, values);
    elements_read_ += static_cast<int64_t>(values.size());
  }

  int64_t elements_read() const { return elements_read_; }

 private:
  const std::shared_ptr<const ParameterSource> source_;
  mutable std::atomic<int64_t> elements_read_ = 0;
};

}  // namespace shardscope::model
