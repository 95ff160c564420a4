// Measures the current core-to-core latency from a peer, by timing the load of a cache line that the peer has just
// written.
//
// Eight messages from a new peer are timed, and eight more every two seconds, because virtual CPUs migrate and programs
// are not always pinned. The timed line is Header::tick, which the peer writes whenever it copies a message. If the
// peer has not written it since the last sample, because the peer only sends, eight lines of the message are timed
// instead.
#pragma once

#include <cstddef>

#include "preload/heap/peers.hpp"

namespace nearfield::heap {

// Called once, by the library's constructor.
void start_clock();

// Called before this process reads `bytes` bytes at `message`, which the peer has written. Takes a sample if one is
// due.
void sample_line_latency(Peer& peer, const char* message, std::size_t bytes);

}  // namespace nearfield::heap
