// Ranks of one simulated node that share memory, as fibers: the very code of src/collectives runs on them, and each of
// its accesses is one of a simulated core. The ranks run in the order of their clocks: before an access, a rank lets all
// others run whose clocks are behind its own.
//
// Host memory stands for simulated memory page by page. A page belongs to the rank that touched it first, and lies in
// the memory nearest to that rank's core. Only addresses and counters are really copied; payload is not, since times do
// not depend on it.
#pragma once

#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include "base/fibers.hpp"
#include "collectives/exchange.hpp"
#include "sim/node/node.hpp"

namespace nearfield::sim {

// How cores fetch lines of each other. What a described machine does lies in between, and nobody says where: each of the
// two bounds the time from one side.
// - at_once: a core has as many fetches in flight as its description allows, also of counters that it waits for one
//   after the other, since it looks ahead; and any number of cores may fetch the same line.
// - in_turn: a core fetches one after the other; a line or page is fetched by one group of cores after the other, and by
//   a group, whose cores share their last cache, once.
enum class Readers { at_once, in_turn };

class NodeRanks {
 public:
  // Rank i runs on core i; `group` cores share their last cache. The node must outlive this.
  NodeRanks(Node& node, int ranks, int group, Readers readers);

  int ranks() const { return static_cast<int>(waits_.size()); }

  // Runs `body(rank)` on all ranks, from the latest of their clocks on, until all have returned. Returns the time that
  // passed until the last one has. Throws std::logic_error if they wait for each other.
  ConfigClock run(const std::function<void(int rank)>& body);

  // ---- what a rank calls; pointers are of host memory
  void load(int rank, const void* from, std::size_t bytes);
  void store(int rank, void* to, std::size_t bytes);
  void copy(int rank, void* to, const void* from, std::size_t bytes);
  void compute(int rank, Ps duration);
  void publish(int rank, collectives::Counter& counter, std::uint64_t number);
  void wait(int rank, const collectives::Counter& counter, std::uint64_t number);

 private:
  static constexpr std::size_t page_bytes = 4096;
  static constexpr unsigned vector_bytes = 32;  // of a load or store of AVX2, or of two of NEON
  struct Page {
    Address address;
    int owner;
  };
  // When what is being fetched arrives: in each group, and in the last one that must wait for its turn.
  struct Fetches {
    std::vector<ConfigClock> arrival;  // by group
    ConfigClock last_arrival;
  };
  struct Published {
    std::uint64_t number;
    ConfigClock at;
  };
  struct Waiting {
    const collectives::Counter* counter = nullptr;
    std::uint64_t number = 0;
  };

  Page& page_of(int rank, const void* pointer);
  Address address_of(int rank, const void* pointer);
  void access_vectors(int rank, Access kind, Address address, std::size_t bytes);
  void let_others_run(int rank);
  int next_rank() const;
  // Calls `access(begin, bytes)` for the part of a range in each page.
  template <class AccessPart>
  void read_pages(int rank, const void* from, std::size_t bytes, AccessPart access);
  // Calls `access()`, which reads a page or a line that other cores may fetch, too.
  template <class AccessPart>
  void fetch(int rank, Fetches& fetches, AccessPart access);
  const Published* find(const collectives::Counter& counter, std::uint64_t number) const;
  void load_counter(int rank, const collectives::Counter& counter);

  Node& node_;
  int group_;
  Readers readers_;
  Fibers fibers_;
  std::vector<Waiting> waits_;
  // The rest of the simulated page from which each rank's next host page is taken; simulated pages may be longer.
  struct Rest {
    Address begin = 0, end = 0;
  };
  std::vector<Rest> rests_;
  std::unordered_map<std::uintptr_t, Page> pages_;
  std::unordered_map<const collectives::Counter*, std::vector<Published>> published_;
  std::unordered_map<std::uintptr_t, Fetches> fetches_;  // by address of a page or a counter
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
  void note_read(int, const void*, std::size_t) {}  // whoever uses the data loads them
  void read_memory(int, void* to, std::uintptr_t from, std::size_t bytes, bool = false) {
    copy(to, reinterpret_cast<const void*>(from), bytes);
  }
  void write_memory(int, std::uintptr_t to, const void* from, std::size_t bytes) {
    copy(reinterpret_cast<void*>(to), from, bytes);
  }

 private:
  void copy(void* to, const void* from, std::size_t bytes) {
    if (bytes <= collectives::line_bytes) std::memcpy(to, from, bytes);  // it may be an address or a place
    ranks_.copy(rank_, to, from, bytes);
  }

  NodeRanks& ranks_;
  int rank_;
};

}  // namespace nearfield::sim
