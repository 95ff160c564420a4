// The file or the connection to which the stream of this process is written. Also defines platform::write_chunk
// (process_stream.hpp), which compresses chunks if the host has libzstd.so.1.
#pragma once

#include <cstdint>

namespace nearfield::observe {

// Opens a file in the folder `target`, named after the host and the process ID, since the rank is not known yet; or
// connects to a simulation (connection.hpp). If that fails, prints the reason and returns false.
bool open_stream_file(const char* target);
// Renames the file to rank-N.nfs, or opens the reply connection to the simulation and sends the rank and the number of
// ranks.
void assign_rank_to_stream(int rank, int ranks);
// Returns the descriptor of the stream's file or connection; -1 if none is open.
int stream_descriptor();
// Returns the descriptor of the connection on which a live simulation replies; -1 if there is none.
int reply_descriptor();
// Returns whether a live simulation, rather than a file, receives the stream.
bool is_read_by_simulation();
// Writes the last chunk and closes the file or connection. A stream without a last chunk is truncated, because the
// process was killed.
void close_stream_file();
// Closes the descriptors without writing. Called in a child after fork(), since the stream belongs to the parent.
void close_inherited_stream_file();

}  // namespace nearfield::observe
