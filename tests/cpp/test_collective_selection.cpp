// Does the text that rules give to the library of collectives select what they mean, and is any other text refused?
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "collectives/doubling.hpp"
#include "collectives/layout.hpp"
#include "preload/collectives/selection.hpp"

using namespace nearfield::collectives;

namespace {

void require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "failed: %s\n", what);
  std::exit(1);
}

AlgorithmRule read(const char* text) {
  AlgorithmRule entry;
  require(parse_algorithm_rule(text, std::strlen(text), entry), text);
  return entry;
}

void test_ranges() {
  const AlgorithmSelection selection(
      {read("bcast@64=flat-2048+grouped8-8192+mpi"), read("allreduce@64=whole-65536+slices")}, 64);
  const auto at = [&](Operation operation, std::size_t bytes) {
    return selection.choose_algorithm(operation, bytes).algorithm;
  };
  require(at(Operation::bcast, 2048) == Algorithm::flat, "the end of the first range belongs to it");
  require(at(Operation::bcast, 2049) == Algorithm::grouped, "the second range");
  require(selection.choose_algorithm(Operation::bcast, 8192).ranks_per_group == 8, "the number of ranks of a group");
  require(at(Operation::bcast, 8193) == Algorithm::mpi, "the last range has no end");
  require(at(Operation::allreduce, 65537) == Algorithm::slices, "an algorithm of some operations");
  require(at(Operation::scatter, 1) == Algorithm::flat, "an operation without an entry");
  require(at(Operation::barrier, 0) == Algorithm::doubling, "what is usual for many ranks");
  require(AlgorithmSelection({}, 15).choose_algorithm(Operation::barrier, 0).algorithm == Algorithm::flat, "few ranks");
  for (const Operation operation : {Operation::barrier, Operation::allreduce, Operation::reduce})
    require(AlgorithmSelection({}, 16).choose_algorithm(operation, 8).algorithm == Algorithm::doubling, "16 ranks");
  for (const Operation operation : {Operation::allgather, Operation::alltoall}) {
    require(AlgorithmSelection({}, 16).choose_algorithm(operation, 8).algorithm == Algorithm::flat,
            "16 ranks, short blocks");
    for (const int ranks : {17, 32, 33, 64, 65, 128, 129, 256}) {
      const AlgorithmSelection defaults({}, ranks);
      require(defaults.choose_algorithm(operation, 8).algorithm == Algorithm::doubling, "many ranks, short blocks");
      require(
          defaults.choose_algorithm(operation, 1024 + 8).algorithm == (ranks > 128 ? Algorithm::mpi : Algorithm::flat),
          "many ranks, long blocks");
      std::size_t bytes = 8;
      while (defaults.choose_algorithm(operation, bytes + 1).algorithm == Algorithm::doubling) ++bytes;
      require(bytes <= max_doubling_block_bytes(ranks), "blocks of which half fit into a slot");
    }
  }
}

// Flat algorithms in which one rank reads short data from all others are not selected by default on many ranks.
void test_many_ranks_leave_short_data_to_the_mpi() {
  for (const Operation operation : {Operation::gather, Operation::reduce_scatter, Operation::scan}) {
    require(AlgorithmSelection({}, 16).choose_algorithm(operation, 8).algorithm == Algorithm::flat, "16 ranks");
    require(AlgorithmSelection({}, 17).choose_algorithm(operation, 8).algorithm == Algorithm::mpi, "17 ranks");
  }
  for (const Operation operation : {Operation::bcast, Operation::scatter})
    require(AlgorithmSelection({}, 192).choose_algorithm(operation, 8).algorithm == Algorithm::flat,
            "one rank is read");
}

void test_number_of_ranks() {
  const std::vector<AlgorithmRule> entries{read("scan@2=mpi"), read("scan@8=flat")};
  const auto at = [&](int ranks) {
    return AlgorithmSelection(entries, ranks).choose_algorithm(Operation::scan, 8).algorithm;
  };
  require(at(2) == Algorithm::mpi && at(3) == Algorithm::mpi, "the entry with the nearest number of ranks");
  require(at(8) == Algorithm::flat && at(6) == Algorithm::flat, "the nearest one by ratio");
  require(!AlgorithmSelection(entries, 17).has_ranges(Operation::scatter), "no entry is within a factor of two");
  require(AlgorithmSelection(entries, 16).has_ranges(Operation::scan), "an entry is within a factor of two");
}

void test_several_nodes() {
  const std::vector<AlgorithmRule> entries{read("allreduce@8=mpi"), read("allreduce@8x4=leaders-512+lanes")};
  const auto at = [&](int ranks, int nodes, std::size_t bytes) {
    return AlgorithmSelection(entries, ranks, nodes).choose_algorithm(Operation::allreduce, bytes).algorithm;
  };
  require(at(8, 4, 512) == Algorithm::leaders && at(8, 4, 513) == Algorithm::lanes, "an entry of several nodes");
  require(at(8, 8, 513) == Algorithm::lanes, "twice as many nodes");
  require(at(8, 9, 8192) == Algorithm::leaders, "too many nodes: what is usual");
  require(at(8, 1, 8) == Algorithm::mpi, "an entry of one node is for one node");
  require(at(17, 4, 513) == Algorithm::leaders, "too many ranks: what is usual");
  for (const Operation operation : {Operation::gather, Operation::scatter, Operation::scan, Operation::reduce_scatter})
    require(AlgorithmSelection({}, 2, 2).choose_algorithm(operation, 8).algorithm == Algorithm::mpi,
            "not done across nodes");
}

void test_layout() {
  const Layout layout({7, 9, 7, 9, 7}, 3);
  require(layout.nodes() == 2 && layout.lanes() == 2 && layout.max_ranks_per_node() == 3 && !layout.is_balanced(),
          "two nodes");
  require(layout.own_place().node == 1 && layout.own_place().local == 1, "the own place");
  require(layout.rank_of(0, 2) == 4 && layout.rank_of(1, 0) == 1, "ranks of places");
  require(layout.place_of(4).node == 0 && layout.place_of(4).local == 2, "places of ranks");
  require(Layout({1, 1, 2, 2}, 0).is_balanced(), "nodes with equally many ranks");
}

void test_bad_texts() {
  for (const char* text : {"",
                           "bcast",
                           "bcast@2",
                           "bcast@2=",
                           "bcast@1=mpi",
                           "bcast@x=mpi",
                           "bcast=mpi",
                           "sum@2=mpi",
                           "bcast@2=best",
                           "bcast@2=whole",
                           "bcast@2=grouped",
                           "bcast@2=grouped1",
                           "bcast@2=mpi2",
                           "scan@2=slices",
                           "bcast@2=flat-",
                           "bcast@2=flat-8-9",
                           "bcast@2=mpi+flat",
                           "bcast@2=mpi-9+flat-8",
                           "bcast@2=mpi-x",
                           "bcast@2=mpi--1",
                           "bcast@99999999999=mpi",
                           "bcast@2x1=mpi",
                           "bcast@2x=mpi",
                           "bcast@2x2x2=mpi",
                           "bcast@2x2=flat",
                           "bcast@2=leaders",
                           "bcast@2x2=lanes",
                           "after=2"}) {
    AlgorithmRule entry;
    require(!parse_algorithm_rule(text, std::strlen(text), entry), text);
  }
}

}  // namespace

int main() {
  test_ranges();
  test_many_ranks_leave_short_data_to_the_mpi();
  test_number_of_ranks();
  test_several_nodes();
  test_layout();
  test_bad_texts();
  std::puts("ok");
  return 0;
}
