// A buffer of messages: bytes in a node's memory, in one piece or in equal blocks at a stride, as MPI_Type_vector
// describes them, or wherever a Scattered says. Contents are not kept.
#pragma once

#include <cstdint>

#include "sim/access.hpp"

namespace nearfield::sim {

// Some bytes in one piece.
struct Run {
  Address address = 0;
  std::uint64_t bytes = 0;
};

// Where the bytes of a buffer lie that are not in equal blocks. It must live until the buffer's messages are over.
class Scattered {
 public:
  // Returns where the data of the buffer that begins at `begin`, a number that only it understands, goes on from
  // `offset`, and how far it does in one piece.
  virtual Run run_at(std::uint64_t begin, std::uint64_t offset) const = 0;

 protected:
  ~Scattered() = default;
};

struct Buffer {
  Address address = 0;
  std::uint64_t block_bytes = 0;
  std::uint64_t count = 1;         // blocks
  std::uint64_t stride_bytes = 0;  // from the start of one block to that of the next
  const Scattered* scattered = nullptr;

  Buffer() = default;
  Buffer(Address begin, std::uint64_t bytes) : address(begin), block_bytes(bytes), stride_bytes(bytes) {}
  Buffer(Address begin, std::uint64_t blocks, std::uint64_t bytes_of_block, std::uint64_t stride)
      : address(begin), block_bytes(bytes_of_block), count(blocks), stride_bytes(stride) {}
  Buffer(std::uint64_t begin, std::uint64_t bytes, const Scattered& where) : Buffer(begin, bytes) {
    scattered = &where;
  }

  std::uint64_t bytes() const { return block_bytes * count; }
  // Returns the bytes from the first one to behind the last, if nothing is scattered.
  std::uint64_t extent_bytes() const { return bytes() == 0 ? 0 : (count - 1) * stride_bytes + block_bytes; }
  bool contiguous() const { return !scattered && (count <= 1 || stride_bytes == block_bytes); }
};

}  // namespace nearfield::sim
