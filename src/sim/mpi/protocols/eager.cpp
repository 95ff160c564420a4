// Between nodes, up to the eager limit (S0, section II.D): through a bounce buffer of the sender and a pool of
// preposted buffers of the receiver. Bounce buffers are reused last in, first out. The receiver's buffers are used in
// turn, since the NIC takes them first in, first out. The pool grows when all its buffers hold unexpected messages.
// Left out: credits, which would throttle the sender instead.
#include <deque>
#include <unordered_map>

#include "sim/mpi/protocols/staged.hpp"

namespace nearfield::sim {
namespace {

constexpr int pool_buffers = 16;  // per rank; as many as Open MPI allocates per peer for eager RDMA

class EagerProtocol final : public StagedProtocol {
 public:
  explicit EagerProtocol(NodeState& node_state)
      : buffer_bytes_(std::max<std::uint64_t>(1, node_state.cluster.machine.messaging.eager_bytes)) {}

 private:
  Address acquire_send_buffer(Endpoint& sender, std::uint64_t) override {
    return sender.scratch_pool().acquire(buffer_bytes_);
  }
  void release_send_buffer(Endpoint& sender, Address buffer, std::uint64_t) override {
    sender.scratch_pool().release(buffer, buffer_bytes_);
  }
  Address acquire_receive_buffer(Endpoint& receiver, std::uint64_t) override {
    auto& pool = buffer_pool_of(receiver);
    const std::uint64_t spacing = (buffer_bytes_ + line - 1) / line * line;
    if (pool.empty()) {
      const Address begin = receiver.node().allocate(receiver.core(), spacing * pool_buffers);
      for (std::uint64_t i = 0; i < pool_buffers; ++i) pool.push_back(begin + i * spacing);
    }
    const Address buffer = pool.front();
    pool.pop_front();
    return buffer;
  }
  void release_receive_buffer(Endpoint& receiver, Address buffer, std::uint64_t) override {
    buffer_pool_of(receiver).push_back(buffer);
  }

  std::deque<Address>& buffer_pool_of(Endpoint& receiver) { return pools_[receiver.rank()]; }

  static constexpr std::uint64_t line = 256;  // buffers are line-aligned, at any line size
  std::uint64_t buffer_bytes_;
  std::unordered_map<int, std::deque<Address>> pools_;  // by rank
};

}  // namespace

const ProtocolSpec eager_protocol{"eager", "through internal buffers on both sides, without a handshake", false,
                                  make_variant<Protocol, EagerProtocol>};

}  // namespace nearfield::sim
