// Collective operations: algorithms over point-to-point messages, selected as MPICH 1.2.7 selects them
// (collectives/thresholds.hpp) or, if the machine says so, as Open MPI does (collectives/open_mpi.hpp). Each file in
// collectives/ that is named after an operation exports one CollectiveSpec. An algorithm uses its rank through a
// Communicator only, so the same code runs on simulated ranks and, in the tests, on real data.
//
// The library's own memory accesses are simulated: temporary buffers, local copies, reductions. Not modeled:
// non-contiguous datatypes, operations that do not commute. Collectives with counts per rank are in
// collectives/lists.hpp.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "machine/machine.hpp"
#include "sim/engine/task.hpp"
#include "sim/mpi/rank.hpp"
#include "sim/node/buffer.hpp"

namespace nearfield::sim {

// The operations that an algorithm may use. Addresses refer to the rank's own memory. Between two ranks, messages
// arrive in the order in which they were sent; a buffer must not be used before its request has completed.
class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  // Returns the MPI library whose selection of algorithms applies.
  virtual CollectiveAlgorithms algorithms() const = 0;
  virtual Request send(int to, const Buffer& data) = 0;
  virtual Request receive(int from, const Buffer& buffer) = 0;
  virtual Task<> wait(std::span<const Request> requests) = 0;
  virtual Task<> copy(Address to, Address from, std::uint64_t bytes) = 0;
  // Copies all data of one buffer into another one, which must be large enough.
  virtual Task<> copy(Buffer to, Buffer from) = 0;
  // Reduces: into[i] = into[i] op from[i].
  virtual Task<> combine(Address into, Address from, std::uint64_t bytes) = 0;
  // Allocate and free a temporary buffer, as malloc() and free() do.
  virtual Address acquire(std::uint64_t bytes) = 0;
  virtual void release(Address buffer, std::uint64_t bytes) = 0;

  Task<> send_and_wait(int to, Buffer data);
  Task<> receive_and_wait(int from, Buffer buffer);
  Task<> sendrecv(int to, Buffer data, int from, Buffer buffer);
};

// The arguments of one rank's call of a collective. CollectiveSpec::bytes_meaning says what `bytes` counts.
struct CollectiveCall {
  Address input = 0;   // the rank's contribution
  Address output = 0;  // the rank's result
  std::uint64_t bytes = 0;
  int root = 0;
};

struct CollectiveBufferSizes {
  std::uint64_t input_bytes = 0, output_bytes = 0;
};

struct CollectiveSpec {
  const char* name;
  const char* summary;
  const char* bytes_meaning;
  bool has_root;
  // Returns the sizes of one rank's buffers.
  CollectiveBufferSizes (*buffer_sizes)(int rank, int ranks, const CollectiveCall& call);
  Task<> (*run)(Communicator& comm, CollectiveCall call);
};

// The collectives that applications and tests call directly.
extern const CollectiveSpec allreduce_collective, alltoall_collective, bcast_collective;

const std::vector<const CollectiveSpec*>& all_collectives();
// Returns the collective of that name. If there is none, throws std::invalid_argument, which names the nearest one.
const CollectiveSpec& find_collective(const std::string& name);

}  // namespace nearfield::sim
