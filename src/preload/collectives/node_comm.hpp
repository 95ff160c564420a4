// The state of a communicator: whether its collectives are direct (performed by this library), and the exchange through
// which the ranks of this node communicate.
#pragma once

#include <mpi.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "collectives/layout.hpp"
#include "preload/collectives/arena.hpp"
#include "preload/collectives/call_lengths.hpp"
#include "preload/collectives/datatypes.hpp"
#include "preload/collectives/live_port.hpp"
#include "preload/collectives/selection.hpp"
#include "preload/collectives/settings.hpp"

namespace nearfield::collectives {

struct RankConnectionInfo;  // the data that each rank sends to all others when a communicator is connected

class NodeComm {
 public:
  // Returns the state of a communicator. Returns null if the MPI library must perform the current collective, because
  // the communicator is an intercommunicator or MPI_COMM_NULL, has only one rank on each node, or has had few
  // collectives so far. All ranks of the communicator call this function in each collective; one of the first calls
  // communicates (connect_ranks()).
  static NodeComm* find_or_create(MPI_Comm comm);

  // Returns whether a collective of the communicator waits for other nodes and these are watched (base/job_watch.hpp).
  static bool waits_for_watched_nodes(MPI_Comm comm);

  explicit NodeComm(MPI_Comm comm);
  NodeComm(const NodeComm&) = delete;
  NodeComm& operator=(const NodeComm&) = delete;
  ~NodeComm();

  // Returns the algorithm of a collective of `bytes` bytes. The length must be equal on all ranks.
  AlgorithmChoice choose_algorithm(Operation operation, std::size_t bytes) const {
    if (counts_lengths_) [[unlikely]] {
      count_call_length(operation, layout_.max_ranks_per_node(), layout_.nodes(), bytes);
      return {Algorithm::mpi};
    }
    const AlgorithmChoice override =
        algorithm_overrides[static_cast<std::size_t>(operation)].load(std::memory_order_relaxed);
    return override.algorithm == Algorithm::none ? selection_.choose_algorithm(operation, bytes) : override;
  }
  AlgorithmChoice choose_algorithm(Operation operation, std::int64_t count, MPI_Datatype type) const {
    const bool depends_on_length = counts_lengths_ || selection_.has_ranges(operation);
    return choose_algorithm(operation, depends_on_length ? static_cast<std::size_t>(count * type_size(type)) : 0);
  }

  // Returns the algorithm of a collective among the ranks of this node, as a step of a collective that spans nodes.
  AlgorithmChoice choose_algorithm_in_node(Operation operation, std::size_t bytes) const {
    return in_node_selection_.choose_algorithm(operation, bytes);
  }

  // Returns the exchange between the ranks of this node. The number of a rank in the exchange is its local index.
  Exchange<LivePort>& exchange() { return *exchange_; }
  bool spans_nodes() const { return spans_nodes_; }
  const Layout& layout() const { return layout_; }
  // Returns the communicator of this rank's lane; MPI_COMM_NULL if the communicator lies in one node or the rank is in
  // no lane.
  MPI_Comm lane_comm() const { return lane_comm_; }
  int rank() const { return rank_; }
  int ranks() const { return ranks_; }

 private:
  enum class ConnectionState { counting_calls, direct, left_to_mpi };

  static int attribute_key();
  // Sets `node` to the state that is attached to a communicator, or to null if there is none. Returns false if the
  // communicator is MPI_COMM_NULL or not valid.
  static bool read_attribute(MPI_Comm comm, NodeComm*& node);
  static int delete_attribute(MPI_Comm comm, int key, void* value, void* extra);
  NodeComm* count_call();
  void connect_ranks();
  bool map_peer_boxes(const std::vector<RankConnectionInfo>& infos);
  bool create_lane_communicator();
  void free_lane_communicator();

  // The members that each collective reads come first, so that they share cache lines.
  ConnectionState connection_state_ = ConnectionState::counting_calls;
  bool spans_nodes_ = false, counts_lengths_ = settings().counts_lengths;
  int rank_ = 0, ranks_ = 0;
  std::unique_ptr<Exchange<LivePort>> exchange_;
  AlgorithmSelection selection_, in_node_selection_;

  MPI_Comm comm_;
  int num_calls_ = 0;
  std::size_t own_box_offset_ = 0;
  Layout layout_;
  MPI_Comm lane_comm_ = MPI_COMM_NULL;
  std::vector<Box*> boxes_;  // boxes of the ranks of this node, by local index
  std::vector<std::uint64_t> closed_before_;
  std::unique_ptr<LivePort> port_;
};

// From now on, NodeComms are deleted without freeing their lane communicators. Must be called before MPI_Finalize of the
// MPI library, inside which communicators that still exist, and with them their NodeComms, may be deleted.
void stop_freeing_lane_comms();

}  // namespace nearfield::collectives
