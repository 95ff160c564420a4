#include "sim/run/replay/datatype.hpp"

#include <algorithm>

namespace nearfield::sim::replay {
namespace {

std::int64_t to_signed(std::uint64_t bytes) { return static_cast<std::int64_t>(bytes); }

}  // namespace

Datatype::Datatype(const stream::Layout& layout, AddressSpace& space)
    : space_(space), extent_bytes_(layout.extent_bytes) {
  for (const auto& run : layout.runs)
    if (run.bytes > 0 && run.count > 0) add_run(run);
}

// Adds a run of blocks, and merges it with the previous run if the two are contiguous.
void Datatype::add_run(const stream::LayoutRun& run) {
  StridedBlocks added{size_bytes_, run.offset_bytes, run.bytes, run.count, run.stride_bytes};
  if (added.count == 1 || added.stride_bytes == to_signed(added.bytes)) added.bytes *= added.count, added.count = 1;
  size_bytes_ += added.bytes * added.count;
  if (!blocks_.empty()) {
    StridedBlocks& last = blocks_.back();
    if (last.count == 1 && added.count == 1 && last.offset_bytes + to_signed(last.bytes) == added.offset_bytes) {
      last.bytes += added.bytes;
      return;
    }
  }
  blocks_.push_back(added);
}

// Returns the blocks of `count` elements if they have one stride; otherwise no blocks.
Datatype::StridedBlocks Datatype::consecutive_blocks(std::uint64_t count) const {
  if (blocks_.size() != 1) return {};
  StridedBlocks blocks = blocks_.front();
  if (blocks.count == 1)
    blocks.count = count, blocks.stride_bytes = extent_bytes_;
  else if (count > 1 && extent_bytes_ == to_signed(blocks.count) * blocks.stride_bytes)
    blocks.count *= count;
  else if (count > 1)
    return {};
  if (blocks.stride_bytes == to_signed(blocks.bytes)) blocks.bytes *= blocks.count, blocks.count = 1;
  return blocks;
}

Buffer Datatype::buffer(std::uint64_t address, std::uint64_t count) const {
  const std::uint64_t bytes = count * size_bytes_;
  if (bytes == 0) return {};
  const StridedBlocks blocks = consecutive_blocks(count);
  const std::uint64_t begin = address + static_cast<std::uint64_t>(blocks.offset_bytes);
  const auto stride = static_cast<std::uint64_t>(blocks.stride_bytes);
  const bool is_plain_layout =
      blocks.bytes > 0 && (blocks.count == 1 || blocks.stride_bytes >= to_signed(blocks.bytes));
  if (!is_plain_layout || (blocks.count - 1) * stride + blocks.bytes > space_.bytes_to_region_end(begin))
    return {address, bytes, *this};
  if (blocks.count == 1) return {space_.to_node_address(begin), blocks.bytes};
  return {space_.to_node_address(begin), blocks.count, blocks.bytes, stride};
}

AddressRange Datatype::contiguous_range_at(std::uint64_t begin, std::uint64_t offset) const {
  const std::uint64_t element = offset / size_bytes_, element_offset = offset % size_bytes_;
  const auto next_blocks = std::ranges::upper_bound(blocks_, element_offset, {}, &StridedBlocks::packed_offset);
  const StridedBlocks& blocks = *std::prev(next_blocks);
  const std::uint64_t block = (element_offset - blocks.packed_offset) / blocks.bytes;
  const std::uint64_t block_offset = (element_offset - blocks.packed_offset) % blocks.bytes;
  const std::int64_t at = to_signed(element) * extent_bytes_ + blocks.offset_bytes +
                          to_signed(block) * blocks.stride_bytes + to_signed(block_offset);
  const std::uint64_t address = begin + static_cast<std::uint64_t>(at),
                      region_bytes = space_.bytes_to_region_end(address);
  const bool is_dense = blocks_.size() == 1 && blocks.count == 1 && to_signed(blocks.bytes) == extent_bytes_;
  return {space_.to_node_address(address),
          is_dense ? region_bytes : std::min(blocks.bytes - block_offset, region_bytes)};
}

}  // namespace nearfield::sim::replay
