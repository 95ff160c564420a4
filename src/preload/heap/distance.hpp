// Measures the current core-to-core latency from a peer, by timing the load of a cache line that the peer has just
// written.
//
// Eight messages from a new peer are timed, and eight more every two seconds, because virtual CPUs migrate and programs
// are not always pinned. The timed cache line is that of HeapFileHeader::tick, which the peer writes whenever it copies
// a message. If the peer only sends, and so has not written that line since the last sample, eight lines of the message
// are timed instead.
#pragma once

#include <cstddef>

#include "preload/heap/peers.hpp"

namespace nearfield::heap {

// Called once, by the library's constructor: records the reference by which clock ticks are converted to nanoseconds.
void start_tick_clock();

// Called before this process reads `bytes` bytes at `message`, which the peer has written. Takes a sample if one is
// due.
void sample_line_latency(Peer& peer, const char* message, std::size_t bytes);

}  // namespace nearfield::heap
