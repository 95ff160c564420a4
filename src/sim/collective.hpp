// Collective operations: MPICH's algorithms as programs over point-to-point. One file per operation in collectives/,
// each exporting one CollectiveSpec; where they change over is in collectives/thresholds.hpp. An algorithm sees its
// rank through a Communicator only, so the same code runs on simulated ranks and, in the tests, on real data.
//
// The library's own accesses to memory count: temporary buffers, local copies, reductions. Left out: data types that
// are not contiguous, operations that do not commute. What has different parts for different ranks is in collectives/lists.hpp.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "sim/buffer.hpp"
#include "sim/engine/task.hpp"
#include "sim/rank.hpp"

namespace nearfield::sim {

// The operations that an algorithm may use. Addresses are of the rank's own memory. Between two ranks, messages arrive
// in the order in which they were sent; a buffer must not be used before its request has been waited for.
class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual Request send(int to, const Buffer& from_here) = 0;
  virtual Request receive(int from, const Buffer& to_here) = 0;
  virtual Task<> wait(std::span<const Request> requests) = 0;
  virtual Task<> copy(Address to, Address from, std::uint64_t bytes) = 0;
  // Copies all data of one buffer into another one, which has as much room or more.
  virtual Task<> copy(Buffer to, Buffer from) = 0;
  // into[i] = into[i] op from[i]
  virtual Task<> combine(Address into, Address from, std::uint64_t bytes) = 0;
  // Gives and takes back a temporary buffer, as malloc() and free() do.
  virtual Address take(std::uint64_t bytes) = 0;
  virtual void give(Address buffer, std::uint64_t bytes) = 0;

  Task<> send_now(int to, Buffer from_here);
  Task<> receive_now(int from, Buffer to_here);
  Task<> sendrecv(int to, Buffer from_here, int from, Buffer to_here);
};

// The arguments of a rank's call. CollectiveSpec::bytes_are says what `bytes` are.
struct Call {
  Address in = 0;   // what the rank gives
  Address out = 0;  // what it gets
  std::uint64_t bytes = 0;
  int root = 0;
};

struct CallSizes {
  std::uint64_t in_bytes = 0, out_bytes = 0;
};

struct CollectiveSpec {
  const char* name;
  const char* summary;
  const char* bytes_are;
  bool has_root;
  // The sizes of one rank's buffers.
  CallSizes (*sizes)(int rank, int ranks, const Call& call);
  Task<> (*run)(Communicator& all, Call call);
};

// The collectives that applications and tests name.
extern const CollectiveSpec allreduce_collective, alltoall_collective, bcast_collective;

const std::vector<const CollectiveSpec*>& all_collectives();
// Returns the collective of that name. Throws std::invalid_argument that names the nearest one.
const CollectiveSpec& find_collective(const std::string& name);

}  // namespace nearfield::sim
