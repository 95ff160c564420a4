// Ranks whose messages carry bytes, for the results of collectives. A message is copied some time after both sides have
// posted it, in a random order, which reveals a buffer that is used too early. Accesses outside a buffer are errors.
#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <stdexcept>
#include <vector>

#include "sim/mpi/collective.hpp"

namespace nearfield::sim {

class LoopbackCommunicator {
 public:
  LoopbackCommunicator(int ranks, unsigned seed, CollectiveAlgorithms algorithms = CollectiveAlgorithms::mpich);
  ~LoopbackCommunicator();

  int ranks() const { return static_cast<int>(ranks_.size()); }
  // Allocates memory, filled with a random byte.
  Address allocate(int rank, std::uint64_t bytes);
  // std::out_of_range if they are not all in one buffer.
  std::byte* at(int rank, Address address, std::uint64_t bytes);
  // Runs the operation on all ranks. Throws std::logic_error if they deadlock, or leave requests or buffers behind.
  void run(const CollectiveSpec& spec, const std::vector<CollectiveCall>& calls);

 private:
  class LoopbackRank;
  struct Transfer {
    int rank;
    Buffer buffer;
    std::uint64_t serial;
  };
  struct Pair {
    std::deque<Transfer> sent, wanted;
  };

  Pair& pair(int from, int to);
  void match(int from, int to);
  void deliver_one();

  std::vector<std::unique_ptr<LoopbackRank>> ranks_;
  std::vector<Pair> pairs_;
  std::vector<std::pair<int, int>> ready_;  // pairs of ranks whose oldest message can be copied
  std::mt19937 random_;
  CollectiveAlgorithms algorithms_;
};

}  // namespace nearfield::sim
