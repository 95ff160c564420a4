#include "sim/node/node.hpp"

#include <algorithm>
#include <stdexcept>

#include "machine/machine.hpp"
#include "sim/memory/counts.hpp"
#include "sim/memory/memory.hpp"

namespace nearfield::sim {
namespace {

constexpr std::uint64_t word_bytes = 8;
// The memories of a node alternate every 8 GiB of addresses, below 128 GiB (access.hpp).
constexpr Address memory_interleave_bytes = Address{1} << 33;
constexpr Address end_of_memory = Address{1} << 37;
// The first allocation in each memory lies this many pages further from the start of its memory than in the preceding
// memory. At equal offsets, data of different memories would compete for the same cache sets.
constexpr std::uint64_t first_page_distance = 1031;

}  // namespace

bool has_min_pieces(const Buffer& buffer, std::uint64_t count) {
  if (buffer.is_contiguous()) return false;
  if (!buffer.scattered_layout) return buffer.count >= count;
  std::uint64_t pieces = 0;
  for (std::uint64_t offset = 0; offset < buffer.bytes() && pieces < count; ++pieces)
    offset += contiguous_range_at(buffer, offset).bytes;
  return pieces >= std::max<std::uint64_t>(count, 2);
}

AddressRange contiguous_range_at(const Buffer& buffer, std::uint64_t offset) {
  if (buffer.scattered_layout) return buffer.scattered_layout->contiguous_range_at(buffer.address, offset);
  if (buffer.is_contiguous()) return {buffer.address + offset, buffer.bytes() - offset};
  const std::uint64_t block = offset / buffer.block_bytes, offset_in_block = offset % buffer.block_bytes;
  return {buffer.address + block * buffer.stride_bytes + offset_in_block, buffer.block_bytes - offset_in_block};
}

Node::Node(const Machine& machine, const Options& options)
    : num_variants_(options.variants),
      page_bytes_(machine.pages.page_bytes),
      ps_per_cycle_(1e3 / machine.core.clock_ghz),
      time_per_piece_(ps_from_ns(machine.messaging.piece_ns)),
      cores_per_memory_(machine.dram.shared_by > 0 ? machine.dram.shared_by : machine.cores) {
  if (page_bytes_ == 0) throw std::invalid_argument("machine '" + machine.name + "': page_bytes: at least 1");
  if (machine.cores < 1) throw std::invalid_argument("machine '" + machine.name + "': cores: at least 1");
  // Page 0 is not allocated, since address 0 stands for no address.
  const auto memories = static_cast<Address>((machine.cores + cores_per_memory_ - 1) / cores_per_memory_);
  // Even with huge pages, the first page of a memory must lie in the first 8 GiB of that memory.
  const Address max_first_page = memory_interleave_bytes / 8 * 7 / page_bytes_;
  for (Address m = 0; m < memories; ++m)
    next_free_address_.push_back(m * memory_interleave_bytes +
                                 (1 + m * first_page_distance % max_first_page) * page_bytes_);
  if (!options.has_memory_effects) {
    clocks_.assign(static_cast<std::size_t>(machine.cores), ConfigClock(num_variants_));
    return;
  }
  memory_ = std::make_unique<NodeMemory>(machine, options.memory_slowdown, num_variants_, options.limits_ways);
}

Address Node::allocate(int core, std::uint64_t bytes) {
  Address& next = next_free_address_[static_cast<std::size_t>(core / cores_per_memory_)];
  const std::uint64_t page_aligned_bytes =
      (std::max<std::uint64_t>(bytes, 1) - 1) / page_bytes_ * page_bytes_ + page_bytes_;
  // An allocation that does not fit into the remainder of the current 8 GiB begins at this memory's next 8 GiB.
  if (next_free_address_.size() > 1 && page_aligned_bytes <= memory_interleave_bytes &&
      next / memory_interleave_bytes != (next + page_aligned_bytes - 1) / memory_interleave_bytes)
    next = (next / memory_interleave_bytes + next_free_address_.size()) * memory_interleave_bytes;
  if (bytes > end_of_memory || next > end_of_memory - page_aligned_bytes)
    throw std::length_error("a node has 128 GiB of memory, and it is full");
  const Address begin = next;
  next += page_aligned_bytes;
  return begin;
}

Node::~Node() = default;

Counts Node::counts(int variant) const { return has_memory() ? memory_->counts(variant) : Counts{}; }

Ps Node::first(int core) const { return has_memory() ? memory_->now(core)[0] : clock_of(core).first(); }

ConfigClock Node::now(int core) const { return has_memory() ? memory_->clock(core) : clock_of(core); }

void Node::advance(int core, Ps duration) {
  if (has_memory())
    memory_->advance(core, duration);
  else
    clock_of(core) += duration;
}

void Node::wait_until(int core, const ConfigClock& instant) {
  if (has_memory())
    memory_->wait_until(core, instant);
  else
    clock_of(core) = later(clock_of(core), instant);
}

void Node::drain(int core) {
  if (has_memory()) memory_->drain(core);
}

void Node::access(int core, Access kind, Address address, unsigned bytes) {
  attribute_counts_to(core);
  if (has_memory()) memory_->access(core, kind, address, bytes);
}

void Node::sweep(int core, Access kind, Address address, std::uint64_t count, std::int64_t stride_bytes,
                 unsigned bytes) {
  attribute_counts_to(core);
  if (has_memory()) memory_->sweep(core, kind, address, count, stride_bytes, bytes);
}

void Node::sweep(int core, std::span<const Sweep> sweeps) {
  if (!has_memory()) return;
  attribute_counts_to(core);
  for (const Sweep& one : sweeps) {
    if (one.count == 1 && one.work_cycles == 0)
      memory_->access(core, one.kind, one.address, one.bytes);
    else
      memory_->sweep(core, one.kind, one.address, one.count, one.stride_bytes, one.bytes,
                     std::nearbyint(one.work_cycles * ps_per_cycle_));
  }
}

void Node::replay(int core, std::span<const Reference> references) {
  attribute_counts_to(core);
  if (has_memory()) memory_->replay(core, references);
}

void Node::touch(int core, Access kind, Address address, std::uint64_t bytes) {
  if (!has_memory()) return;
  attribute_counts_to(core);
  const std::uint64_t words = bytes / word_bytes, remaining_bytes = bytes % word_bytes;
  if (words > 0) memory_->sweep(core, kind, address, words, word_bytes, word_bytes);
  if (remaining_bytes > 0)
    memory_->access(core, kind, address + words * word_bytes, static_cast<unsigned>(remaining_bytes));
}

void Node::copy(int core, Address to, Address from, std::uint64_t bytes) {
  if (bytes == 0 || !has_memory()) return;
  attribute_counts_to(core);
  memory_->copy(core, to, from, bytes);
}

void Node::copy(int core, const Buffer& to, std::uint64_t to_offset, const Buffer& from, std::uint64_t from_offset,
                std::uint64_t bytes) {
  if (!has_memory()) return;
  const bool has_pieces = time_per_piece_ > 0 && !(to.is_contiguous() && from.is_contiguous());
  while (bytes > 0) {
    if (has_pieces) memory_->advance(core, time_per_piece_);
    const AddressRange target = contiguous_range_at(to, to_offset), source = contiguous_range_at(from, from_offset);
    const std::uint64_t piece = std::min({bytes, target.bytes, source.bytes});
    copy(core, target.address, source.address, piece);
    to_offset += piece;
    from_offset += piece;
    bytes -= piece;
  }
}

// Blocks of one word are accessed by one sweep, other blocks one after the other.
void Node::touch(int core, Access kind, const Buffer& buffer, std::uint64_t offset, std::uint64_t bytes) {
  if (!has_memory()) return;
  if (!buffer.is_contiguous() && !buffer.scattered_layout && buffer.block_bytes == word_bytes &&
      offset % word_bytes == 0 && bytes % word_bytes == 0) {
    sweep(core, kind, contiguous_range_at(buffer, offset).address, bytes / word_bytes,
          static_cast<std::int64_t>(buffer.stride_bytes), word_bytes);
    return;
  }
  while (bytes > 0) {
    const AddressRange run = contiguous_range_at(buffer, offset);
    const std::uint64_t piece = std::min(bytes, run.bytes);
    touch(core, kind, run.address, piece);
    offset += piece;
    bytes -= piece;
  }
}

ConfigClock Node::dma_write(Address address, std::uint64_t bytes, std::span<const InjectionTarget> targets,
                            const ConfigClock& start) {
  attribute_counts_to(no_core);
  return has_memory() && bytes > 0 ? memory_->dma_write(address, bytes, targets, start) : start;
}

ConfigClock Node::dma_read(Address address, std::uint64_t bytes, const ConfigClock& start) {
  attribute_counts_to(no_core);
  return has_memory() && bytes > 0 ? memory_->dma_read(address, bytes, start) : start;
}

void Node::invalidate_range(Address address, std::uint64_t bytes) {
  if (has_memory()) memory_->invalidate_range(address, bytes);
}

void Node::invalidate_all() {
  if (has_memory()) memory_->invalidate_all();
}

void Node::reset_counts() {
  if (has_memory()) memory_->reset_counts();
  counts_by_core_.clear();
  counts_at_switch_ = {};
}

void Node::switch_counting_core(int core) {
  const PerfCounters now(counts(0));
  if (counting_core_ != no_core) {
    const auto number = static_cast<std::size_t>(counting_core_);
    if (counts_by_core_.size() <= number) counts_by_core_.resize(number + 1);
    counts_by_core_[number] += now - counts_at_switch_;
  }
  counts_at_switch_ = now;
  counting_core_ = core;
}

PerfCounters Node::counters_of(int core) {
  attribute_counts_to(no_core);
  const auto number = static_cast<std::size_t>(core);
  PerfCounters own_counts = number < counts_by_core_.size() ? counts_by_core_[number] : PerfCounters{};
  const PerfCounters other_counts = PerfCounters(counts(0)) - own_counts;
  own_counts.snoops = other_counts.snoops;
  own_counts.invalidations = other_counts.invalidations;
  return own_counts;
}

}  // namespace nearfield::sim
