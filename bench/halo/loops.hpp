// Sweeps of loops.cpp in its three builds: five, seven and 27 points.
#pragma once

#include <array>
#include <cstdint>

namespace bench {

/// This rank's part of a field, from its first cell; strides in elements.
struct Cells {
  double* first;
  std::array<std::int64_t, 3> strides, extents;
  double* row(std::int64_t i, std::int64_t j) const { return first + i * strides[0] + j * strides[1]; }
};

using Sweep = void (*)(const Cells& from, const Cells& to);

namespace restricted {
extern const Sweep sweeps[3];
}
namespace unrestricted {
extern const Sweep sweeps[3];
}
namespace scalar {
extern const Sweep sweeps[3];
}

}  // namespace bench
