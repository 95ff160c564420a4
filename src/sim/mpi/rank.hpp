// The interface of a rank's program: messages as in MPI, memory accesses of its core, and marks for measuring. A
// program is a coroutine that runs once for all variants and memory speeds, so its behavior must not depend on now().
//
//   Task<> program(Rank& rank) {
//     const Buffer buffer(rank.allocate(1024), 1024);
//     if (rank.rank() == 0) co_await rank.wait(rank.send(1, buffer, 7));
//     if (rank.rank() == 1) co_await rank.wait(rank.receive(0, buffer, 7));
//   }
//
// Every Task must be awaited where it is created. Messages and nonblocking collectives progress only while their rank
// is in wait(), as in an MPI without a progress thread. A message that is longer than the receive buffer is an error.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "sim/engine/config_clock.hpp"
#include "sim/engine/task.hpp"
#include "sim/mpi/pattern.hpp"
#include "sim/node/buffer.hpp"
#include "sim/node/perf_counters.hpp"

namespace nearfield {
struct Core;  // machine/machine.hpp
}

namespace nearfield::sim {

class Endpoint;       // endpoint.hpp: the MPI library of one rank
struct RequestState;  // message.hpp
struct Sweep;         // node.hpp
struct Counts;        // counts.hpp

// The handle to a request in flight. A wait for an empty handle, or a second wait for the same request, returns
// immediately.
struct Request {
  RequestState* state = nullptr;
  std::uint64_t serial = 0;
};

// A measured interval of a rank: from start() to stop(). `before` and `after`: the counts of the rank's node, per
// variant, if the run has needs_node_counts.
struct Mark {
  ConfigClock start, stop;
  std::vector<Counts> counts_before, counts_after;
  PerfCounters counters;  // of the rank's core, if the run has needs_core_counters
};

// The time that a rank spent in MPI calls: posting sends, posting receives, and waiting, which includes the protocols'
// work. The copies and reductions that a collective makes are not included.
struct TimeInCalls {
  ConfigClock send_time, receive_time, wait_time;
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

  // Returns the address of page-aligned memory that overlaps no other allocation of the node. Memory is never freed.
  // The host allocates nothing for memory that is never accessed.
  Address allocate(std::uint64_t bytes);

  // ---- messages. Between two ranks, messages of one tag and context arrive in the order in which they were sent. A
  // receive may be longer than its message, not shorter. Buffers must not be used before wait() returns.
  Request send(int to, const Buffer& data, int tag, Context context = 0);
  Request receive(int from, const Buffer& buffer, int tag, Context context = 0);
  Task<> wait(Request request);
  Task<> wait_all(std::span<const Request> requests);
  Task<> sendrecv(int to, Buffer data, int send_tag, int from, Buffer buffer, int receive_tag);

  // ---- memory accesses of the rank's core, in words of 8 bytes
  Task<> read(Address address, std::uint64_t bytes);
  Task<> write(Address address, std::uint64_t bytes);
  Task<> copy(Address to, Address from, std::uint64_t bytes);
  Task<> copy(const Buffer& to, const Buffer& from);  // all of `from`
  // into[i] = into[i] op from[i]
  Task<> combine(Address into, Address from, std::uint64_t bytes);
  // Makes `count` accesses of `bytes` each, with a stride of `stride_bytes`.
  Task<> sweep(Access kind, Address address, std::uint64_t count, std::int64_t stride_bytes, unsigned bytes);
  // Makes the sweeps one after the other; `sweeps` must outlive the call.
  Task<> sweep(std::span<const Sweep> sweeps);
  // Replays the accesses of a recorded program. Calls at_stop() after each access whose index is in `stops`, once per
  // occurrence; `stops` are in ascending order.
  Task<> replay(std::span<const Reference> references, std::span<const std::size_t> stops = {},
                std::function<void()> at_stop = {});
  void compute(Ps duration);

  // ---- for scenarios
  // Brings the lines of a buffer into a state by loads or stores. These take time, so it must be called outside marks.
  Task<> prepare_buffer(Buffer buffer, BufferState state);
  // Invalidates all lines of all caches of the node, in no time.
  void invalidate_all();
  // Makes the NIC inject the payload of messages to this range into a cache level (policy tph), counted from 0.
  void steer(Address address, std::uint64_t bytes, int level);
  // A barrier without messages: resumes all ranks at the time at which the last rank arrives (plus the network's
  // latency if there are several nodes).
  Task<> barrier();
  ConfigClock now() const;
  // Begin and end a measured interval (Mark). The interval includes the time to read the clock once
  // (Core::clock_reading_ns), as a time measured on a real machine does.
  void start_mark();
  void stop_mark();  // waits for the core's outstanding loads and stores

  // Returns the rank's MPI library, whose further functions serve replay/.
  Endpoint& endpoint() { return endpoint_; }

 private:
  Endpoint& endpoint_;
};

using Program = std::function<Task<>(Rank&)>;

}  // namespace nearfield::sim
