// S3's buffered mode of the T3E: messages of any size go through internal buffers as large as they are, which the cores
// read and write through their caches (element by element, if the data is strided). Buffers that do not fit into the
// second-level cache then cost memory accesses.
#include "sim/protocols/staged.hpp"

namespace nearfield::sim {
namespace {

class Buffered final : public Staged {
 private:
  Address take_out(Endpoint& sender, std::uint64_t bytes) override { return sender.scratch().take(bytes); }
  void give_out(Endpoint& sender, Address buffer, std::uint64_t bytes) override {
    sender.scratch().give(buffer, bytes);
  }
  Address take_in(Endpoint& receiver, std::uint64_t bytes) override { return receiver.scratch().take(bytes); }
  void give_in(Endpoint& receiver, Address buffer, std::uint64_t bytes) override {
    receiver.scratch().give(buffer, bytes);
  }
};

std::unique_ptr<Protocol> make(World&) { return std::make_unique<Buffered>(); }

}  // namespace

const ProtocolSpec buffered_protocol{"buffered", "through internal buffers of any size, by cached accesses (T3E)",
                                     false, make};

}  // namespace nearfield::sim
