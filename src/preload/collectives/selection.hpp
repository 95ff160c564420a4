// Which algorithm does a collective, by operation, number of ranks and length: what `nearfield tune --collectives` found.
//
// All ranks of a communicator must choose alike, so only what MPI makes equal on all of them counts. A length is the
// bytes of the vector, or of one rank's block in operations that move a block for each rank. Operations whose blocks
// differ (MPI_Gatherv, MPI_Alltoallv ...) have no length that all ranks know; nothing is selected for them.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace nearfield::collectives {

enum class Operation { barrier, bcast, gather, scatter, reduce, allgather, alltoall, allreduce, reduce_scatter, scan };
inline constexpr std::size_t operations = 10;

// Returns the name of an operation in settings and rules, such as "bcast".
const char* name_of(Operation operation);

// `flat`: each rank reads from all that have data for it. `mpi` leaves the collective to the MPI library. `leaders` and
// `lanes` are for communicators that span nodes, for which none of the others but `mpi` is. Most exist for some
// operations only (selection.cpp). `none`: nothing is chosen.
enum class Algorithm : std::uint8_t { flat, whole, slices, grouped, doubling, leaders, lanes, mpi, none };

struct Choice {
  Algorithm algorithm = Algorithm::flat;
  int group = 0;  // ranks of a group, of `grouped`
};

// The algorithm for lengths up to `last_bytes`, from the end of the range before on.
struct LengthRange {
  std::size_t last_bytes;
  Choice choice;
};

// The ranges of one operation, measured with that many ranks on each of that many nodes.
struct SelectionEntry {
  Operation operation;
  int ranks, nodes;
  std::vector<LengthRange> ranges;
};

class Selection {
 public:
  Selection() = default;
  // Takes, for each operation, the entry whose numbers of ranks and nodes are nearest, if each is at most twice or half
  // of these; without such an entry, what is usual for several nodes or for many ranks. One node and several have
  // different algorithms, so entries for the one do not serve the other.
  Selection(const std::vector<SelectionEntry>& entries, int ranks, int nodes = 1);

  bool has_ranges(Operation operation) const { return !ranges_[static_cast<std::size_t>(operation)].empty(); }

  Choice choose(Operation operation, std::size_t bytes) const {
    const auto& ranges = ranges_[static_cast<std::size_t>(operation)];
    for (const LengthRange& range : ranges)
      if (bytes <= range.last_bytes) return range.choice;
    return {};
  }

 private:
  std::array<std::vector<LengthRange>, operations> ranges_;
};

// Reads "bcast@64=flat-2048+grouped8-65536+mpi": the operation, the number of ranks, and ranges in rising order, of
// which only the last one may lack its length. Groups have 8 ranks here. For several nodes, the number of ranks on each
// is followed by that of the nodes: "allreduce@64x4=leaders-8192+lanes". Returns false if `text`, of that length, is not
// of this form.
bool read_selection(const char* text, std::size_t length, SelectionEntry& entry);

// An override replaces the selection of an operation in all communicators of this process, unless it is `none`.
// measure.cpp sets it by nearfield_collectives_override(), on all ranks between the same two collectives.
struct Override : std::atomic<Choice> {
  constexpr Override() : std::atomic<Choice>({Algorithm::none, 0}) {}
};
static_assert(Override::is_always_lock_free);
extern Override overrides[operations];

}  // namespace nearfield::collectives
