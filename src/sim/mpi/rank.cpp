#include "sim/mpi/rank.hpp"

#include <algorithm>
#include <vector>

#include "machine/machine.hpp"
#include "sim/memory/counts.hpp"
#include "sim/mpi/endpoint.hpp"
#include "sim/nic/nic.hpp"

namespace nearfield::sim {
namespace {

constexpr std::uint64_t word = 8;
constexpr std::uint64_t at_a_time = 128;  // bytes of an operand that a reduction loop loads before it stores

// Returns at most `count` of a sweep's accesses, from number `done` on.
Sweep sweep_part(Sweep sweep, std::uint64_t done, std::uint64_t count) {
  sweep.address += done * static_cast<std::uint64_t>(sweep.stride_bytes);
  sweep.count = std::min(count, sweep.count - done);
  return sweep;
}

std::vector<Counts> counts_per_variant(const Node& node) {
  std::vector<Counts> all;
  for (int v = 0; v < node.variants(); ++v) all.push_back(node.counts(v));
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

// Accesses memory as a loop over elements does: loads both operands, then stores the result, some lines at a time.
Task<> Rank::combine(Address into, Address from, std::uint64_t bytes) {
  Endpoint& me = endpoint_;
  return me.work_in_slices(bytes, [&me, into, from](std::uint64_t offset, std::uint64_t part) {
    for (const std::uint64_t end = offset + part; offset < end; offset += at_a_time) {
      const std::uint64_t chunk = std::min(at_a_time, end - offset);
      me.node().touch(me.core(), Access::load, from + offset, chunk);
      me.node().touch(me.core(), Access::load, into + offset, chunk);
      me.node().touch(me.core(), Access::store, into + offset, chunk);
    }
  });
}

Task<> Rank::sweep(Access kind, Address address, std::uint64_t count, std::int64_t stride_bytes, unsigned bytes) {
  Endpoint& me = endpoint_;
  return me.work_in_slices(count * word, [=, &me](std::uint64_t offset, std::uint64_t part) {
    const Address begin = address + offset / word * static_cast<std::uint64_t>(stride_bytes);
    me.node().sweep(me.core(), kind, begin, part / word, stride_bytes, bytes);
  });
}

Task<> Rank::sweep(std::span<const Sweep> sweeps) {
  co_await endpoint_.flush_calls();
  std::vector<Sweep> slice;
  std::uint64_t done = 0;  // accesses of the first remaining sweep that have been made
  while (!sweeps.empty() && endpoint_.node().has_memory()) {
    slice.clear();
    for (std::uint64_t left = endpoint_.slice_bytes() / word; left > 0 && !sweeps.empty();) {
      const Sweep& first = sweeps.front();
      slice.push_back(sweep_part(first, done, left));
      left -= slice.back().count;
      done += slice.back().count;
      if (done == first.count) sweeps = sweeps.subspan(1), done = 0;
    }
    endpoint_.node().sweep(endpoint_.core(), slice);
    co_await endpoint_.sync_with_engine();
  }
}

// Ranks that share a memory yield to each other after few accesses. While all accesses of a rank hit its L1, so that
// they take no longer than their issue, their order among ranks does not matter, and the rank's slices grow.
Task<> Rank::replay(std::span<const Reference> references, std::span<const std::size_t> stops,
                    std::function<void()> at_stop) {
  co_await endpoint_.flush_calls();
  if (!endpoint_.node().has_memory()) {
    for (std::size_t i = 0; i < stops.size(); ++i) at_stop();
    co_return;
  }
  const std::size_t max_slice = 512, min_slice = endpoint_.slice_bytes() / word;
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

Task<> Rank::prepare(Buffer buffer, BufferState state) {
  co_await endpoint_.flush_calls();
  endpoint_.node().invalidate_range(buffer.address, buffer.extent_bytes());
  if (state == BufferState::invalid) co_return;
  const Access kind = state == BufferState::modified ? Access::store : Access::load;
  Endpoint& me = endpoint_;
  co_await me.work_in_slices(buffer.bytes(), [&me, kind, buffer](std::uint64_t offset, std::uint64_t part) {
    me.node().touch(me.core(), kind, buffer, offset, part);
  });
  me.node().drain(me.core());
}

void Rank::invalidate_all() {
  endpoint_.flush_calls_now();
  endpoint_.node().invalidate_all();
}

void Rank::steer(Address address, std::uint64_t bytes, int level) {
  if (endpoint_.has_nic()) endpoint_.nic().steer(address, bytes, level);
}

Task<> Rank::barrier() { return endpoint_.barrier(); }
ConfigClock Rank::now() const {
  endpoint_.flush_calls_now();
  return endpoint_.now();
}

void Rank::start() {
  endpoint_.flush_calls_now();
  endpoint_.node().drain(endpoint_.core());
  Mark mark;
  if (endpoint_.cluster().count_marks) mark.before = counts_per_variant(endpoint_.node());
  if (endpoint_.cluster().count_sides) mark.counters = endpoint_.node().counters_of(endpoint_.core());
  mark.start = now();
  endpoint_.marks().push_back(std::move(mark));
  if (const double reading_ns = core().clock_reading_ns; reading_ns > 0)
    endpoint_.node().advance(endpoint_.core(), ps_from_ns(reading_ns));
}

void Rank::stop() {
  endpoint_.flush_calls_now();
  endpoint_.node().drain(endpoint_.core());
  Mark& mark = endpoint_.marks().back();
  mark.stop = now();
  if (endpoint_.cluster().count_marks) mark.after = counts_per_variant(endpoint_.node());
  if (endpoint_.cluster().count_sides) mark.counters = endpoint_.node().counters_of(endpoint_.core()) - mark.counters;
}

}  // namespace nearfield::sim
