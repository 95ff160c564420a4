// MPI_Sendrecv with each neighbour in turn, packed if cells are not contiguous, as in most codes and in S1's MPI-1.
#include "halo/datatype.hpp"
#include "halo/protocol.hpp"

namespace nearfield::halo {
namespace {

class Sendrecv final : public Protocol {
 public:
  Sendrecv(ExchangeContext& around, Move move) : comm_(around.node().comm), move_(std::move(move)) {
    for (const auto& message : move_.messages) {
      const bool needs_buffer = move_.add || move_.in_place;
      out_.push_back(set_up(message.send, contiguous(message.send, move_.fields)));
      in_.push_back(set_up(message.receive, needs_buffer ? nullptr : contiguous(message.receive, move_.fields)));
    }
  }

  ~Sendrecv() override {
    if (!mpi_has_ended()) free_types(types_);
  }

  // Every rank iterates over the same list of displacements, so both partners of a call are at the same position.
  void finish() override {
    for (std::size_t i = 0; i < move_.messages.size(); ++i) {
      const auto& message = move_.messages[i];
      Side &out = out_[i], &in = in_[i];
      if (!out.cells) gather(out.buffer.data(), message.send, move_.fields);
      MPI_Sendrecv(out.cells ? out.cells : out.buffer.data(), out.bytes.count, out.bytes.type,
                   message.to < 0 ? MPI_PROC_NULL : message.to, tag, in.cells ? in.cells : in.buffer.data(),
                   in.bytes.count, in.bytes.type, message.from < 0 ? MPI_PROC_NULL : message.from, tag, comm_,
                   MPI_STATUS_IGNORE);
      if (!in.cells) scatter(in.buffer.data(), message.receive, move_.fields, move_.add);
    }
  }

 private:
  struct Side {
    std::byte* cells;  // if contiguous; else null
    std::vector<std::byte> buffer;
    Counted bytes;
  };

  Side set_up(const std::vector<Strip>& strips, std::byte* cells) {
    const auto bytes = bytes_of(strips, move_.fields);
    Side side{cells, std::vector<std::byte>(cells ? 0 : bytes), counted(bytes)};
    types_.push_back(side.bytes.type);
    return side;
  }

  static constexpr int tag = 1;
  MPI_Comm comm_;
  Move move_;
  std::vector<Side> out_, in_;
  std::vector<MPI_Datatype> types_;
};

}  // namespace

extern const ProtocolSpec sendrecv_protocol;
const ProtocolSpec sendrecv_protocol{"sendrecv", "MPI_Sendrecv with each neighbour in turn",
                                     make_variant<Protocol, Sendrecv>};

}  // namespace nearfield::halo
