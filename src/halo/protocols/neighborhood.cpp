// Exchanges by MPI_Neighbor_alltoallw on a graph communicator, with one datatype per neighbour: MPI's own function for
// halo exchange.
#include <algorithm>
#include <set>

#include "halo/datatype.hpp"
#include "halo/protocol.hpp"

namespace nearfield::halo {
namespace {

class NeighborhoodProtocol final : public Protocol {
 public:
  NeighborhoodProtocol(ExchangeContext& context, ExchangePlan plan) : plan_(std::move(plan)) {
    std::set<int> neighbor_set;
    for (const auto& message : plan_.messages) neighbor_set.insert({message.destination, message.source});
    neighbor_set.erase(-1);
    // The graph has edges in both directions to each neighbour, even if one direction moves no cells: MPICH 4.0 loses
    // cells if a rank only sends or only receives.
    const std::vector<int> neighbors(neighbor_set.begin(), neighbor_set.end());
    std::size_t buffer_bytes = 0;
    for (const int neighbor : neighbors) {
      append_neighbor(neighbor, &Message::destination, &Message::send, false, buffer_bytes, send_arguments_);
      append_neighbor(neighbor, &Message::source, &Message::receive, plan_.should_add, buffer_bytes,
                      receive_arguments_);
    }
    receive_buffer_.resize(std::max<std::size_t>(buffer_bytes, 1));
    const auto count = static_cast<int>(neighbors.size());
    MPI_Dist_graph_create_adjacent(context.node().comm, count, neighbors.data(), MPI_UNWEIGHTED, count,
                                   neighbors.data(), MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &graph_);
  }

  ~NeighborhoodProtocol() override {
    if (mpi_has_ended()) return;
    for (auto* arguments : {&receive_arguments_, &send_arguments_}) free_types(arguments->types);
    MPI_Comm_free(&graph_);
  }

  void finish_exchange() override {
    std::byte* into = plan_.should_add ? receive_buffer_.data() : origin();
    MPI_Neighbor_alltoallw(origin(), send_arguments_.counts.data(), send_arguments_.displacements.data(),
                           send_arguments_.types.data(), into, receive_arguments_.counts.data(),
                           receive_arguments_.displacements.data(), receive_arguments_.types.data(), graph_);
    for (const auto& arrived : buffered_messages_)
      unpack_strips(receive_buffer_.data() + arrived.buffer_offset, arrived.message->receive, plan_.fields, true);
  }

 private:
  // Arguments of MPI_Neighbor_alltoallw for sending or receiving, by neighbour.
  struct DirectionArguments {
    std::vector<MPI_Datatype> types;
    std::vector<int> counts;
    std::vector<MPI_Aint> displacements;
  };
  struct BufferedMessage {
    const Message* message;
    std::size_t buffer_offset;
  };

  std::byte* origin() const { return plan_.fields.front().local_array.first; }

  // Appends the arguments for one neighbour. With `needs_buffer`, its cells are received into receive_buffer_, not into
  // the array; `buffer_bytes` is the size of that buffer so far.
  void append_neighbor(int neighbor, int Message::* peer_rank, std::vector<Strip> Message::* strips, bool needs_buffer,
                       std::size_t& buffer_bytes, DirectionArguments& arguments) {
    arguments.types.push_back(MPI_BYTE);
    arguments.counts.push_back(0);
    arguments.displacements.push_back(0);
    for (const auto& message : plan_.messages) {
      if (message.*peer_rank != neighbor) continue;
      if (needs_buffer) {
        const auto bytes = message_bytes(message.*strips, plan_.fields);
        const auto [count, type] = create_bytes_type(bytes);
        arguments.types.back() = type;
        arguments.counts.back() = count;
        arguments.displacements.back() = static_cast<MPI_Aint>(buffer_bytes);
        buffered_messages_.push_back({&message, buffer_bytes});
        buffer_bytes += bytes;
      } else {
        arguments.types.back() = create_strips_type(message.*strips, plan_.fields, origin());
        arguments.counts.back() = 1;
      }
    }
  }

  ExchangePlan plan_;
  MPI_Comm graph_ = MPI_COMM_NULL;
  DirectionArguments receive_arguments_, send_arguments_;
  std::vector<BufferedMessage> buffered_messages_;
  std::vector<std::byte> receive_buffer_;  // receive buffer for cells that are added
};

}  // namespace

extern const ProtocolSpec neighborhood_protocol;
const ProtocolSpec neighborhood_protocol{"neighborhood", "MPI_Neighbor_alltoallw with datatypes",
                                         make_implementation<Protocol, NeighborhoodProtocol>};

}  // namespace nearfield::halo
