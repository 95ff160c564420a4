// Micro-benchmarks whose results calibrate the description of this machine. Each function returns samples in ns per
// step (load, copy, page ...). A sample is the mean over enough steps to make the cost of reading the clock negligible.
// No benchmark uses instructions that only one architecture has. Callers must pin the calling thread to a core; the
// benchmarks of pairs of cores start and pin their own threads.
//
// Samples include interference by other programs, so callers should use low quantiles and report the spread.
#pragma once

#include <cstddef>
#include <vector>

#include "calibrate/block.hpp"

namespace nearfield::calibrate {

using Samples = std::vector<double>;

// Returns the cost of reading the clock (base/clock.hpp) once.
Samples measure_clock_reading_ns(int num_samples);

// Returns the time of one addition in a chain of dependent additions: one cycle of the core's clock.
Samples measure_addition_ns(int num_samples);

// Returns the time of a mispredicted branch minus the time of a predicted branch. Of branches on random bits, a core
// mispredicts one in two.
Samples measure_misprediction_ns(int num_samples);

struct PointerChase {
  std::size_t bytes = 0;          // footprint of the chain
  std::size_t stride_bytes = 64;  // between elements; an element holds the address of the next element
  int num_chains = 1;             // independent chains followed concurrently, at most max_chains
  bool is_sequential = false;     // each element points to the next one in memory; otherwise the order is random
};
inline constexpr int max_chains = 48;

// Follows chains of dependent loads through the block. Returns ns per load. Throws std::invalid_argument if the block
// is too small, or if there are fewer elements than chains.
Samples measure_chase_ns(const MemoryBlock& block, const PointerChase& chase, int num_samples);

// Returns the time of one sequential read of the first `bytes` of the block, in words of 8 bytes. If there are more
// than 1 MiB, each sample times a different piece of 1 MiB, and is scaled to all `bytes`.
Samples measure_read_ns(const MemoryBlock& block, std::size_t bytes, int num_samples);

enum class CopyRoutine {
  memcpy,     // memcpy() of the C library
  streaming,  // non-temporal stores
};

// Returns the time of one copy of the first `bytes` from one block to the other.
Samples measure_copy_ns(const MemoryBlock& to, const MemoryBlock& from, std::size_t bytes, CopyRoutine routine,
                        int num_samples);

// Returns ns per page for the first write to newly mapped base or huge pages, which are written in order.
Samples measure_first_touch_ns(std::size_t pages_per_sample, PageKind page_kind, int num_samples);

// ---- pairs of cores. Two threads are pinned to the two PUs (hardware threads). If other programs keep the threads
// from running concurrently, the functions return fewer samples, or none. They throw std::runtime_error if the process
// may not use the PUs.

enum class PairStep {
  chase_written,  // the timed core follows a pointer chain whose lines the other core has just written
  read_written,   // the timed core reads, in order, the lines that the other core has just written
  store_written,  // the timed core stores to each line that the other core has just written
  store_read,     // the timed core stores to lines that it wrote earlier and that the other core has just read
};

// Returns ns per cache line (64 bytes) over the first `bytes` of the block. The thread on `pu` is timed; the thread on
// `other_pu` prepares the lines.
Samples measure_pair_ns(const MemoryBlock& block, std::size_t bytes, PairStep step, int pu, int other_pu,
                        int num_samples);

// Returns the time of one call of process_vm_readv that copies the first `bytes` of another process's block into a
// block of this process; no samples if the kernel denies the call. A thread on `pu` makes the call. During the call,
// the other process spins on `other_pu`, or sleeps if both PUs are the same. Reading the memory of the own process
// instead would take about 350 ns less, since the kernel then checks no permissions.
Samples measure_kernel_copy_ns(const MemoryBlock& to, const MemoryBlock& from, std::size_t bytes, int pu, int other_pu,
                               int num_samples);

}  // namespace nearfield::calibrate
