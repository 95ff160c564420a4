#include "halo/segment.hpp"

#include <cstdint>
#include <cstdio>
#include <fstream>

#include "halo/error.hpp"

namespace nearfield::halo {
namespace {

// Returns whether the condition is true on all ranks of the node. Collective over these.
bool is_true_on_all_ranks(const Node& node, bool condition) {
  int result = condition;
  MPI_Allreduce(MPI_IN_PLACE, &result, 1, MPI_INT, MPI_MIN, node.node_comm);
  return result;
}

}  // namespace

Segment::Segment(const Node& node, std::size_t bytes, std::size_t part_begin, std::size_t part_end,
                 SegmentBacking backing)
    : bytes_(bytes) {
  Problem problem;
  try {
    const SegmentPart part{bytes, part_begin, part_end};
    if (backing == SegmentBacking::window)
      allocate(node, part, window_backings);
    else
      allocate(node, part, file_backings);
  } catch (const Error& error) {
    problem = {error.what(), error.code};
  }
  throw_collectively(node.comm, problem.text, problem.code);  // throws if another node has failed
}

// Allocates memory by the first backing that works on all ranks of the node. If there is none, throws on all ranks of
// the node what was wrong with the last one.
void Segment::allocate(const Node& node, const SegmentPart& part, std::span<const Backing> backings) {
  Problem problem;
  for (const Backing& backing : backings) {
    problem = backing.find_obstacle(part.segment_bytes);
    if (!is_true_on_all_ranks(node, problem.text.empty())) continue;
    auto mapping = backing.try_make(node, part.segment_bytes, problem);
    if (!is_true_on_all_ranks(node, mapping.has_value())) continue;
    mapping_ = std::move(*mapping);
    memory_description_ = backing.description;
    pages_ = backing.touch_pages(node, mapping_, part);
    return;
  }
  throw_collectively(node.node_comm, problem.text, problem.code);
}

std::string Segment::explain() const {
  return format_mebibytes(bytes_) + " in " + memory_description_ + ", " + pages_.description;
}

std::size_t Segment::huge_page_backed_bytes() const {
  std::ifstream smaps("/proc/self/smaps");
  const auto begin_address = reinterpret_cast<std::uintptr_t>(data());
  std::size_t bytes = 0;
  bool inside = false;
  for (std::string line; std::getline(smaps, line);) {
    unsigned long from = 0, to = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &from, &to) == 2)
      inside = from < begin_address + bytes_ && to > begin_address;
    unsigned long amount = 0;
    for (const char* key : {"ShmemPmdMapped: %lu", "FilePmdMapped: %lu", "Shared_Hugetlb: %lu", "Private_Hugetlb: %lu"})
      if (inside && std::sscanf(line.c_str(), key, &amount) == 1) bytes += amount * 1024;
  }
  return bytes;
}

}  // namespace nearfield::halo
