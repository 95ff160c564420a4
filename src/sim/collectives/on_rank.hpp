// Collectives on a simulated rank. Keep it from run to run, as the library keeps memory that free() gave back.
#pragma once

#include "sim/collective.hpp"
#include "sim/protocols/scratch.hpp"

namespace nearfield::sim {

class RankCommunicator : public Communicator {
 public:
  // The rank must outlive it. `tag`: of all messages, no program's own.
  RankCommunicator(Rank& rank, int tag)
      : rank_(rank), tag_(tag), scratch_([&rank](std::uint64_t bytes) { return rank.allocate(bytes); }) {}

  int rank() const override { return rank_.rank(); }
  int size() const override { return rank_.size(); }
  Request send(int to, const Buffer& from_here) override { return rank_.send(to, from_here, tag_); }
  Request receive(int from, const Buffer& to_here) override { return rank_.receive(from, to_here, tag_); }
  Task<> wait(std::span<const Request> requests) override { return rank_.wait_all(requests); }
  Task<> copy(Address to, Address from, std::uint64_t bytes) override { return rank_.copy(to, from, bytes); }
  Task<> copy(Buffer to, Buffer from) override { return rank_.copy(to, from); }
  Task<> combine(Address into, Address from, std::uint64_t bytes) override { return rank_.combine(into, from, bytes); }
  Address take(std::uint64_t bytes) override { return scratch_.take(bytes); }
  void give(Address buffer, std::uint64_t bytes) override { scratch_.give(buffer, bytes); }

 private:
  Rank& rank_;
  int tag_;
  Scratch scratch_;
};

}  // namespace nearfield::sim
