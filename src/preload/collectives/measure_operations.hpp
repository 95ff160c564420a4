// The collectives that the program nearfield-collectives measures and checks (measure.cpp), on vectors of doubles.
#pragma once

#include <mpi.h>

#include <string>
#include <vector>

namespace nearfield::collectives {

using Doubles = std::vector<double>;

struct OperationBuffers {
  Doubles send, receive;
  int count;  // number of doubles in the vector, or in the block of one rank
  MPI_Comm comm;
  int rank, ranks;  // in `comm`
};

struct MeasuredOperation {
  const char* name;
  bool sends_blocks, receives_blocks;  // the send or receive buffer has a block for each rank
  int (*call)(OperationBuffers&);      // calls the MPI function, with root 0; returns its error code
};

// Returns the operation called `name`, or nullptr.
const MeasuredOperation* find_operation(const std::string& name);

// Returns, by rank, the number of doubles that the rank receives from MPI_Reduce_scatter: `count / ranks` each, plus
// the remainder on rank 0.
std::vector<int> reduce_scatter_counts(int count, int ranks);

// Splits a text at each separator. Returns the parts, some of which may be empty.
std::vector<std::string> split_text(const std::string& text, char separator);

}  // namespace nearfield::collectives
