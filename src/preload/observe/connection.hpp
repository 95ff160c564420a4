// The connections of an observed process to a live simulation (src/trace/stream/live.hpp), by Unix sockets. One
// connection carries the bytes of the stream that a file would contain. The other identifies the rank and carries the
// simulation's replies.
#pragma once

#include <cstdint>

namespace nearfield::observe {

// If `target` is "live:NAME", returns NAME, the name of the simulation's socket; nullptr if `target` is a folder.
const char* simulation_name_in(const char* target);
// Connects to the simulation's socket. Returns the socket's descriptor; on failure -1, with errno set.
int connect_to_simulation(const char* simulation);
// Opens the connection for replies, and sends the rank and the number of ranks. Returns the socket's descriptor, or -1.
int connect_rank_to_simulation(const char* simulation, int rank, int ranks);
// Writes all bytes to a connection or a file. Returns false if that fails, with errno set.
bool write_all_bytes(int descriptor, const void* data, std::uint64_t bytes);

}  // namespace nearfield::observe
