// Selects the algorithm of a collective by operation, number of ranks and length, from the entries that `nearfield tune
// --collectives` has written.
//
// All ranks of a communicator must select the same algorithm, so a selection depends only on arguments that MPI
// requires to be equal on all ranks. The length is the number of bytes of the vector or, in operations with a block for
// each rank, of one block. Operations whose blocks differ in length (MPI_Gatherv, MPI_Alltoallv ...) have no length
// that all ranks know; for these operations no algorithm is selected.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace nearfield::collectives {

enum class Operation { barrier, bcast, gather, scatter, reduce, allgather, alltoall, allreduce, reduce_scatter, scan };
inline constexpr std::size_t num_operations = 10;

// Returns the name of an operation, as used in settings and rules, such as "bcast".
const char* operation_name(Operation operation);

// The algorithms of collectives. `flat`: each rank reads from all ranks that have data for it. `mpi`: the MPI library
// performs the collective. Communicators that span nodes can only use `leaders`, `lanes` and `mpi`; `leaders` and
// `lanes` exist for these communicators only. Most algorithms exist for some operations only (selection.cpp). `none`:
// no algorithm is selected.
enum class Algorithm : std::uint8_t { flat, whole, slices, grouped, doubling, leaders, lanes, mpi, none };

struct AlgorithmChoice {
  Algorithm algorithm = Algorithm::flat;
  int ranks_per_group = 0;  // ranks per group, for the algorithm `grouped`
};

// The algorithm for lengths from the end of the previous range up to `max_bytes`.
struct LengthRange {
  std::size_t max_bytes;
  AlgorithmChoice choice;
};

// The algorithms of one operation by length, measured with `ranks_per_node` ranks on each of `num_nodes` nodes.
struct AlgorithmRule {
  Operation operation;
  int ranks_per_node, num_nodes;
  std::vector<LengthRange> ranges;
};

class AlgorithmSelection {
 public:
  AlgorithmSelection() = default;
  // For each operation, uses the entry whose numbers of ranks per node and of nodes are nearest to `ranks` and `nodes`,
  // if neither differs by more than a factor of two; without such an entry, the defaults for several nodes or for many
  // ranks. Entries for one node and for several nodes are never used for each other, since their algorithms differ.
  AlgorithmSelection(const std::vector<AlgorithmRule>& rules, int ranks, int nodes = 1);

  bool has_ranges(Operation operation) const { return !ranges_[static_cast<std::size_t>(operation)].empty(); }

  AlgorithmChoice choose_algorithm(Operation operation, std::size_t bytes) const {
    const auto& ranges = ranges_[static_cast<std::size_t>(operation)];
    for (const LengthRange& range : ranges)
      if (bytes <= range.max_bytes) return range.choice;
    return {};
  }

 private:
  std::array<std::vector<LengthRange>, num_operations> ranges_;
};

// Parses an entry such as "bcast@64=flat-2048+grouped8-65536+mpi": the operation, the number of ranks, and ranges of
// lengths in ascending order, of which only the last may lack its upper end; "grouped8" means groups of 8 ranks. For
// several nodes, the number of ranks per node is followed by the number of nodes: "allreduce@64x4=leaders-8192+lanes".
// Returns false if the first `length` characters of `text` are not of this form.
bool parse_algorithm_rule(const char* text, std::size_t length, AlgorithmRule& rule);

// The algorithm that replaces the selection of an operation in all communicators of this process; `none`: not replaced.
// measure.cpp sets it by nearfield_collectives_override(), on all ranks between the same two collectives.
struct AlgorithmOverride : std::atomic<AlgorithmChoice> {
  constexpr AlgorithmOverride() : std::atomic<AlgorithmChoice>({Algorithm::none, 0}) {}
};
static_assert(AlgorithmOverride::is_always_lock_free);
extern AlgorithmOverride algorithm_overrides[num_operations];

}  // namespace nearfield::collectives
