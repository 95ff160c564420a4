// Is replayed data at the addresses of its MPI datatype, for any datatype and any placement of the process's regions?
#include <random>

#include "check.hpp"
#include "sim/node/node.hpp"
#include "sim/run/replay/datatype.hpp"

namespace {

using namespace nearfield;
using sim::Address;
using sim::AddressSpace;
using sim::Buffer;
using sim::replay::Datatype;

constexpr std::uint64_t region = 1 << 12;

// Returns a space whose regions are far from each other, in descending order.
AddressSpace scattered_space() {
  return {region, [next = std::uint64_t{1} << 30]() mutable { return next -= 16 * region; }};
}

// Returns the addresses of a buffer's bytes, in order.
std::vector<Address> bytes_of(const Buffer& buffer) {
  std::vector<Address> all;
  while (all.size() < buffer.bytes()) {
    const sim::AddressRange run = sim::contiguous_range_at(buffer, all.size());
    for (std::uint64_t i = 0; i < run.bytes && all.size() < buffer.bytes(); ++i) all.push_back(run.address + i);
  }
  return all;
}

// Returns the same, byte by byte from the definition.
std::vector<Address> expected(const stream::Layout& layout, AddressSpace& space, std::uint64_t address,
                              std::uint64_t count) {
  std::vector<Address> all;
  for (std::uint64_t element = 0; element < count; ++element)
    for (const auto& run : layout.runs)
      for (std::uint64_t block = 0; block < run.count; ++block)
        for (std::uint64_t byte = 0; byte < run.bytes; ++byte)
          all.push_back(space.to_node_address(address + element * static_cast<std::uint64_t>(layout.extent_bytes) +
                                              static_cast<std::uint64_t>(run.offset_bytes) +
                                              block * static_cast<std::uint64_t>(run.stride_bytes) + byte));
  return all;
}

stream::Layout random_layout(std::mt19937& random) {
  stream::Layout layout;
  const int runs = static_cast<int>(random() % 3) + (random() % 8 > 0);
  std::int64_t end = static_cast<std::int64_t>(random() % 40) - 20;
  for (int i = 0; i < runs; ++i) {
    stream::LayoutRun run;
    run.offset_bytes = end + static_cast<std::int64_t>(random() % 2 * (random() % 30));
    run.bytes = random() % 20;
    run.count = random() % 5;
    run.stride_bytes = static_cast<std::int64_t>(run.bytes + random() % 2 * (random() % 9));
    if (random() % 8 == 0) run.stride_bytes = -run.stride_bytes;
    end = run.offset_bytes + static_cast<std::int64_t>(run.count) * run.stride_bytes;
    layout.size_bytes += run.bytes * run.count;
    layout.runs.push_back(run);
  }
  layout.extent_bytes = end + static_cast<std::int64_t>(random() % 2 * (random() % 30));
  return layout;
}

// Is every byte of any datatype at the address of its definition, across ends of regions, too?
void bytes_lie_where_they_should() {
  std::mt19937 random(11);
  for (int i = 0; i < 3000; ++i) {
    const stream::Layout layout = random_layout(random);
    AddressSpace space = scattered_space();
    const Datatype type(layout, space);
    const std::uint64_t address = 100 * region - random() % 300, count = random() % 7;
    CHECK(type.size_bytes() == layout.size_bytes);
    CHECK(bytes_of(type.buffer(address, count)) == expected(layout, space, address, count));
  }
}

bool is(const Buffer& buffer, std::uint64_t count, std::uint64_t bytes, std::uint64_t stride) {
  return !buffer.scattered_layout && buffer.count == count && buffer.block_bytes == bytes &&
         (count == 1 || buffer.stride_bytes == stride);
}

// Does data in equal blocks become an ordinary buffer, which needs no look-up, unless it spans two regions?
void regular_data_is_recognised() {
  AddressSpace space = scattered_space();
  const auto buffer = [&](std::vector<stream::LayoutRun> runs, std::int64_t extent, std::uint64_t count,
                          std::uint64_t address = 0) {
    static std::vector<std::unique_ptr<Datatype>> types;
    types.push_back(std::make_unique<Datatype>(stream::Layout{0, 0, extent, std::move(runs), ""}, space));
    return types.back()->buffer(address, count);
  };
  CHECK(is(buffer({{0, 8, 1, 8}}, 8, 100), 1, 800, 0));                // doubles
  CHECK(is(buffer({{0, 4, 1, 4}, {4, 8, 1, 8}}, 12, 10), 1, 120, 0));  // a structure without holes
  CHECK(is(buffer({{0, 8, 1, 8}}, 64, 10), 10, 8, 64));                // a resized type: a column
  CHECK(is(buffer({{0, 16, 10, 80}}, 736, 1), 10, 16, 80));            // a vector
  CHECK(is(buffer({{0, 16, 10, 80}}, 800, 3), 30, 16, 80));            // three consecutive ones
  CHECK(is(buffer({{0, 8, 4, 8}}, 32, 3), 1, 96, 0));                  // a vector without gaps
  CHECK(buffer({{0, 16, 10, 80}}, 736, 2).scattered_layout);
  CHECK(buffer({{0, 8, 1, 8}, {16, 8, 1, 8}}, 32, 2).scattered_layout);
  CHECK(buffer({{0, 8, 1, 8}}, 8, 100, region - 8).scattered_layout);
  CHECK(is(buffer({{0, 8, 1, 8}}, 8, 0), 1, 0, 0));
}

}  // namespace

int main() {
  bytes_lie_where_they_should();
  regular_data_is_recognised();
  return failed_checks == 0 ? 0 : 1;
}
