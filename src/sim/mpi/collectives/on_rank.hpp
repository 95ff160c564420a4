// Collectives over all ranks of the simulated cluster. An object reuses the temporary buffers that it has freed; to
// simulate an MPI library that does so across runs, the same object must be used in all runs.
#pragma once

#include "sim/mpi/collective.hpp"
#include "sim/mpi/endpoint.hpp"
#include "sim/mpi/protocols/scratch.hpp"

namespace nearfield::sim {

class RankCommunicator : public Communicator {
 public:
  // The rank must outlive this object. `tag`: the tag of all messages, which the program must not use.
  RankCommunicator(Rank& rank, int tag)
      : rank_(rank), tag_(tag), scratch_([&rank](std::uint64_t bytes) { return rank.allocate(bytes); }) {}

  int rank() const override { return rank_.rank(); }
  int size() const override { return rank_.size(); }
  CollectiveAlgorithms algorithms() const override { return rank_.endpoint().messaging().collectives; }
  Request send(int to, const Buffer& data) override { return rank_.send(to, data, tag_); }
  Request receive(int from, const Buffer& buffer) override { return rank_.receive(from, buffer, tag_); }
  Task<> wait(std::span<const Request> requests) override { return rank_.wait_all(requests); }
  Task<> copy(Address to, Address from, std::uint64_t bytes) override { return rank_.copy(to, from, bytes); }
  Task<> copy(Buffer to, Buffer from) override { return rank_.copy(to, from); }
  Task<> combine(Address into, Address from, std::uint64_t bytes) override { return rank_.combine(into, from, bytes); }
  Address acquire(std::uint64_t bytes) override { return scratch_.acquire(bytes); }
  void release(Address buffer, std::uint64_t bytes) override { scratch_.release(buffer, bytes); }

 private:
  Rank& rank_;
  int tag_;
  ScratchPool scratch_;
};

}  // namespace nearfield::sim
