// Exchanges by MPI_Sendrecv with each neighbour in turn, as most codes do, and as the MPI-1 variant of S1 does.
// Non-contiguous cells are packed.
#include "halo/datatype.hpp"
#include "halo/protocol.hpp"

namespace nearfield::halo {
namespace {

class SendrecvProtocol final : public Protocol {
 public:
  SendrecvProtocol(ExchangeContext& around, ExchangePlan move) : comm_(around.node().comm), move_(std::move(move)) {
    for (const auto& message : move_.messages) {
      const bool needs_buffer = move_.add || move_.in_place;
      out_.push_back(set_up_side(message.send, contiguous_address(message.send, move_.fields)));
      in_.push_back(
          set_up_side(message.receive, needs_buffer ? nullptr : contiguous_address(message.receive, move_.fields)));
    }
  }

  ~SendrecvProtocol() override {
    if (!mpi_has_ended()) free_types(types_);
  }

  // All ranks iterate over the same list of displacements, so the sends and receives of two ranks match.
  void finish_exchange() override {
    for (std::size_t i = 0; i < move_.messages.size(); ++i) {
      const auto& message = move_.messages[i];
      SendrecvSide &out = out_[i], &in = in_[i];
      if (!out.cells) pack_strips(out.buffer.data(), message.send, move_.fields);
      MPI_Sendrecv(out.cells ? out.cells : out.buffer.data(), out.bytes.count, out.bytes.type,
                   message.to < 0 ? MPI_PROC_NULL : message.to, tag, in.cells ? in.cells : in.buffer.data(),
                   in.bytes.count, in.bytes.type, message.from < 0 ? MPI_PROC_NULL : message.from, tag, comm_,
                   MPI_STATUS_IGNORE);
      if (!in.cells) unpack_strips(in.buffer.data(), message.receive, move_.fields, move_.add);
    }
  }

 private:
  struct SendrecvSide {
    std::byte* cells;  // address of the cells if they are contiguous; otherwise null
    std::vector<std::byte> buffer;
    CountAndType bytes;
  };

  SendrecvSide set_up_side(const std::vector<Strip>& strips, std::byte* cells) {
    const auto bytes = message_bytes(strips, move_.fields);
    SendrecvSide side{cells, std::vector<std::byte>(cells ? 0 : bytes), create_bytes_type(bytes)};
    types_.push_back(side.bytes.type);
    return side;
  }

  static constexpr int tag = 1;
  MPI_Comm comm_;
  ExchangePlan move_;
  std::vector<SendrecvSide> out_, in_;
  std::vector<MPI_Datatype> types_;
};

}  // namespace

extern const ProtocolSpec sendrecv_protocol;
const ProtocolSpec sendrecv_protocol{"sendrecv", "MPI_Sendrecv with each neighbour in turn",
                                     make_variant<Protocol, SendrecvProtocol>};

}  // namespace nearfield::halo
