// Micro-benchmarks by which a machine's description is fitted to the machine at hand. Each returns samples in ns per
// step; a sample is the mean of enough steps that the clock's cost does not matter. They use no instructions that only
// one architecture has. Callers pin the thread to a core before; those of pairs pin threads of their own.
//
// A sample may contain what else the machine did, so callers use low quantiles and report the spread.
#pragma once

#include <cstddef>
#include <vector>

#include "calibrate/block.hpp"

namespace nearfield::calibrate {

using Samples = std::vector<double>;

// Returns the cost of reading the clock (base/clock.hpp) once.
Samples clock_reading_ns(int samples);

// Returns the time of an addition that needs the result of the one before it: one cycle of the core's clock.
Samples addition_ns(int samples);

struct Chase {
  std::size_t bytes = 0;          // over how much memory
  std::size_t stride_bytes = 64;  // between elements, each of which holds the address of the next one
  int chains = 1;                 // followed at the same time, at most max_chains
  bool in_order = false;          // the elements follow each other in memory; otherwise their order is random
};
inline constexpr int max_chains = 48;

// Follows chains of loads through the block; returns ns per load. Throws std::invalid_argument if the block is too
// small or has fewer elements than chains.
Samples chase_ns(const Block& block, const Chase& chase, int samples);

// Returns the time of reading the first `bytes` once, in order, in words of 8 bytes. Of more than 1 MiB, each sample is
// the time of another piece, scaled to the whole.
Samples read_ns(const Block& block, std::size_t bytes, int samples);

enum class CopyRoutine {
  memcpy,     // the C library's
  streaming,  // non-temporal stores
};

// Returns the time of copying the first `bytes` from one block to the other.
Samples copy_ns(const Block& to, const Block& from, std::size_t bytes, CopyRoutine routine, int samples);

// Returns the time of the first write to a page, base or huge, of new memory; the pages are touched in order.
Samples first_touch_ns(std::size_t pages_per_sample, PageKind pages, int samples);

// ---- two cores. Two threads are pinned to the two PUs. There are fewer samples, maybe none, if other programs do not
// let both threads run at the same time. The functions throw std::runtime_error if the PUs may not be used.

enum class PairStep {
  chase_written,  // one core follows a chain whose lines the other core has just written
  read_written,   // one core reads in order what the other core has just written
  store_written,  // one core stores to each line, which the other core has just written
  store_read,     // one core stores to each line, which it had written before, and the other core has just read
};

// Returns ns per cache line (64 bytes) of the first `bytes`.
Samples pair_ns(const Block& block, std::size_t bytes, PairStep step, int pu, int other_pu, int samples);

// Returns the time in ns in which the kernel copies the first `bytes` of another process's block into a block of this
// process by one call of process_vm_readv; nothing if it refuses to. A thread on `pu` calls it. The other process spins
// on `other_pu` meanwhile, or sleeps if the two are the same. A process that reads its own memory would be about 350 ns
// faster, since the kernel then checks no rights.
Samples kernel_copy_ns(const Block& to, const Block& from, std::size_t bytes, int pu, int other_pu, int samples);

}  // namespace nearfield::calibrate
