// The stream's file or connection; also defines platform::write_chunk. Chunks are compressed if the host has
// Zstandard's shared library.
#pragma once

#include <cstdint>

namespace nearfield::observe {

// Opens the file of a process without a rank, in a folder, or connects to a simulation (connection.hpp). Returns
// whether that succeeded; if not, a message gives the reason.
bool open_file(const char* where);
// Renames the file to the rank's, or sends the simulation the rank and the number of ranks.
void name_file(int rank, int ranks);
// Returns the open file or connection.
int descriptor();
// Returns the connection on which a simulation replies; -1 if there is none.
int reply_descriptor();
// Returns whether a live simulation reads the stream.
bool goes_to_simulation();
// Writes the last chunk and closes the file. A stream without it is truncated: the process was killed.
void close_file();
// Called in a child after fork(), since the file belongs to its parent.
void abandon_file();

}  // namespace nearfield::observe
