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
  NeighborhoodProtocol(ExchangeContext& around, ExchangePlan move) : move_(std::move(move)) {
    std::set<int> known;
    for (const auto& message : move_.messages) known.insert({message.to, message.from});
    known.erase(-1);
    // The graph has edges in both directions to each neighbour, even if one direction moves no cells: MPICH 4.0 loses
    // cells if a rank only sends or only receives.
    const std::vector<int> neighbours(known.begin(), known.end());
    std::size_t room = 0;
    for (const int neighbour : neighbours) {
      append_neighbour(neighbour, &Message::to, &Message::send, false, room, out_);
      append_neighbour(neighbour, &Message::from, &Message::receive, move_.add, room, in_);
    }
    receive_buffer_.resize(std::max<std::size_t>(room, 1));
    const auto count = static_cast<int>(neighbours.size());
    MPI_Dist_graph_create_adjacent(around.node().comm, count, neighbours.data(), MPI_UNWEIGHTED, count,
                                   neighbours.data(), MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &graph_);
  }

  ~NeighborhoodProtocol() override {
    if (mpi_has_ended()) return;
    for (auto* side : {&in_, &out_}) free_types(side->types);
    MPI_Comm_free(&graph_);
  }

  void finish_exchange() override {
    std::byte* into = move_.add ? receive_buffer_.data() : origin();
    MPI_Neighbor_alltoallw(origin(), out_.counts.data(), out_.places.data(), out_.types.data(), into, in_.counts.data(),
                           in_.places.data(), in_.types.data(), graph_);
    for (const auto& arrived : buffered_)
      unpack_strips(receive_buffer_.data() + arrived.place, arrived.message->receive, move_.fields, true);
  }

 private:
  // Arguments of MPI_Neighbor_alltoallw for sending or receiving, by neighbour.
  struct DirectionArguments {
    std::vector<MPI_Datatype> types;
    std::vector<int> counts;
    std::vector<MPI_Aint> places;
  };
  struct BufferedMessage {
    const Message* message;
    std::size_t place;
  };

  std::byte* origin() const { return move_.fields.front().mine.first; }

  // Appends the arguments for one neighbour. With `needs_buffer`, its cells are received into room_, not into the
  // array.
  void append_neighbour(int neighbour, int Message::* who, std::vector<Strip> Message::* strips, bool needs_buffer,
                        std::size_t& room, DirectionArguments& side) {
    side.types.push_back(MPI_BYTE);
    side.counts.push_back(0);
    side.places.push_back(0);
    for (const auto& message : move_.messages) {
      if (message.*who != neighbour) continue;
      if (needs_buffer) {
        const auto bytes = message_bytes(message.*strips, move_.fields);
        const auto [count, type] = create_bytes_type(bytes);
        side.types.back() = type;
        side.counts.back() = count;
        side.places.back() = static_cast<MPI_Aint>(room);
        buffered_.push_back({&message, room});
        room += bytes;
      } else {
        side.types.back() = create_strips_type(message.*strips, move_.fields, origin());
        side.counts.back() = 1;
      }
    }
  }

  ExchangePlan move_;
  MPI_Comm graph_ = MPI_COMM_NULL;
  DirectionArguments in_, out_;
  std::vector<BufferedMessage> buffered_;
  std::vector<std::byte> receive_buffer_;  // receive buffer for cells that are added
};

}  // namespace

extern const ProtocolSpec neighborhood_protocol;
const ProtocolSpec neighborhood_protocol{"neighborhood", "MPI_Neighbor_alltoallw with datatypes",
                                         make_variant<Protocol, NeighborhoodProtocol>};

}  // namespace nearfield::halo
