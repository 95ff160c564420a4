#include "sim/run/replay/datatype.hpp"

#include <algorithm>

namespace nearfield::sim::replay {
namespace {

std::int64_t as_signed(std::uint64_t bytes) { return static_cast<std::int64_t>(bytes); }

}  // namespace

Datatype::Datatype(const stream::Layout& layout, AddressSpace& space)
    : space_(space), extent_bytes_(layout.extent_bytes) {
  for (const auto& run : layout.runs)
    if (run.bytes > 0 && run.count > 0) add_run(run);
}

// Adds a run of blocks, and merges it with the previous run if the two are contiguous.
void Datatype::add_run(const stream::LayoutRun& run) {
  StridedBlocks next{size_bytes_, run.offset_bytes, run.bytes, run.count, run.stride_bytes};
  if (next.count == 1 || next.stride_bytes == as_signed(next.bytes)) next.bytes *= next.count, next.count = 1;
  size_bytes_ += next.bytes * next.count;
  if (!blocks_.empty()) {
    StridedBlocks& last = blocks_.back();
    if (last.count == 1 && next.count == 1 && last.offset_bytes + as_signed(last.bytes) == next.offset_bytes) {
      last.bytes += next.bytes;
      return;
    }
  }
  blocks_.push_back(next);
}

// Returns the blocks of `count` elements if they have one stride; otherwise no blocks.
Datatype::StridedBlocks Datatype::consecutive_blocks(std::uint64_t count) const {
  if (blocks_.size() != 1) return {};
  StridedBlocks all = blocks_.front();
  if (all.count == 1)
    all.count = count, all.stride_bytes = extent_bytes_;
  else if (count > 1 && extent_bytes_ == as_signed(all.count) * all.stride_bytes)
    all.count *= count;
  else if (count > 1)
    return {};
  if (all.stride_bytes == as_signed(all.bytes)) all.bytes *= all.count, all.count = 1;
  return all;
}

Buffer Datatype::buffer(std::uint64_t address, std::uint64_t count) const {
  const std::uint64_t bytes = count * size_bytes_;
  if (bytes == 0) return {};
  const StridedBlocks all = consecutive_blocks(count);
  const std::uint64_t begin = address + static_cast<std::uint64_t>(all.offset_bytes);
  const auto stride = static_cast<std::uint64_t>(all.stride_bytes);
  const bool forward = all.bytes > 0 && (all.count == 1 || all.stride_bytes >= as_signed(all.bytes));
  if (!forward || (all.count - 1) * stride + all.bytes > space_.bytes_to_region_end(begin))
    return {address, bytes, *this};
  if (all.count == 1) return {space_.to_node_address(begin), all.bytes};
  return {space_.to_node_address(begin), all.count, all.bytes, stride};
}

AddressRange Datatype::run_at(std::uint64_t begin, std::uint64_t offset) const {
  const std::uint64_t element = offset / size_bytes_, inside = offset % size_bytes_;
  const auto after = std::ranges::upper_bound(blocks_, inside, {}, &StridedBlocks::packed_offset);
  const StridedBlocks& blocks = *std::prev(after);
  const std::uint64_t block = (inside - blocks.packed_offset) / blocks.bytes;
  const std::uint64_t done = (inside - blocks.packed_offset) % blocks.bytes;
  const std::int64_t at = as_signed(element) * extent_bytes_ + blocks.offset_bytes +
                          as_signed(block) * blocks.stride_bytes + as_signed(done);
  const std::uint64_t address = begin + static_cast<std::uint64_t>(at), left = space_.bytes_to_region_end(address);
  const bool dense = blocks_.size() == 1 && blocks.count == 1 && as_signed(blocks.bytes) == extent_bytes_;
  return {space_.to_node_address(address), dense ? left : std::min(blocks.bytes - done, left)};
}

}  // namespace nearfield::sim::replay
