// Receives the accesses of a trace: filters them as the user wants, assigns a core to every thread, and performs the
// accesses in the simulated memory. Parsers call load(), store(), instruction(), other() or thread() for each record.
#pragma once

#include <limits>
#include <unordered_map>

#include "trace/virtual_memory.hpp"

namespace nearfield::trace {

using sim::Count;

class Accesses {
 public:
  static constexpr Count no_limit = std::numeric_limits<Count>::max();
  struct Options {
    Count skip = 0;             // at the beginning
    Count limit = no_limit;     // of accesses after these
    bool instructions = false;  // include them, as loads
    bool chase = false;         // every load needs the data of the load before it
  };

  // Without a memory it performs nothing, which serves to test formats.
  Accesses() = default;
  Accesses(VirtualMemory& memory, const Options& options)
      : memory_(&memory),
        skip_(options.skip),
        left_(options.limit),
        takes_instructions_(options.instructions),
        load_(options.chase ? sim::Access::chase : sim::Access::load) {}

  // ---- for parsers, which call these in trace order. An access has from 1 to max_bytes.
  static constexpr std::uint64_t max_bytes = 1 << 20;  // in which a mistaken size shows
  static bool is_size(std::uint64_t bytes) { return bytes - 1 < max_bytes; }

  void load(std::uint64_t address, std::uint64_t bytes) { add(load_, address, bytes, loads); }
  void store(std::uint64_t address, std::uint64_t bytes) { add(sim::Access::store, address, bytes, stores); }
  void instruction(std::uint64_t address, std::uint64_t bytes) {
    if (takes_instructions_)
      add(sim::Access::load, address, bytes, instructions);
    else if (skip_ == 0 && left_ > 0)
      ++instructions;
  }
  // Counts a prefetch, a flush or the like, which is not simulated.
  void other() {
    if (skip_ == 0 && left_ > 0) ++others;
  }
  // Begins the accesses of this thread. A new thread gets the next core, and the first one after the last.
  void thread(std::uint64_t id) {
    if (id != thread_ && memory_) [[unlikely]] {
      const auto cores = static_cast<std::size_t>(memory_->cores());
      core_ = cores_.try_emplace(id, static_cast<int>(cores_.size() % cores)).first->second;
      thread_ = id;
    }
  }

  // ---- for the reader of a trace
  bool full() const { return left_ == 0; }  // the limit is reached
  Count threads() const { return cores_.size(); }
  Count loads = 0, stores = 0;
  Count instructions = 0;  // simulated as loads, or left out
  Count others = 0;        // left out
  Count skipped = 0;

 private:
  void add(sim::Access kind, std::uint64_t address, std::uint64_t bytes, Count& counted) {
    if (skip_ > 0) {
      --skip_;
      ++skipped;
    } else if (left_ > 0) {
      --left_;
      ++counted;
      memory_->access(core_, kind, address, static_cast<std::uint32_t>(bytes));
    }
  }

  VirtualMemory* memory_ = nullptr;
  Count skip_ = 0, left_ = 0;
  bool takes_instructions_ = false;
  sim::Access load_ = sim::Access::load;          // the kind of loads
  std::unordered_map<std::uint64_t, int> cores_;  // of threads
  std::uint64_t thread_ = ~std::uint64_t{0};
  int core_ = 0;
};

}  // namespace nearfield::trace
