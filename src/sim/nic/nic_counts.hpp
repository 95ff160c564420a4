// The counters of one or several NICs under one variant.
#pragma once

#include <array>
#include <cstddef>

#include "sim/engine/time_vector.hpp"
#include "sim/memory/access.hpp"

namespace nearfield::sim {

struct NicCounts {
  Count commands = 0;  // posted by cores
  Count events = 0;    // delivered to cores
  std::array<Count, num_memory_speeds> empty_polls{};
  Count read_bytes = 0, written_bytes = 0;  // of payload

  NicCounts& operator+=(const NicCounts& other) {
    commands += other.commands;
    events += other.events;
    for (std::size_t l = 0; l < num_memory_speeds; ++l) empty_polls[l] += other.empty_polls[l];
    read_bytes += other.read_bytes;
    written_bytes += other.written_bytes;
    return *this;
  }
};

}  // namespace nearfield::sim
