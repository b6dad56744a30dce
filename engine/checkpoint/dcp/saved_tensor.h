// One tensor as torch.save() writes it (torch/serialization.py): a zip archive without compression,
// in which a pickle says how the elements lie. Read where they lie, from mapped files, which is why
// no library unpacks them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "trace/base/status.h"

namespace shardscope::checkpoint {

// The elements, in row-major order. Errors: another dtype or other sizes, not contiguous,
// compressed, not little-endian, damaged, or more than data.
Result<std::span<const std::byte>> SavedTensorBytes(std::span<const std::byte> archive,
                                                    const std::string& dtype,
                                                    const std::vector<int64_t>& sizes);

}  // namespace shardscope::checkpoint
