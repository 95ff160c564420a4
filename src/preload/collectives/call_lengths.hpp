// Counts the collectives that a program calls, by operation, communicator and length, for `nearfield run --learn`. The
// key is what rules select by, so that a row says which cells of `nearfield tune --collectives` the program needs. While
// calls are counted, the MPI library does all collectives that have a length, and their times are the MPI's.
//
// NEARFIELD_COLLECTIVES_LENGTHS names a folder, in which each process writes a file at MPI_Finalize: a line
// "nearfield-lengths 1 RANK RANKS", and a line "OPERATION RANKS NODES BYTES CALLS NANOSECONDS" per row. RANKS is the
// number of ranks on a node, the largest one if they differ. python/nearfield/apply/learn.py reads it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "preload/collectives/selection.hpp"

namespace nearfield::collectives {

// Returns whether this process counts.
bool counts_lengths();

// Counts a call of this thread. A barrier has no length.
void count_length(Operation operation, int ranks, int nodes, std::size_t bytes);

// Adds the time of the call that this thread counted last, if that has none yet.
void add_time(std::uint64_t ns);

// Writes the file.
void write_lengths(int rank, int ranks);

}  // namespace nearfield::collectives
