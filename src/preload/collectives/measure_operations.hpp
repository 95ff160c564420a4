// The collectives that nearfield-collectives measures and checks (measure.cpp), on vectors of doubles.
#pragma once

#include <mpi.h>

#include <string>
#include <vector>

namespace nearfield::collectives {

using Doubles = std::vector<double>;

struct Buffers {
  Doubles send, receive;
  int count;  // doubles of the vector, or of one rank's block
  MPI_Comm comm;
  int rank, ranks;  // in that communicator
};

struct Operation {
  const char* name;
  bool sends_blocks, receives_blocks;  // whether the buffer has a block for each rank
  int (*call)(Buffers&);               // returns the MPI's error code; the root is rank 0
};

// Returns the operation of that name, or nullptr.
const Operation* find_operation(const std::string& name);

// Returns how many doubles each rank gets from MPI_Reduce_scatter: equal parts, and rank 0 the remainder, too.
std::vector<int> scattered_counts(int count, int ranks);

// Returns the parts of a text between separators.
std::vector<std::string> split(const std::string& text, char separator);

}  // namespace nearfield::collectives
