// The stream's file or connection (platform::write_chunk is here as well): chunks, packed by Zstandard's shared library if the machine has it.
#pragma once

#include <cstdint>

namespace nearfield::observe {

// Opens the file of a process that has no rank yet, in a folder, or connects to a simulation (connection.hpp). Returns
// whether that worked; if not, a message says why.
bool open_file(const char* where);
// Names the file after the rank, or tells the simulation which one of how many it is.
void name_file(int rank, int ranks);
// Returns the file or connection that is open.
int descriptor();
// Returns the connection by which a simulation answers; -1 if there is none.
int answer_descriptor();
// Returns whether a simulation reads the stream while the program runs.
bool goes_to_simulation();
// Writes the last chunk and closes the file. Without it, the stream is cut: the process was killed.
void close_file();
// In a child after fork(): the file is its parent's.
void abandon_file();

}  // namespace nearfield::observe
