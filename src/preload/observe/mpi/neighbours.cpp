#include "preload/observe/mpi/neighbours.hpp"

#include "preload/observe/mpi/wrapper.hpp"

namespace nearfield::observe {
namespace {

std::vector<std::int64_t> to_stream_ranks(const std::vector<int>& ranks) {
  std::vector<std::int64_t> stream_ranks;
  for (const int rank : ranks) stream_ranks.push_back(to_stream_rank(rank));
  return stream_ranks;
}

// Returns the lower and the upper neighbour in each dimension of a Cartesian topology; each is both source and
// destination.
std::vector<int> cartesian_neighbors(MPI_Comm comm) {
  int dimensions = 0;
  PMPI(MPI_Cartdim_get)(comm, &dimensions);
  std::vector<int> ranks(2 * static_cast<std::size_t>(dimensions));
  for (int i = 0; i < dimensions; ++i) {
    int* const neighbors = &ranks[2 * static_cast<std::size_t>(i)];
    PMPI(MPI_Cart_shift)(comm, i, 1, neighbors, neighbors + 1);
  }
  return ranks;
}

std::vector<int> graph_neighbors(MPI_Comm comm) {
  int rank = 0, count = 0;
  PMPI(MPI_Comm_rank)(comm, &rank);
  PMPI(MPI_Graph_neighbors_count)(comm, rank, &count);
  std::vector<int> ranks(static_cast<std::size_t>(count));
  PMPI(MPI_Graph_neighbors)(comm, rank, count, ranks.data());
  return ranks;
}

void add_dist_graph_neighbors(MPI_Comm comm, stream::Communicator& event) {
  int in = 0, out = 0, is_weighted = 0;
  PMPI(MPI_Dist_graph_neighbors_count)(comm, &in, &out, &is_weighted);
  std::vector<int> sources(static_cast<std::size_t>(in)), destinations(static_cast<std::size_t>(out));
  std::vector<int> weights(sources.size() + destinations.size());
  PMPI(MPI_Dist_graph_neighbors)(comm, in, sources.data(), weights.data(), out, destinations.data(),
                                 weights.data() + in);
  event.sources = to_stream_ranks(sources);
  event.destinations = to_stream_ranks(destinations);
}

}  // namespace

void add_neighbors(MPI_Comm comm, stream::Communicator& event) {
  int kind = MPI_UNDEFINED;
  PMPI(MPI_Topo_test)(comm, &kind);
  if (kind == MPI_DIST_GRAPH) return add_dist_graph_neighbors(comm, event);
  if (kind == MPI_CART) event.sources = event.destinations = to_stream_ranks(cartesian_neighbors(comm));
  if (kind == MPI_GRAPH) event.sources = event.destinations = to_stream_ranks(graph_neighbors(comm));
}

}  // namespace nearfield::observe
