// A derived datatype of a recorded process, and the layout of its buffers in the simulated node. Blocks with one
// stride, which is the most common case (contiguous data, MPI_Type_vector, columns of an array), become an ordinary
// Buffer. Structures, indexed types and nested vectors are looked up piece by piece, as is data that spans two regions
// of the process (address_space.hpp), which need not be adjacent in the node. RDMA protocols pack such data first, as
// they pack strided blocks.
#pragma once

#include <vector>

#include "sim/memory/address_space.hpp"
#include "sim/node/buffer.hpp"
#include "trace/stream/events.hpp"

namespace nearfield::sim::replay {

class Datatype final : public ScatteredLayout {
 public:
  // `space`: the address space of the recorded process. It must outlive the datatype, which must outlive its buffers.
  Datatype(const stream::Layout& layout, AddressSpace& space);

  std::uint64_t size_bytes() const { return size_bytes_; }
  std::int64_t extent_bytes() const { return extent_bytes_; }
  // Returns the buffer of `count` elements that begins at an address of the recorded process.
  Buffer buffer(std::uint64_t address, std::uint64_t count) const;
  AddressRange contiguous_range_at(std::uint64_t begin, std::uint64_t offset) const override;

 private:
  struct StridedBlocks {
    std::uint64_t packed_offset = 0;  // offset in the packed data of an element
    std::int64_t offset_bytes = 0;
    std::uint64_t bytes = 0, count = 1;
    std::int64_t stride_bytes = 0;
  };
  void add_run(const stream::LayoutRun& run);
  StridedBlocks consecutive_blocks(std::uint64_t count) const;

  AddressSpace& space_;
  std::uint64_t size_bytes_ = 0;
  std::int64_t extent_bytes_ = 0;
  std::vector<StridedBlocks> blocks_;  // the blocks of one element, in the order of its data
};

}  // namespace nearfield::sim::replay
