// The operations of a rank's program: messages as in MPI, memory work on its own core, and marks for measuring.
// A program is a coroutine that is run once for all variants and memory speeds, so nothing it does may depend on now().
//
//   Task<> program(Rank& rank) {
//     const Buffer here(rank.allocate(1024), 1024);
//     if (rank.rank() == 0) co_await rank.wait(rank.send(1, here, 7));
//     if (rank.rank() == 1) co_await rank.wait(rank.receive(0, here, 7));
//   }
//
// Every Task must be awaited where it is made. Messages go on only while their rank is in wait(), as in an MPI without
// a progress thread, and nonblocking collectives, too. Left out: truncation (an error).
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "sim/buffer.hpp"
#include "sim/clock.hpp"
#include "sim/engine/task.hpp"
#include "sim/pattern.hpp"
#include "sim/seen.hpp"

namespace nearfield {
struct Core;  // machine/machine.hpp
}

namespace nearfield::sim {

class Endpoint;    // endpoint.hpp: the MPI library of one rank
struct Operation;  // message.hpp
struct Sweep;      // node.hpp
struct Counts;     // counts.hpp

// A message under way; waiting for it a second time, or for one that was never made, returns at once.
struct Request {
  Operation* operation = nullptr;
  std::uint64_t serial = 0;
};

// The time between start() and stop(). Counts are those of the rank's node, per variant, if the run counts marks.
struct Mark {
  Clock start, stop;
  std::vector<Counts> before, after;
  Seen seen;  // by the rank's core, if the run was told to count sides
};

// The time that a rank's calls of the MPI library took, by what they did: posting sends, posting receives, and waiting,
// in which protocols work too. Copies and reductions that a collective makes itself are not in it.
struct TimeInCalls {
  Clock sending, receiving, waiting;
};

// The state of a buffer's lines in the caches of the rank's core.
enum class BufferState { invalid, exclusive, modified };

class Rank {
 public:
  explicit Rank(Endpoint& endpoint) : endpoint_(endpoint) {}
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;

  int rank() const;
  int size() const;
  int node() const;
  const Core& core() const;

  // Returns memory that begins at a page; no two allocations of a node overlap. It is never freed, and free of cost
  // until it is touched.
  Address allocate(std::uint64_t bytes);

  // ---- messages. Between two ranks, those of one tag and context arrive in the order in which they were sent. A
  // receive may be longer than its message, not shorter. Buffers must not be used before wait() is over.
  Request send(int to, const Buffer& from_here, int tag, Context context = 0);
  Request receive(int from, const Buffer& to_here, int tag, Context context = 0);
  Task<> wait(Request request);
  Task<> wait_all(std::span<const Request> requests);
  Task<> sendrecv(int to, Buffer from_here, int send_tag, int from, Buffer to_here, int receive_tag);

  // ---- memory work of the rank's core, in words of 8 bytes
  Task<> read(Address address, std::uint64_t bytes);
  Task<> write(Address address, std::uint64_t bytes);
  Task<> copy(Address to, Address from, std::uint64_t bytes);
  Task<> copy(const Buffer& to, const Buffer& from);  // all of `from`
  // into[i] = into[i] op from[i]
  Task<> combine(Address into, Address from, std::uint64_t bytes);
  // Does `count` accesses of `bytes` each, `stride_bytes` apart.
  Task<> sweep(Access kind, Address address, std::uint64_t count, std::int64_t stride_bytes, unsigned bytes);
  // Does sweeps one after the other; they must live until it is over.
  Task<> sweep(std::span<const Sweep> sweeps);
  // Makes the accesses of a recorded program.
  Task<> replay(std::span<const Reference> references);
  void compute(Ps duration);

  // ---- for scenarios
  // Brings the lines of a buffer into a state; takes the time that loads and stores take, so do it outside marks.
  Task<> prepare(Buffer buffer, BufferState state);
  // Takes all lines of the node out of all caches, in no time.
  void invalidate_all();
  // Tells the NIC that payload for this range belongs into a cache level (policy tph), counted from 0.
  void steer(Address address, std::uint64_t bytes, int level);
  // Lets all ranks go on at the same time, that of the last one, without messages; on several nodes the network's latency
  // later.
  Task<> line_up();
  Clock now() const;
  void start();
  void stop();  // waits for what the core's own loads and stores still fetch

  // Returns the rank's library, which does more than programs need that are written for the simulator (replay/).
  Endpoint& endpoint() { return endpoint_; }

 private:
  Endpoint& endpoint_;
};

using Program = std::function<Task<>(Rank&)>;

}  // namespace nearfield::sim
