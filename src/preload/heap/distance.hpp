// Measures the current core-to-core latency to a peer, by timing a line that the peer has just written.
//
// It is sampled in eight messages when a peer is first met and in eight every two seconds, because virtual CPUs migrate
// and programs are not always bound. The timed line is the one in the peer's header that its owner writes at every call
// (region.hpp); if that has not changed, because the peer only sends, a few lines of the message are timed.
#pragma once

#include <cstddef>

#include "preload/heap/peers.hpp"

namespace nearfield::heap {

// Called once, by the library's constructor.
void start_clock();

// Called before `bytes` at `message`, which the peer has written, are read.
void sample_line_latency(Peer& peer, const char* message, std::size_t bytes);

}  // namespace nearfield::heap
