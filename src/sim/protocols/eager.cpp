// Between nodes, up to the eager limit (S0, section II.D): through a bounce buffer of the sender and a pool of the
// receiver that its NIC was given beforehand. Bounce buffers are used again last in, first out; a NIC uses up its pool
// in the order in which buffers came back, so the receiver's go round. The pool grows when all are waiting for
// receives. Left out: credits that would hold the sender back instead.
#include <deque>
#include <unordered_map>

#include "sim/protocols/staged.hpp"

namespace nearfield::sim {
namespace {

constexpr int pool_buffers = 16;  // of every rank; as many as Open MPI gives each peer for eager RDMA

class Eager final : public Staged {
 public:
  explicit Eager(Site& site) : buffer_bytes_(std::max<std::uint64_t>(1, site.world.machine.messaging.eager_bytes)) {}

 private:
  Address take_out(Endpoint& sender, std::uint64_t) override { return sender.scratch().take(buffer_bytes_); }
  void give_out(Endpoint& sender, Address buffer, std::uint64_t) override {
    sender.scratch().give(buffer, buffer_bytes_);
  }
  Address take_in(Endpoint& receiver, std::uint64_t) override {
    auto& pool = pool_of(receiver);
    const std::uint64_t apart = (buffer_bytes_ + line - 1) / line * line;
    if (pool.empty()) {
      const Address begin = receiver.node().allocate(receiver.core(), apart * pool_buffers);
      for (std::uint64_t i = 0; i < pool_buffers; ++i) pool.push_back(begin + i * apart);
    }
    const Address buffer = pool.front();
    pool.pop_front();
    return buffer;
  }
  void give_in(Endpoint& receiver, Address buffer, std::uint64_t) override { pool_of(receiver).push_back(buffer); }

  std::deque<Address>& pool_of(Endpoint& receiver) { return pools_[receiver.rank()]; }

  static constexpr std::uint64_t line = 256;  // buffers begin at lines, of any cache
  std::uint64_t buffer_bytes_;
  std::unordered_map<int, std::deque<Address>> pools_;  // by rank
};

}  // namespace

const ProtocolSpec eager_protocol{"eager", "through internal buffers on both sides, without asking", false,
                                  made<Protocol, Eager>};

}  // namespace nearfield::sim
