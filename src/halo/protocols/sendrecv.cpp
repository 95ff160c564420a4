// Exchanges by MPI_Sendrecv with each neighbour in turn, as most codes do, and as the MPI-1 variant of paper S1
// (papers/S1/README.md) does. Non-contiguous cells are packed.
#include "halo/datatype.hpp"
#include "halo/protocol.hpp"

namespace nearfield::halo {
namespace {

class SendrecvProtocol final : public Protocol {
 public:
  SendrecvProtocol(ExchangeContext& context, ExchangePlan plan) : comm_(context.node().comm), plan_(std::move(plan)) {
    for (const auto& message : plan_.messages) {
      const bool needs_buffer = plan_.should_add || plan_.reads_in_place;
      send_sides_.push_back(set_up_side(message.send, contiguous_address(message.send, plan_.fields)));
      receive_sides_.push_back(
          set_up_side(message.receive, needs_buffer ? nullptr : contiguous_address(message.receive, plan_.fields)));
    }
  }

  ~SendrecvProtocol() override {
    if (!mpi_has_ended()) free_types(types_);
  }

  // All ranks iterate over the same list of displacements, so the sends and receives of two ranks match.
  void finish_exchange() override {
    for (std::size_t i = 0; i < plan_.messages.size(); ++i) {
      const auto& message = plan_.messages[i];
      SendrecvSide &out = send_sides_[i], &in = receive_sides_[i];
      if (!out.contiguous_cells) pack_strips(out.buffer.data(), message.send, plan_.fields);
      MPI_Sendrecv(out.contiguous_cells ? out.contiguous_cells : out.buffer.data(), out.bytes.count, out.bytes.type,
                   message.destination < 0 ? MPI_PROC_NULL : message.destination, tag,
                   in.contiguous_cells ? in.contiguous_cells : in.buffer.data(), in.bytes.count, in.bytes.type,
                   message.source < 0 ? MPI_PROC_NULL : message.source, tag, comm_, MPI_STATUS_IGNORE);
      if (!in.contiguous_cells) unpack_strips(in.buffer.data(), message.receive, plan_.fields, plan_.should_add);
    }
  }

 private:
  struct SendrecvSide {
    std::byte* contiguous_cells;  // address of the cells if they are contiguous; otherwise null
    std::vector<std::byte> buffer;
    CountAndType bytes;
  };

  SendrecvSide set_up_side(const std::vector<Strip>& strips, std::byte* contiguous_cells) {
    const auto bytes = message_bytes(strips, plan_.fields);
    SendrecvSide side{contiguous_cells, std::vector<std::byte>(contiguous_cells ? 0 : bytes), create_bytes_type(bytes)};
    types_.push_back(side.bytes.type);
    return side;
  }

  static constexpr int tag = 1;
  MPI_Comm comm_;
  ExchangePlan plan_;
  std::vector<SendrecvSide> send_sides_, receive_sides_;
  std::vector<MPI_Datatype> types_;
};

}  // namespace

extern const ProtocolSpec sendrecv_protocol;
const ProtocolSpec sendrecv_protocol{"sendrecv", "MPI_Sendrecv with each neighbour in turn",
                                     make_implementation<Protocol, SendrecvProtocol>};

}  // namespace nearfield::halo
