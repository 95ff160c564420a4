// MPI_Neighbor_alltoallw on a graph communicator, with a datatype per neighbour: MPI's own answer to halo exchange.
#include <algorithm>
#include <set>

#include "halo/datatype.hpp"
#include "halo/protocol.hpp"

namespace nearfield::halo {
namespace {

class Neighborhood final : public Protocol {
 public:
  Neighborhood(ExchangeContext& around, Move move) : move_(std::move(move)) {
    std::set<int> known;
    for (const auto& message : move_.messages) known.insert({message.to, message.from});
    known.erase(-1);
    // Includes both directions with each neighbour, even empty ones: MPICH 4.0 loses cells if a rank only sends or
    // receives.
    const std::vector<int> neighbours(known.begin(), known.end());
    std::size_t room = 0;
    for (const int neighbour : neighbours) {
      add(neighbour, &Message::to, &Message::send, false, room, out_);
      add(neighbour, &Message::from, &Message::receive, move_.add, room, in_);
    }
    room_.resize(std::max<std::size_t>(room, 1));
    const auto count = static_cast<int>(neighbours.size());
    MPI_Dist_graph_create_adjacent(around.node().comm, count, neighbours.data(), MPI_UNWEIGHTED, count,
                                   neighbours.data(), MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &graph_);
  }

  ~Neighborhood() override {
    if (mpi_has_ended()) return;
    for (auto* side : {&in_, &out_}) free_types(side->types);
    MPI_Comm_free(&graph_);
  }

  void finish() override {
    std::byte* into = move_.add ? room_.data() : origin();
    MPI_Neighbor_alltoallw(origin(), out_.counts.data(), out_.places.data(), out_.types.data(), into, in_.counts.data(),
                           in_.places.data(), in_.types.data(), graph_);
    for (const auto& arrived : arrived_)
      scatter(room_.data() + arrived.place, arrived.message->receive, move_.fields, true);
  }

 private:
  // The strips to or from each neighbour.
  struct Side {
    std::vector<MPI_Datatype> types;
    std::vector<int> counts;
    std::vector<MPI_Aint> places;
  };
  struct Arrived {
    const Message* message;
    std::size_t place;
  };

  std::byte* origin() const { return move_.fields.front().mine.first; }

  // Describes one neighbour's cells; with `needs_buffer` they are received into room_, not in place.
  void add(int neighbour, int Message::* who, std::vector<Strip> Message::* strips, bool needs_buffer,
           std::size_t& room, Side& side) {
    side.types.push_back(MPI_BYTE);
    side.counts.push_back(0);
    side.places.push_back(0);
    for (const auto& message : move_.messages) {
      if (message.*who != neighbour) continue;
      if (needs_buffer) {
        const auto bytes = bytes_of(message.*strips, move_.fields);
        const auto [count, type] = counted(bytes);
        side.types.back() = type;
        side.counts.back() = count;
        side.places.back() = static_cast<MPI_Aint>(room);
        arrived_.push_back({&message, room});
        room += bytes;
      } else {
        side.types.back() = datatype_of(message.*strips, move_.fields, origin());
        side.counts.back() = 1;
      }
    }
  }

  Move move_;
  MPI_Comm graph_ = MPI_COMM_NULL;
  Side in_, out_;
  std::vector<Arrived> arrived_;
  std::vector<std::byte> room_;  // receives what is to be added
};

}  // namespace

extern const ProtocolSpec neighborhood_protocol;
const ProtocolSpec neighborhood_protocol{"neighborhood", "MPI_Neighbor_alltoallw with datatypes",
                                         make_variant<Protocol, Neighborhood>};

}  // namespace nearfield::halo
