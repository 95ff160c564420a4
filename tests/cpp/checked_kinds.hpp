// The kinds of collectives that are checked, and the data of their calls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace nearfield::collectives {

enum class Operation {
  barrier,
  bcast,
  gather,
  scatter,
  reduce,
  allgather,
  alltoall,
  alltoallv,
  allreduce,
  reduce_scatter,
  scan,
  exscan,
  grouped_barrier,  // these by other algorithms
  grouped_bcast,
  grouped_allreduce,
  sliced_bcast,
  stepped_barrier,
  stepped_reduce,
  stepped_allreduce,
  stepped_allgather,
  stepped_alltoall,
  spanning_barrier,  // these of two nodes
  spanning_bcast,
  spanning_reduce,
  spanning_allgather,
  spanning_alltoall,
  spanning_allreduce,
  laned_allreduce
};
inline constexpr const char* operation_names[] = {"barrier",
                                                  "bcast",
                                                  "gather",
                                                  "scatter",
                                                  "reduce",
                                                  "allgather",
                                                  "alltoall",
                                                  "alltoallv",
                                                  "allreduce",
                                                  "reduce_scatter",
                                                  "scan",
                                                  "exscan",
                                                  "grouped barrier",
                                                  "grouped bcast",
                                                  "grouped allreduce",
                                                  "sliced bcast",
                                                  "stepped barrier",
                                                  "stepped reduce",
                                                  "stepped allreduce",
                                                  "stepped allgather",
                                                  "stepped alltoall",
                                                  "spanning barrier",
                                                  "spanning bcast",
                                                  "spanning reduce",
                                                  "spanning allgather",
                                                  "spanning alltoall",
                                                  "spanning allreduce",
                                                  "laned allreduce"};

// How long what each rank gives is. `long_slices`: even the slices of a reduction are longer than a slot. `wide`: the
// elements are so long that a rank's slice is empty. `uneven`: some ranks give nothing, or pieces of no length, and
// ranks offer in different places.
enum class Size { line, slot, memory, long_slices, wide, uneven };
inline constexpr const char* size_names[] = {"line", "slot", "memory", "long slices", "wide elements", "uneven"};

struct Kind {
  Operation operation = Operation::barrier;
  Size size = Size::line;
  int root = 0;              // also which rank gives how much, where that differs
  bool is_in_place = false;  // of a spanning bcast or reduce: the root is on the other node

  std::string name() const {
    std::string text = operation_names[static_cast<int>(operation)];
    if (text.ends_with("barrier")) return text;
    text += std::string("(") + size_names[static_cast<int>(size)] + ", " + std::to_string(root);
    return text + (is_in_place ? ", in place)" : ")");
  }
};

inline std::string name_sequence(const std::vector<Kind>& sequence) {
  std::string text;
  for (const Kind& kind : sequence) text += (text.empty() ? "" : " ") + kind.name();
  return text;
}

// Returns all kinds of collectives, for all roots.
inline std::vector<Kind> list_kinds(int ranks) {
  using enum Operation;
  std::vector<Kind> kinds{{}};
  const auto add = [&](Operation operation, std::vector<Size> sizes, int roots, bool may_be_in_place) {
    for (const Size size : sizes)
      for (int root = 0; root < roots; ++root)
        for (int in_place = 0; in_place <= static_cast<int>(may_be_in_place); ++in_place)
          kinds.push_back({operation, size, root, in_place == 1});
  };
  const std::vector<Size> plain{Size::line, Size::slot, Size::memory}, uneven{Size::uneven};
  add(bcast, plain, ranks, false);
  add(gather, {Size::line, Size::slot, Size::memory, Size::uneven}, ranks, false);
  add(scatter, {Size::line, Size::slot, Size::memory, Size::uneven}, ranks, false);
  add(reduce, {Size::line, Size::slot, Size::memory, Size::long_slices, Size::wide}, ranks, true);
  add(allgather, plain, 1, true);
  add(allgather, uneven, 3, true);
  add(alltoall, plain, 1, false);
  add(alltoallv, plain, 1, false);
  add(alltoallv, uneven, 3, false);
  add(allreduce, {Size::line, Size::slot, Size::memory, Size::long_slices, Size::wide}, 1, true);
  add(reduce_scatter, {Size::line, Size::slot, Size::memory, Size::uneven}, 1, true);
  add(scan, plain, 1, true);
  add(exscan, plain, 1, true);
  add(grouped_barrier, {Size::line}, 1, false);
  add(grouped_bcast, {Size::slot, Size::long_slices}, ranks, false);
  add(grouped_allreduce, {Size::line, Size::memory}, 1, true);
  add(stepped_barrier, {Size::line}, 1, false);
  add(stepped_reduce, {Size::slot}, ranks, true);
  add(stepped_allreduce, {Size::line, Size::slot}, 1, true);
  add(stepped_allgather, {Size::line, Size::slot}, 1, true);
  add(stepped_alltoall, {Size::line, Size::slot}, 1, false);
  add(sliced_bcast, {Size::slot, Size::long_slices}, ranks, false);
  add(spanning_barrier, {Size::line}, 1, false);
  add(spanning_bcast, {Size::line, Size::slot, Size::long_slices}, ranks, true);
  add(spanning_reduce, {Size::line, Size::slot, Size::memory}, ranks, true);
  add(spanning_allgather, {Size::line, Size::memory}, 1, true);
  add(spanning_alltoall, plain, 1, false);
  add(spanning_allreduce, plain, 1, true);
  add(laned_allreduce, {Size::line, Size::memory, Size::long_slices, Size::wide}, 1, true);
  return kinds;
}

// Element `i` of what a rank gives to the call at `position` in a sequence.
inline std::uint64_t value_of(std::uint64_t position, int rank, std::size_t i) {
  return (position * 8 + static_cast<std::uint64_t>(rank) + 1) * 0xd6e8feb86659fd93u + i * 0x9e3779b97f4a7c15u;
}
// Commutative, but not associative, so the result shows the order in which ranks were combined.
inline std::uint64_t combine_values(std::uint64_t a, std::uint64_t b) { return 3 * (a + b); }

}  // namespace nearfield::collectives
