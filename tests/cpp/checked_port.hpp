// The Port of an Exchange that checks the protocol, and makes mistakes in it if a test says so.
// test_collective_protocol.cpp says why this suffices.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "checked_node.hpp"

namespace nearfield::collectives {

// The port of one rank.
template <std::uint64_t depth>
class CheckedPort {
 public:
  using Node = CheckedNode<depth>;
  using Box = typename Node::Box;
  using Location = typename Node::Location;

  CheckedPort(Node& node, int rank) : node_(node), rank_(rank) {}

  // Forgets all that has happened.
  void reset() { trace = 0, waits_ = 0, publishes_ = 0, delayed_.clear(); }

  // ---- what the protocol calls

  void publish(Counter& counter, std::uint64_t number) {
    const int id = node_.counter_of(rank_, counter);
    const bool is_entry = !is_read_counter(id);
    trace_action(Action::publish, static_cast<std::uint64_t>(id), number, 0);
    std::uint64_t& last = node_.order.last_published[static_cast<std::size_t>(id)];
    if (number <= last) throw Problem{Problem::broken_premise, "a counter does not grow"};
    last = number;
    if (is_entry) node_.order.entered[own()] = number;
    switch_if_always();
    const bool finishes_early = has(Bug::finish_early);
    if (finishes_early && is_entry) store(node_.counter_of(rank_, node_.box(rank_).read), number);
    if (has(Bug::publish_less)) --number;
    if (has(Bug::claim_next_reading) && !is_entry) ++number;
    const bool is_lost = has(Bug::lose_publish) && publishes_++ == node_.injection.which;
    if (!is_lost && !(finishes_early && !is_entry)) store(id, number);
    write_delayed();
  }

  void wait(const Counter& counter, std::uint64_t number, int rank, WaitReason reason) {
    if (rank == rank_) throw Problem{Problem::broken_premise, "a rank waits for itself"};
    int id = node_.counter_of(rank, counter);
    trace_action(Action::wait, static_cast<std::uint64_t>(id), number, static_cast<std::uint64_t>(reason));
    if (reason != WaitReason::readers && number + depth <= node_.order.entered[own()])
      throw Problem{Problem::broken_premise, "a wait for an operation whose line has been reused"};
    if (reason == WaitReason::readers) node_.order.offered[own()] = 0;
    switch_if_always();
    const bool is_of_reason = reason == node_.injection.reason;
    if (has(Bug::skip_wait) && is_of_reason) return;
    if (has(Bug::skip_one_wait) && waits_++ == node_.injection.which) return;
    if (has(Bug::wait_for_less) && is_of_reason) --number;
    if (has(Bug::reuse_after_entry) && reason == WaitReason::reuse)
      --number, id = node_.counter_of(rank, node_.box(rank).lines[number % depth].number);
    join_store(id, number);
    if (reason == WaitReason::readers) node_.order.released[own()][static_cast<std::size_t>(rank)] = number;
  }

  void write_shared(void* to, const void* from, std::size_t bytes) {
    const Location target = node_.locate(to, bytes);
    if (target.rank != rank_ || !target.is_in_box())
      throw Problem{Problem::broken_premise, "a rank writes what is not in its box as if it were"};
    trace_access(Action::write_shared, target, node_.locate(from, bytes), bytes);
    note_own(from, bytes, false);
    const bool is_place = to == &node_.box(rank_).lines[target.area % static_cast<int>(depth)].place;
    if (is_place) note_offer(*static_cast<const DataPlace*>(from));
    if (has(Bug::delay_place) ? is_place : has(Bug::delay_data) && !is_place) {
      write_delayed();
      delayed_.assign(static_cast<const Bytes*>(from), static_cast<const Bytes*>(from) + bytes);
      delayed_to_ = to;
    } else {
      write_box(to, from, bytes);
    }
  }

  void read_shared(int rank, void* to, const void* from, std::size_t bytes) {
    note_read(rank, from, bytes);
    note_own(to, bytes, true);
    std::memcpy(to, from, bytes);
    if (has(Bug::corrupt_copy)) *static_cast<Bytes*>(to) ^= 1;
  }

  void copy_own(void* to, const void* from, std::size_t bytes) { std::memcpy(to, from, bytes); }

  void note_read(int rank, const void* from, std::size_t bytes) {
    const Location source = node_.locate(from, bytes);
    if (source.rank != rank || !source.is_in_box())
      throw Problem{Problem::wrong_value, "what rank " + std::to_string(rank) + " offers is not in its box"};
    trace_access(Action::read_shared, source, {}, bytes);
    record(source, bytes, false);
  }

  void read_memory(int rank, void* to, std::uintptr_t from, std::size_t bytes, bool is_owner_waiting = false) {
    const Location source = locate_buffer(rank, from, bytes);
    trace_access(is_owner_waiting ? Action::read_while_owner_waits : Action::read_memory, source,
                 node_.locate(to, bytes), bytes);
    if (is_owner_waiting || has(Bug::claim_owner_waits)) claim_that_owner_waits(rank);
    record(source, bytes, false);
    note_own(to, bytes, true);
    std::memcpy(to, reinterpret_cast<const void*>(from), bytes);
  }

  void write_memory(int rank, std::uintptr_t to, const void* from, std::size_t bytes) {
    const Location target = locate_buffer(rank, to, bytes);
    trace_access(Action::write_memory, target, node_.locate(from, bytes), bytes);
    note_own(from, bytes, false);
    record(target, bytes, true);
    std::memcpy(reinterpret_cast<void*>(to), from, bytes);
  }

  // ---- what the test calls

  std::uint64_t& last_barrier_across() { return node_.last_barrier_across; }

  // Records an access to this rank's buffers, if it is one.
  void note_own(const void* pointer, std::size_t bytes, bool is_write) {
    const Location at = node_.locate(pointer, bytes);
    if (at.rank != rank_ || at.is_in_box()) return;
    note_action();
    record(at, bytes, is_write);
  }

  std::uint64_t trace = 0;  // a digest of all that the rank has done
  std::uint64_t steps = 0;

 private:
  enum class Action : std::uint64_t {
    publish,
    wait,
    write_shared,
    read_shared,
    read_memory,
    read_while_owner_waits,
    write_memory
  };

  std::size_t own() const { return static_cast<std::size_t>(rank_); }
  bool has(Bug bug) const {
    const Injection& injection = node_.injection;
    return injection.bug == bug && (injection.rank < 0 || injection.rank == rank_);
  }
  static bool is_read_counter(int id) { return id % static_cast<int>(depth + 1) == Node::read_counter; }

  void trace_action(Action action, std::uint64_t a, std::uint64_t b, std::uint64_t c) {
    for (const std::uint64_t word : {static_cast<std::uint64_t>(action), a, b, c})
      trace = ((trace ^ word) * 0x9e3779b97f4a7c15u) ^ (trace >> 29);
    ++steps;
    const bool waits_for_reader = action == Action::wait && static_cast<WaitReason>(c) == WaitReason::readers;
    if (!waits_for_reader) note_action();
  }
  void trace_access(Action action, const Location& shared, const Location& own, std::size_t bytes) {
    trace_action(action, shared.number(), own.area < 0 ? 0 : own.number(), bytes);
  }

  void switch_if_always() {
    if (!node_.switches_always) return;
    node_.pending[own()] = {};
    node_.suspend();
  }

  // Stores to a counter of this rank with release order.
  void store(int id, std::uint64_t number) {
    node_.order.stores.push_back({id, number, node_.clock(rank_)});
    ++node_.clock(rank_)[own()];
  }
  // Loads a counter with acquire order until it has at least this number.
  void join_store(int id, std::uint64_t number) {
    if (number == 0) return;
    const Store* found = nullptr;
    while (!(found = node_.find_store(id, number))) {
      node_.pending[own()] = {id, number};
      node_.suspend();
    }
    node_.pending[own()] = {};
    join(node_.clock(rank_), found->clock);
  }

  void record(Location at, std::size_t bytes, bool is_write) {
    if (has(Bug::reuse_too_early) && at.is_in_box()) {
      const std::uint64_t operation = node_.order.entered[own()] + (at.rank == rank_ ? 1 : 0);
      at.area += static_cast<int>(operation % (depth - 1)) - at.area % static_cast<int>(depth);
    }
    if (node_.is_coarse && at.is_in_box()) at.area %= static_cast<int>(depth), at.offset = 0, bytes = 1;
    node_.record(rank_, at.number(), bytes, is_write);
  }

  void write_box(void* to, const void* from, std::size_t bytes) {
    record(node_.locate(to, bytes), bytes, true);
    std::memcpy(to, from, bytes);
  }
  void write_delayed() {
    if (!delayed_.empty()) write_box(delayed_to_, delayed_.data(), delayed_.size());
    delayed_.clear();
  }

  void note_offer(DataPlace place) {
    if (place == DataPlace::memory || place == DataPlace::pieces_in_memory)
      node_.order.offered[own()] = node_.order.entered[own()] + 1;
  }

  Location locate_buffer(int rank, std::uintptr_t address, std::size_t bytes) const {
    const Location found = node_.locate(reinterpret_cast<const void*>(address), bytes);
    if (found.rank != rank || found.is_in_box())
      throw Problem{Problem::wrong_value,
                    "the address that rank " + std::to_string(rank) + " offers is none of its buffers"};
    return found;
  }

  // A reader may claim that the owner of the data does nothing after it has posted but wait for its readers. This is
  // checked when either of them does something, unless a test injects another mistake.
  void claim_that_owner_waits(int owner) {
    auto& order = node_.order;
    const auto p = static_cast<std::size_t>(owner);
    order.claimed[p][own()] = order.entered[own()];
    if (order.acted_in[p] >= order.entered[own()]) check_claims(p);
  }
  void note_action() {
    node_.order.acted_in[own()] = node_.order.entered[own()];
    check_claims(own());
  }
  void check_claims(std::size_t owner) const {
    if (node_.injection.bug != Bug::none && node_.injection.bug != Bug::claim_owner_waits) return;
    const auto& order = node_.order;
    for (std::size_t reader = 0; reader < max_checked_ranks; ++reader)
      if (order.released[owner][reader] < order.claimed[owner][reader])
        throw Problem{Problem::broken_premise, "rank " + std::to_string(reader) + " counts on rank " +
                                                   std::to_string(owner) + " to wait for it, which does other things"};
  }

  Node& node_;
  int rank_;
  int waits_ = 0, publishes_ = 0;
  std::vector<Bytes> delayed_;
  void* delayed_to_ = nullptr;
};

}  // namespace nearfield::collectives
