// Measures how far apart this core and a peer's are now, by the time of a line that the peer has just written.
//
// Measured on the way, in eight messages when a peer is first met and in eight every two seconds, because virtual
// CPUs move and programs are not always bound. What is timed is the line of the peer's header that its owner writes
// at every call (region.hpp); where that did not change, because the peer only sends, a few lines of the message.
#pragma once

#include <cstddef>

#include "heap/peers.hpp"

namespace nearfield::heap {

// Called once, by the library's constructor.
void start_clock();

// Is called before `bytes` at `message`, which the peer has written, are read.
void look_at_distance(Peer& peer, const char* message, std::size_t bytes);

}  // namespace nearfield::heap
