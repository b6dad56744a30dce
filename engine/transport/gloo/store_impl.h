// What Store is made of; for the files that speak to c10d.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "engine/transport/gloo/store.h"

namespace shardscope::transport {

struct Store::Impl {
  c10::intrusive_ptr<c10d::Store> store;
};

}  // namespace shardscope::transport
