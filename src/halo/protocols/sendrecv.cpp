// MPI_Sendrecv with each neighbour in turn, packed where cells are not contiguous: how most codes do it, and S1's
// MPI-1.
#include "halo/protocol.hpp"

namespace nearfield::halo {
namespace {

class Sendrecv final : public Protocol {
 public:
  Sendrecv(Surroundings& around, Move move) : comm_(around.node().comm), move_(std::move(move)) {
    for (const auto& message : move_.messages) {
      out_.emplace_back(bytes_of(message.send, move_.fields));
      in_.emplace_back(bytes_of(message.receive, move_.fields));
    }
  }

  // Every rank goes through the same list of displacements, so that the partner of each call is at the same place.
  void finish() override {
    for (std::size_t i = 0; i < move_.messages.size(); ++i) {
      const auto& message = move_.messages[i];
      const std::byte* send = contiguous(message.send, move_.fields);
      std::byte* receive = move_.add || move_.in_place ? nullptr : contiguous(message.receive, move_.fields);
      if (!send) gather(out_[i].data(), message.send, move_.fields);
      MPI_Sendrecv(send ? send : out_[i].data(), static_cast<int>(out_[i].size()), MPI_BYTE,
                   message.to < 0 ? MPI_PROC_NULL : message.to, tag, receive ? receive : in_[i].data(),
                   static_cast<int>(in_[i].size()), MPI_BYTE, message.from < 0 ? MPI_PROC_NULL : message.from, tag,
                   comm_, MPI_STATUS_IGNORE);
      if (!receive) scatter(in_[i].data(), message.receive, move_.fields, move_.add);
    }
  }

 private:
  static constexpr int tag = 1;
  MPI_Comm comm_;
  Move move_;
  std::vector<std::vector<std::byte>> out_, in_;
};

std::unique_ptr<Protocol> make(Surroundings& around, Move move) {
  return std::make_unique<Sendrecv>(around, std::move(move));
}

}  // namespace

extern const ProtocolSpec sendrecv_protocol{
    "sendrecv", "MPI_Sendrecv with each neighbour in turn", false, Backing::own, false, false, nullptr, nullptr, make};

}  // namespace nearfield::halo
