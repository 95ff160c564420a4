#include "sim/mpi/rank.hpp"

#include <algorithm>
#include <vector>

#include "machine/machine.hpp"
#include "sim/memory/counts.hpp"
#include "sim/mpi/endpoint.hpp"
#include "sim/nic/nic.hpp"

namespace nearfield::sim {
namespace {

constexpr std::uint64_t word_bytes = 8;
constexpr std::uint64_t reduction_chunk_bytes =
    128;  // bytes of an operand that a reduction loop loads before it stores

// Returns at most `count` of a sweep's accesses, from number `num_done` on.
Sweep sweep_part(Sweep sweep, std::uint64_t num_done, std::uint64_t count) {
  sweep.address += num_done * static_cast<std::uint64_t>(sweep.stride_bytes);
  sweep.count = std::min(count, sweep.count - num_done);
  return sweep;
}

std::vector<Counts> counts_per_variant(const Node& node) {
  std::vector<Counts> all;
  for (int v = 0; v < node.num_variants(); ++v) all.push_back(node.counts(v));
  return all;
}

Task<> touch_range(Endpoint& endpoint, Access kind, Address address, std::uint64_t bytes) {
  return endpoint.work_in_slices(bytes, [&endpoint, kind, address](std::uint64_t offset, std::uint64_t part) {
    endpoint.node().touch(endpoint.core(), kind, address + offset, part);
  });
}

}  // namespace

int Rank::rank() const { return endpoint_.rank(); }
int Rank::size() const { return static_cast<int>(endpoint_.cluster().ranks.size()); }
int Rank::node() const { return endpoint_.node_number(); }
const Core& Rank::core() const { return endpoint_.cluster().machine.core; }
Address Rank::allocate(std::uint64_t bytes) { return endpoint_.node().allocate(endpoint_.core(), bytes); }

// ---- messages

Request Rank::send(int to, const Buffer& data, int tag, Context context) {
  return endpoint_.send({to, tag, context}, data);
}
Request Rank::receive(int from, const Buffer& buffer, int tag, Context context) {
  return endpoint_.receive({from, tag, context}, buffer);
}
Task<> Rank::wait(Request request) { return endpoint_.wait(request); }

Task<> Rank::wait_all(std::span<const Request> requests) {
  for (const Request request : requests) co_await endpoint_.wait(request);
}

Task<> Rank::sendrecv(int to, Buffer data, int send_tag, int from, Buffer buffer, int receive_tag) {
  const Request receiving = receive(from, buffer, receive_tag);
  const Request sending = send(to, data, send_tag);
  co_await endpoint_.wait(sending);
  co_await endpoint_.wait(receiving);
}

// ---- memory work

Task<> Rank::read(Address address, std::uint64_t bytes) { return touch_range(endpoint_, Access::load, address, bytes); }
Task<> Rank::write(Address address, std::uint64_t bytes) {
  return touch_range(endpoint_, Access::store, address, bytes);
}

Task<> Rank::copy(Address to, Address from, std::uint64_t bytes) {
  return endpoint_.copy(Buffer(to, bytes), 0, Buffer(from, bytes), 0, bytes);
}

Task<> Rank::copy(const Buffer& to, const Buffer& from) { return endpoint_.copy(to, 0, from, 0, from.bytes()); }

// Accesses memory as a reduction loop does, some lines at a time: loads both operands, then stores the result.
Task<> Rank::combine(Address into, Address from, std::uint64_t bytes) {
  Endpoint& endpoint = endpoint_;
  return endpoint.work_in_slices(bytes, [&endpoint, into, from](std::uint64_t offset, std::uint64_t part) {
    for (const std::uint64_t end = offset + part; offset < end; offset += reduction_chunk_bytes) {
      const std::uint64_t chunk = std::min(reduction_chunk_bytes, end - offset);
      endpoint.node().touch(endpoint.core(), Access::load, from + offset, chunk);
      endpoint.node().touch(endpoint.core(), Access::load, into + offset, chunk);
      endpoint.node().touch(endpoint.core(), Access::store, into + offset, chunk);
    }
  });
}

Task<> Rank::sweep(Access kind, Address address, std::uint64_t count, std::int64_t stride_bytes, unsigned bytes) {
  Endpoint& endpoint = endpoint_;
  return endpoint.work_in_slices(count * word_bytes, [=, &endpoint](std::uint64_t offset, std::uint64_t part) {
    const Address begin = address + offset / word_bytes * static_cast<std::uint64_t>(stride_bytes);
    endpoint.node().sweep(endpoint.core(), kind, begin, part / word_bytes, stride_bytes, bytes);
  });
}

Task<> Rank::sweep(std::span<const Sweep> sweeps) {
  co_await endpoint_.flush_calls();
  std::vector<Sweep> slice;
  std::uint64_t num_done = 0;  // accesses of the first remaining sweep that have been made
  while (!sweeps.empty() && endpoint_.node().has_memory()) {
    slice.clear();
    for (std::uint64_t left = endpoint_.slice_bytes() / word_bytes; left > 0 && !sweeps.empty();) {
      const Sweep& first = sweeps.front();
      slice.push_back(sweep_part(first, num_done, left));
      left -= slice.back().count;
      num_done += slice.back().count;
      if (num_done == first.count) sweeps = sweeps.subspan(1), num_done = 0;
    }
    endpoint_.node().sweep(endpoint_.core(), slice);
    co_await endpoint_.sync_with_engine();
  }
}

// Ranks that share a memory yield to each other after few accesses. As long as all accesses of a rank hit its L1, their
// order relative to other ranks' accesses does not matter, so the rank's slices grow. Accesses are taken for L1 hits if
// they take hardly longer than their issue.
Task<> Rank::replay(std::span<const Reference> references, std::span<const std::size_t> stops,
                    std::function<void()> at_stop) {
  co_await endpoint_.flush_calls();
  if (!endpoint_.node().has_memory()) {
    for (std::size_t i = 0; i < stops.size(); ++i) at_stop();
    co_return;
  }
  const std::size_t max_slice = 512, min_slice = endpoint_.slice_bytes() / word_bytes;
  const Ps issue = core().cycles_per_access / core().clock_ghz * 1e3;
  std::size_t slice = min_slice, replayed = 0;
  const auto replay_until = [&](std::size_t end) {
    if (end > replayed) endpoint_.node().replay(endpoint_.core(), references.subspan(replayed, end - replayed));
    replayed = end;
  };
  while (replayed < references.size()) {
    const std::size_t count = std::min(slice, references.size() - replayed), end = replayed + count;
    const Ps before = endpoint_.ordering_clock();
    for (; !stops.empty() && stops.front() < end; stops = stops.subspan(1)) {
      replay_until(stops.front() + 1);
      at_stop();
    }
    replay_until(end);
    const bool all_in_l1 = endpoint_.ordering_clock() - before <= 2 * issue * static_cast<double>(count);
    slice = all_in_l1 ? std::min(2 * slice, max_slice) : min_slice;
    co_await endpoint_.sync_with_engine();
  }
}

void Rank::compute(Ps duration) { endpoint_.compute(duration); }

// ---- scenarios

Task<> Rank::prepare_buffer(Buffer buffer, BufferState state) {
  co_await endpoint_.flush_calls();
  endpoint_.node().invalidate_range(buffer.address, buffer.extent_bytes());
  if (state == BufferState::invalid) co_return;
  const Access kind = state == BufferState::modified ? Access::store : Access::load;
  Endpoint& endpoint = endpoint_;
  co_await endpoint.work_in_slices(buffer.bytes(), [&endpoint, kind, buffer](std::uint64_t offset, std::uint64_t part) {
    endpoint.node().touch(endpoint.core(), kind, buffer, offset, part);
  });
  endpoint.node().drain(endpoint.core());
}

void Rank::invalidate_all() {
  endpoint_.flush_calls_now();
  endpoint_.node().invalidate_all();
}

void Rank::steer(Address address, std::uint64_t bytes, int level) {
  if (endpoint_.has_nic()) endpoint_.nic().steer_range(address, bytes, level);
}

Task<> Rank::barrier() { return endpoint_.barrier(); }
ConfigClock Rank::now() const {
  endpoint_.flush_calls_now();
  return endpoint_.now();
}

void Rank::start_mark() {
  endpoint_.flush_calls_now();
  endpoint_.node().drain(endpoint_.core());
  Mark mark;
  if (endpoint_.cluster().needs_node_counts) mark.counts_before = counts_per_variant(endpoint_.node());
  if (endpoint_.cluster().needs_core_counters) mark.counters = endpoint_.node().counters_of(endpoint_.core());
  mark.start = now();
  endpoint_.marks().push_back(std::move(mark));
  if (const double reading_ns = core().clock_reading_ns; reading_ns > 0)
    endpoint_.node().advance(endpoint_.core(), ps_from_ns(reading_ns));
}

void Rank::stop_mark() {
  endpoint_.flush_calls_now();
  endpoint_.node().drain(endpoint_.core());
  Mark& mark = endpoint_.marks().back();
  mark.stop = now();
  if (endpoint_.cluster().needs_node_counts) mark.counts_after = counts_per_variant(endpoint_.node());
  if (endpoint_.cluster().needs_core_counters)
    mark.counters = endpoint_.node().counters_of(endpoint_.core()) - mark.counters;
}

}  // namespace nearfield::sim
