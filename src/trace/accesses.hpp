// Receives the accesses of a trace from a parser, skips and limits them as the user requests, assigns a core to every
// thread, and performs them in the simulated memory. Parsers call add_load(), add_store(), add_instruction(),
// count_unsimulated_record() or set_current_thread() for each record.
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
    Count accesses_to_skip = 0;           // at the beginning of the trace
    Count max_accesses = no_limit;        // maximum number of simulated accesses after the skipped ones
    bool simulates_instructions = false;  // simulates instruction fetches as loads
    bool chases_pointers = false;         // every load depends on the data of the previous load
  };

  // Without a memory no access is performed; used to test whether records are readable.
  AccessSink() = default;
  AccessSink(VirtualMemory& memory, const Options& options)
      : memory_(&memory),
        remaining_to_skip_(options.accesses_to_skip),
        remaining_to_simulate_(options.max_accesses),
        simulates_instructions_(options.simulates_instructions),
        load_kind_(options.chases_pointers ? sim::Access::chase : sim::Access::load) {}

  // ---- called by parsers, in trace order. An access has 1 to max_access_bytes bytes.
  static constexpr std::uint64_t max_access_bytes = 1 << 20;  // a larger size is an error in the trace
  static bool is_valid_size(std::uint64_t bytes) { return bytes - 1 < max_access_bytes; }

  void add_load(std::uint64_t address, std::uint64_t bytes) { perform_or_skip(load_kind_, address, bytes, loads); }
  void add_store(std::uint64_t address, std::uint64_t bytes) {
    perform_or_skip(sim::Access::store, address, bytes, stores);
  }
  void add_instruction(std::uint64_t address, std::uint64_t bytes) {
    if (simulates_instructions_)
      perform_or_skip(sim::Access::load, address, bytes, instructions);
    else if (remaining_to_skip_ == 0 && remaining_to_simulate_ > 0)
      ++instructions;
  }
  // Counts a record that is not simulated, such as a prefetch or a flush.
  void count_unsimulated_record() {
    if (remaining_to_skip_ == 0 && remaining_to_simulate_ > 0) ++unsimulated_records;
  }
  // Assigns the following accesses to this thread. Each new thread is assigned the next core, round-robin.
  void set_current_thread(std::uint64_t thread_id) {
    if (thread_id != current_thread_ && memory_) [[unlikely]] {
      const auto cores = static_cast<std::size_t>(memory_->num_cores());
      current_core_ =
          core_by_thread_.try_emplace(thread_id, static_cast<int>(core_by_thread_.size() % cores)).first->second;
      current_thread_ = thread_id;
    }
  }

  // ---- called by the reader of a trace
  bool is_limit_reached() const { return remaining_to_simulate_ == 0; }
  Count num_threads() const { return core_by_thread_.size(); }
  Count loads = 0, stores = 0;
  Count instructions = 0;         // instruction fetches, simulated as loads or not simulated
  Count unsimulated_records = 0;  // such as prefetches and flushes
  Count skipped = 0;              // skipped accesses

 private:
  void perform_or_skip(sim::Access access_kind, std::uint64_t address, std::uint64_t bytes, Count& counter) {
    if (remaining_to_skip_ > 0) {
      --remaining_to_skip_;
      ++skipped;
    } else if (remaining_to_simulate_ > 0) {
      --remaining_to_simulate_;
      ++counter;
      memory_->access(current_core_, access_kind, address, static_cast<std::uint32_t>(bytes));
    }
  }

  VirtualMemory* memory_ = nullptr;
  Count remaining_to_skip_ = 0, remaining_to_simulate_ = 0;
  bool simulates_instructions_ = false;
  sim::Access load_kind_ = sim::Access::load;              // kind of access that add_load() performs
  std::unordered_map<std::uint64_t, int> core_by_thread_;  // key: thread id
  std::uint64_t current_thread_ = ~std::uint64_t{0};
  int current_core_ = 0;
};

}  // namespace nearfield::trace
