// Micro-benchmarks whose results fit a machine's description to the machine at hand. Each function returns samples in
// ns per step (load, copy, page ...). A sample is the mean over enough steps to make the cost of reading the clock
// negligible. No benchmark uses instructions that only one architecture has. Callers pin the calling thread to a core
// first; the benchmarks of pairs pin threads of their own.
//
// Samples include interference by other programs, so callers use low quantiles and report the spread.
#pragma once

#include <cstddef>
#include <vector>

#include "calibrate/block.hpp"

namespace nearfield::calibrate {

using Samples = std::vector<double>;

// Returns the cost of reading the clock (base/clock.hpp) once.
Samples clock_reading_ns(int samples);

// Returns the time of one addition in a chain of dependent additions: one cycle of the core's clock.
Samples addition_ns(int samples);

// Returns the time of one mispredicted branch beyond that of a predicted one. Of branches on random bits, a core
// mispredicts one in two.
Samples misprediction_ns(int samples);

struct PointerChase {
  std::size_t bytes = 0;          // footprint of the chain
  std::size_t stride_bytes = 64;  // between elements; an element holds the address of the next element
  int chains = 1;                 // independent chains followed concurrently, at most max_chains
  bool in_order = false;          // the elements follow each other in memory; otherwise their order is random
};
inline constexpr int max_chains = 48;

// Follows chains of dependent loads through the block. Returns ns per load. Throws std::invalid_argument if the block
// is too small, or if there are fewer elements than chains.
Samples chase_ns(const MemoryBlock& block, const PointerChase& chase, int samples);

// Returns the time of one sequential read of the first `bytes`, in words of 8 bytes. If there are more than 1 MiB, each
// sample times another piece of 1 MiB, and is scaled to the whole.
Samples read_ns(const MemoryBlock& block, std::size_t bytes, int samples);

enum class CopyRoutine {
  memcpy,     // memcpy() of the C library
  streaming,  // non-temporal stores
};

// Returns the time of one copy of the first `bytes` from one block to the other.
Samples copy_ns(const MemoryBlock& to, const MemoryBlock& from, std::size_t bytes, CopyRoutine routine, int samples);

// Returns ns per page for the first write to new memory in base or huge pages, which are touched in order.
Samples first_touch_ns(std::size_t pages_per_sample, PageKind pages, int samples);

// ---- pairs of cores. Two threads are pinned to the two PUs (hardware threads). If other programs keep the threads
// from running concurrently, the functions return fewer samples, or none. They throw std::runtime_error if the process
// may not use the PUs.

enum class PairStep {
  chase_written,  // one core follows a chain whose lines the other core has just written
  read_written,   // one core reads in order what the other core has just written
  store_written,  // one core stores to each line, which the other core has just written
  store_read,     // one core stores to each line, which it had written before, and the other core has just read
};

// Returns ns per cache line (64 bytes) over the first `bytes` of the block. The thread on `pu` is timed; the thread on
// `other_pu` prepares the lines.
Samples pair_ns(const MemoryBlock& block, std::size_t bytes, PairStep step, int pu, int other_pu, int samples);

// Returns the time in which one call of process_vm_readv copies the first `bytes` of another process's block into a
// block of this process; no samples if the kernel denies the call. A thread on `pu` makes the call. Meanwhile the other
// process spins on `other_pu`, or sleeps if both PUs are the same. A call that reads memory of its own process would
// take about 350 ns less, since the kernel then checks no permissions.
Samples kernel_copy_ns(const MemoryBlock& to, const MemoryBlock& from, std::size_t bytes, int pu, int other_pu,
                       int samples);

}  // namespace nearfield::calibrate
