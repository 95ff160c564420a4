// The connections of an observed process to a live simulation (src/trace/stream/live.hpp). One carries the bytes of the
// stream, as a file would. The other one identifies the rank and carries the simulation's replies.
#pragma once

#include <cstdint>

namespace nearfield::observe {

// Returns the name of the simulation's socket if `where` names one; else nullptr.
const char* simulation_in(const char* where);
// Returns a connection to the simulation; on failure -1, with errno set.
int connect_to(const char* simulation);
// Opens the second connection. Returns it, or -1.
int connect_rank(const char* simulation, int rank, int ranks);
// Writes to a connection or a file. Returns whether everything was written; if not, errno is set.
bool write_whole(int to, const void* data, std::uint64_t bytes);

}  // namespace nearfield::observe
