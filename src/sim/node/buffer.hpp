// A message buffer in a node's memory. Its data is contiguous, or consists of equal blocks at a constant stride (as in
// MPI_Type_vector), or lies at the addresses that a ScatteredLayout returns. Contents are not simulated.
#pragma once

#include <cstdint>

#include "sim/memory/access.hpp"

namespace nearfield::sim {

// A contiguous range of bytes.
struct AddressRange {
  Address address = 0;
  std::uint64_t bytes = 0;
};

// The layout of a buffer that does not consist of equal blocks. The object must outlive the buffer's messages.
class ScatteredLayout {
 public:
  // Returns the contiguous address range of the data from byte `offset` of the buffer on. `begin` is the buffer's
  // address, which only this object interprets.
  virtual AddressRange contiguous_range_at(std::uint64_t begin, std::uint64_t offset) const = 0;

 protected:
  ~ScatteredLayout() = default;
};

struct Buffer {
  Address address = 0;
  std::uint64_t block_bytes = 0;
  std::uint64_t count = 1;         // number of blocks
  std::uint64_t stride_bytes = 0;  // from the start of one block to that of the next
  const ScatteredLayout* scattered_layout = nullptr;

  Buffer() = default;
  Buffer(Address begin, std::uint64_t bytes) : address(begin), block_bytes(bytes), stride_bytes(bytes) {}
  Buffer(Address begin, std::uint64_t blocks, std::uint64_t bytes_of_block, std::uint64_t stride)
      : address(begin), block_bytes(bytes_of_block), count(blocks), stride_bytes(stride) {}
  Buffer(std::uint64_t begin, std::uint64_t bytes, const ScatteredLayout& layout) : Buffer(begin, bytes) {
    scattered_layout = &layout;
  }

  std::uint64_t bytes() const { return block_bytes * count; }
  // Returns the number of bytes from the start of the first block to the end of the last one. Must not be called for a
  // buffer with a ScatteredLayout.
  std::uint64_t extent_bytes() const { return bytes() == 0 ? 0 : (count - 1) * stride_bytes + block_bytes; }
  bool is_contiguous() const { return !scattered_layout && (count <= 1 || stride_bytes == block_bytes); }
};

// Returns whether the buffer has at least max(`count`, 2) contiguous pieces.
bool has_min_pieces(const Buffer& buffer, std::uint64_t count);

}  // namespace nearfield::sim
