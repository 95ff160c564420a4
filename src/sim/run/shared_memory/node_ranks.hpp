// Ranks of one simulated node that share memory. Each rank is a fiber that executes the code of src/collectives; each
// memory access of this code is an access of a simulated core. The ranks run in the order of their clocks: before an
// access, a rank yields to all ranks whose clocks are behind its own.
//
// Each page of host memory is mapped to simulated memory. A page belongs to the rank that touched it first, and lies in
// the memory nearest to that rank's core. Only addresses and counters are really copied; payload is not, since times do
// not depend on it.
#pragma once

#include <functional>
#include <memory>
#include <queue>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/fibers.hpp"
#include "collectives/exchange.hpp"
#include "sim/node/node.hpp"

namespace nearfield::sim {

// How cores fetch lines from each other's caches. The two models give a lower and an upper bound of the time on a real
// machine.
// - at_once: a core has as many fetches in flight as its description allows, even of counters for which the code waits
//   one after the other, as if the core looked ahead. Any number of cores may fetch the same line concurrently.
// - in_turn: a core has one fetch in flight. A line or page is fetched once by each group of cores that share a
//   last-level cache, one group after the other.
enum class FetchModel { at_once, in_turn };

class NodeRanks {
 public:
  // Rank i runs on core i; `group` cores share their last cache. The node must outlive this.
  NodeRanks(Node& node, int ranks, int cores_per_group, FetchModel fetch_model);

  int num_ranks() const { return static_cast<int>(waits_by_rank_.size()); }

  // Runs `body(rank)` on all ranks, which begin at the latest of their clocks, until all have returned. Returns the
  // time until the last rank has returned. Throws std::logic_error if the ranks wait for each other.
  ConfigClock run(const std::function<void(int rank)>& body);

  // ---- calls of a rank; pointers are to host memory
  void load(int rank, const void* from, std::size_t bytes);
  void store(int rank, void* to, std::size_t bytes);
  void copy(int rank, void* to, const void* from, std::size_t bytes);
  void compute(int rank, Ps duration);
  void publish(int rank, collectives::Counter& counter, std::uint64_t number);
  void wait(int rank, const collectives::Counter& counter, std::uint64_t number);

 private:
  static constexpr std::size_t page_bytes = 4096;
  static constexpr unsigned vector_bytes = 32;  // of one AVX2 load or store, or of two NEON ones
  struct HostPage {
    Address address;
    int owner;
  };
  // The times at which a page or line that is being fetched arrives in each group of cores, and in the last group so
  // far, for which another group must wait before its own fetch.
  struct FetchArrivals {
    std::vector<ConfigClock> arrival;  // by group
    ConfigClock last_arrival;
  };
  struct PublishedNumber {
    std::uint64_t number;
    ConfigClock visible_time;
  };
  struct CounterWait {
    const collectives::Counter* counter = nullptr;
    std::uint64_t number = 0;
  };

  HostPage& page_of(int rank, const void* pointer);
  Address address_of(int rank, const void* pointer);
  void access_vectors(int rank, Access kind, Address address, std::size_t bytes);
  void yield_to_earlier_ranks(int rank);
  void add_ready_rank(int rank) { ready_ranks_.push({node_.first(rank), rank}); }
  // Calls `access(begin, bytes)` for the part of a range in each page, as a fetch if the page belongs to another rank.
  template <class AccessFunction>
  void read_each_page(int rank, const void* from, std::size_t bytes, AccessFunction access);
  // Calls `access()`, which reads a page or a line that other cores may fetch at the same time, in the way of the
  // FetchModel.
  template <class AccessFunction>
  void fetch_shared(int rank, FetchArrivals& fetches, AccessFunction access);
  const PublishedNumber* find_published(const collectives::Counter& counter, std::uint64_t number) const;
  void load_counter(int rank, const collectives::Counter& counter);

  Node& node_;
  int cores_per_group_;
  FetchModel fetch_model_;
  Fibers fibers_;
  // The ranks that neither run, wait nor have ended, in the order of their clocks and of their numbers. The clock of
  // such a rank does not change.
  std::priority_queue<std::pair<Ps, int>, std::vector<std::pair<Ps, int>>, std::greater<>> ready_ranks_;
  std::vector<CounterWait> waits_by_rank_;
  // The unused remainder of the simulated page to which a rank's next host page is mapped. Simulated pages may be
  // longer than host pages.
  struct PageRemainder {
    Address begin = 0, end = 0;
  };
  std::vector<PageRemainder> page_remainders_;
  std::unordered_map<std::uintptr_t, HostPage> pages_;
  std::unordered_map<const collectives::Counter*, std::vector<PublishedNumber>> published_numbers_;
  std::unordered_map<std::uintptr_t, FetchArrivals> fetches_;  // by address of a page or a counter
};

// How a rank of a simulated node waits and copies: the Port of an Exchange.
class SimulatedPort {
 public:
  using Box = collectives::BasicBox<16>;

  SimulatedPort(NodeRanks& ranks, int rank) : ranks_(ranks), rank_(rank) {}

  void publish(collectives::Counter& counter, std::uint64_t number) { ranks_.publish(rank_, counter, number); }
  void wait(const collectives::Counter& counter, std::uint64_t number, int, collectives::WaitReason) {
    ranks_.wait(rank_, counter, number);
  }
  void write_shared(void* to, const void* from, std::size_t bytes) { copy(to, from, bytes); }
  void read_shared(int, void* to, const void* from, std::size_t bytes) { copy(to, from, bytes); }
  void copy_own(void* to, const void* from, std::size_t bytes) { copy(to, from, bytes); }
  void note_read(int, const void*, std::size_t) {}  // the simulated code that uses the data loads it
  void read_memory(int, void* to, std::uintptr_t from, std::size_t bytes, bool = false) {
    copy(to, reinterpret_cast<const void*>(from), bytes);
  }
  void write_memory(int, std::uintptr_t to, const void* from, std::size_t bytes) {
    copy(reinterpret_cast<void*>(to), from, bytes);
  }

 private:
  void copy(void* to, const void* from, std::size_t bytes) {
    // A few bytes may be an address or a Place, which the code reads.
    if (bytes <= collectives::cache_line_bytes) std::memcpy(to, from, bytes);
    ranks_.copy(rank_, to, from, bytes);
  }

  NodeRanks& ranks_;
  int rank_;
};

}  // namespace nearfield::sim
