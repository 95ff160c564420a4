// Replays a recorded collective operation by MPICH's algorithms in sim/mpi/collectives.
//
// Non-contiguous data is packed before, and unpacked after, an algorithm for contiguous data; MPICH itself sends
// derived datatypes in some of these algorithms. Reductions are treated as commutative, and combine words of 8 bytes.
// Not modeled: intercommunicators.
#pragma once

#include <vector>

#include "sim/mpi/collective.hpp"
#include "sim/run/replay/datatype.hpp"

namespace nearfield::sim::replay {

// One buffer argument of a collective: `count` elements at an address of the recorded process.
struct BufferArgument {
  const Datatype* type = nullptr;
  std::uint64_t address = 0, count = 0;

  std::uint64_t bytes() const { return count * type->size_bytes(); }
  Buffer buffer() const { return type->buffer(address, count); }
  // Return the buffer of `parts` consecutive parts of this size, or of part number `part` among them.
  Buffer consecutive_parts(int parts) const { return type->buffer(address, count * static_cast<unsigned>(parts)); }
  Buffer part_buffer(int part) const {
    const auto elements = static_cast<std::int64_t>(count) * part;
    return type->buffer(address + static_cast<std::uint64_t>(elements * type->extent_bytes()), count);
  }
};

struct CollectiveArguments {
  stream::CollectiveKind kind = stream::CollectiveKind::barrier;
  int root = 0;
  bool in_place = false;
  std::vector<BufferArgument> gives, gets;
  std::vector<int> sources, destinations;  // of neighborhood collectives; negative: MPI_PROC_NULL
};

// Return the buffers from which a rank sends data, and those into which it receives data. `ranks` is the size of the
// communicator.
std::vector<Buffer> input_buffers(const CollectiveArguments& arguments, int ranks);
std::vector<Buffer> output_buffers(const CollectiveArguments& arguments, int ranks);

// Runs a collective with the arguments of a stream::Collective event. Throws std::runtime_error if the arguments
// contradict each other.
Task<> run_collective(Communicator& comm, const CollectiveArguments& arguments);

}  // namespace nearfield::sim::replay
