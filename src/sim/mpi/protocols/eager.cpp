// Between nodes, up to the eager limit, as in paper S0 (papers/S0/README.md), section II.D: messages pass through a
// bounce buffer of the sender and a pool of preposted buffers of the receiver. Bounce buffers are reused last in, first
// out. The NIC takes the receiver's buffers first in, first out, so they are used in turn. The pool grows when all its
// buffers hold unexpected messages. Not modeled: credits, which would throttle the sender instead.
#include <deque>
#include <unordered_map>

#include "sim/mpi/protocols/staged.hpp"

namespace nearfield::sim {
namespace {

constexpr int buffers_per_pool = 16;  // per rank; as many as Open MPI allocates per peer for eager RDMA

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
    const std::uint64_t buffer_spacing_bytes =
        (buffer_bytes_ + alignment_bytes - 1) / alignment_bytes * alignment_bytes;
    if (pool.empty()) {
      const Address begin = receiver.node().allocate(receiver.core(), buffer_spacing_bytes * buffers_per_pool);
      for (std::uint64_t i = 0; i < buffers_per_pool; ++i) pool.push_back(begin + i * buffer_spacing_bytes);
    }
    const Address buffer = pool.front();
    pool.pop_front();
    return buffer;
  }
  void release_receive_buffer(Endpoint& receiver, Address buffer, std::uint64_t) override {
    buffer_pool_of(receiver).push_back(buffer);
  }

  std::deque<Address>& buffer_pool_of(Endpoint& receiver) { return pools_[receiver.rank()]; }

  static constexpr std::uint64_t alignment_bytes = 256;  // buffers are line-aligned, at any line size
  std::uint64_t buffer_bytes_;
  std::unordered_map<int, std::deque<Address>> pools_;  // by rank
};

}  // namespace

const ProtocolSpec eager_protocol{"eager", "through internal buffers on both sides, without a handshake", false,
                                  make_implementation<Protocol, EagerProtocol>};

}  // namespace nearfield::sim
