// Ranks whose messages carry bytes, for collectives' results. A message is copied only when both sides have begun it,
// some time after, in a random order, so that a buffer used too early shows; what lies outside a buffer, too.
#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <stdexcept>
#include <vector>

#include "sim/collective.hpp"

namespace nearfield::sim {

class InMemory {
 public:
  InMemory(int ranks, unsigned seed);
  ~InMemory();

  int ranks() const { return static_cast<int>(ranks_.size()); }
  // Filled with a random byte.
  Address allocate(int rank, std::uint64_t bytes);
  // std::out_of_range if they are not all in one buffer.
  std::byte* at(int rank, Address address, std::uint64_t bytes);
  // Runs the operation on all ranks. std::logic_error if they wait for one another, or leave something behind.
  void run(const CollectiveSpec& spec, const std::vector<Call>& calls);

 private:
  class One;
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

  std::vector<std::unique_ptr<One>> ranks_;
  std::vector<Pair> pairs_;
  std::vector<std::pair<int, int>> ready_;  // whose oldest message can be copied
  std::mt19937 random_;
};

}  // namespace nearfield::sim
