// Receives the accesses of a trace from a parser, skips and limits them as the user requests, assigns a core to every
// thread, and performs them in the simulated memory. Parsers call add_load(), add_store(), add_instruction(),
// count_other() or set_thread() for each record.
#pragma once

#include <limits>
#include <unordered_map>

#include "trace/virtual_memory.hpp"

namespace nearfield::trace {

using sim::Count;

class AccessSink {
 public:
  static constexpr Count no_limit = std::numeric_limits<Count>::max();
  struct Options {
    Count skip = 0;             // number of accesses to skip at the beginning
    Count limit = no_limit;     // maximum number of accesses after the skipped ones
    bool instructions = false;  // simulate instruction fetches as loads
    bool chase = false;         // every load depends on the data of the previous load
  };

  // Without a memory no access is performed; used to test whether records are readable.
  AccessSink() = default;
  AccessSink(VirtualMemory& memory, const Options& options)
      : memory_(&memory),
        skip_(options.skip),
        left_(options.limit),
        takes_instructions_(options.instructions),
        load_(options.chase ? sim::Access::chase : sim::Access::load) {}

  // ---- called by parsers, in trace order. An access has 1 to max_bytes bytes.
  static constexpr std::uint64_t max_bytes = 1 << 20;  // a larger size is an error in the trace
  static bool is_valid_size(std::uint64_t bytes) { return bytes - 1 < max_bytes; }

  void add_load(std::uint64_t address, std::uint64_t bytes) { perform_or_skip(load_, address, bytes, loads); }
  void add_store(std::uint64_t address, std::uint64_t bytes) {
    perform_or_skip(sim::Access::store, address, bytes, stores);
  }
  void add_instruction(std::uint64_t address, std::uint64_t bytes) {
    if (takes_instructions_)
      perform_or_skip(sim::Access::load, address, bytes, instructions);
    else if (skip_ == 0 && left_ > 0)
      ++instructions;
  }
  // Counts a record that is not simulated, such as a prefetch or a flush.
  void count_other() {
    if (skip_ == 0 && left_ > 0) ++others;
  }
  // Assigns the following accesses to this thread. Each new thread gets the next core, in turn.
  void set_thread(std::uint64_t id) {
    if (id != thread_ && memory_) [[unlikely]] {
      const auto cores = static_cast<std::size_t>(memory_->cores());
      core_ = cores_.try_emplace(id, static_cast<int>(cores_.size() % cores)).first->second;
      thread_ = id;
    }
  }

  // ---- called by the reader of a trace
  bool is_limit_reached() const { return left_ == 0; }  // the limit of accesses is reached
  Count thread_count() const { return cores_.size(); }
  Count loads = 0, stores = 0;
  Count instructions = 0;  // instruction fetches, simulated as loads or not simulated
  Count others = 0;        // records that are not simulated
  Count skipped = 0;

 private:
  void perform_or_skip(sim::Access kind, std::uint64_t address, std::uint64_t bytes, Count& counted) {
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
  sim::Access load_ = sim::Access::load;          // kind of access that add_load() performs
  std::unordered_map<std::uint64_t, int> cores_;  // core of each thread id
  std::uint64_t thread_ = ~std::uint64_t{0};
  int core_ = 0;
};

}  // namespace nearfield::trace
