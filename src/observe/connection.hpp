// The connections of an observed process to the simulation that goes on meanwhile (src/stream/live.hpp): one takes the
// bytes of the stream, those of a file; the other one says which rank it is, and brings the simulation's answers.
#pragma once

#include <cstdint>

namespace nearfield::observe {

// Returns the name of the simulation's socket if that is where the stream goes; else nullptr.
const char* simulation_in(const char* where);
// Returns a connection to the simulation; -1 if there is none, and errno says why.
int connect_to(const char* simulation);
// Makes the second connection. Returns it, or -1.
int connect_rank(const char* simulation, int rank, int ranks);
// Writes to a connection or a file. Returns whether all was written; if not, errno says why.
bool write_whole(int to, const void* data, std::uint64_t bytes);

}  // namespace nearfield::observe
