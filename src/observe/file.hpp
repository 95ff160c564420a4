// The stream's file (platform::write_chunk is here as well): chunks, packed by Zstandard's shared library if the machine has it.
#pragma once

#include <cstdint>

namespace nearfield::observe {

// Opens the file of a process that has no rank yet. Returns whether that worked; if not, a message says why.
bool open_file(const char* folder);
// Names the file after the rank.
void name_file(int rank);
// Returns the file that is open.
int descriptor();
// Writes the last chunk and closes the file. Without it, the stream is cut: the process was killed.
void close_file();
// In a child after fork(): the file is its parent's.
void abandon_file();

}  // namespace nearfield::observe
