// Counts the collectives that a program calls, by operation, communicator size and length, for `nearfield run --learn`.
// Rules select algorithms by the same key, so each row names a case that `nearfield tune --collectives` should measure
// for the program. While calls are counted, the MPI library performs all collectives that have a length, and their
// times are those of the MPI's algorithms.
//
// NEARFIELD_COLLECTIVES_LENGTHS names a folder, in which each process writes a file in MPI_Finalize: a line
// "nearfield-lengths 1 RANK RANKS", and a line "OPERATION RANKS NODES BYTES CALLS NANOSECONDS" per row. RANKS in a row
// is the number of ranks on a node, the largest number if the nodes differ. python/nearfield/apply/learn.py reads the
// files.
#pragma once

#include <cstddef>
#include <cstdint>

#include "preload/collectives/selection.hpp"

namespace nearfield::collectives {

// Returns whether this process counts the lengths of its collectives.
bool is_counting_lengths();

// Counts a call of this thread. For a barrier, `bytes` is 0.
void count_call_length(Operation operation, int ranks, int nodes, std::size_t bytes);

// Adds `ns` to the row of the call that this thread has counted last, unless a time was already added for that call.
void add_call_time(std::uint64_t ns);

// Writes the file of this process. `rank` and `ranks` are those of MPI_COMM_WORLD.
void write_call_lengths(int rank, int ranks);

}  // namespace nearfield::collectives
