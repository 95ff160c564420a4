// Each rank packs cells for its neighbours into shared memory, and the neighbours unpack them: two copies, one of them
// between cores. Two buffers alternate, so that a rank need not wait until its neighbours have read the previous
// buffer.
#include <cstdint>

#include "halo/protocol.hpp"

namespace nearfield::halo {
namespace {

constexpr std::size_t alignment_bytes = 128;

class StagedProtocol final : public Protocol {
 public:
  StagedProtocol(ExchangeContext& context, ExchangePlan plan) : context_(context), plan_(std::move(plan)) {
    const Node& node = context.node();
    std::vector<std::uint64_t> offsets;  // of each message in this rank's part of the memory
    std::uint64_t bytes = 0;
    for (const auto& message : plan_.messages) {
      offsets.push_back(bytes);
      bytes += (message_bytes(message.send, plan_.fields) + alignment_bytes - 1) / alignment_bytes * alignment_bytes;
    }
    std::vector<std::uint64_t> bytes_by_local_rank(static_cast<std::size_t>(node.local_size));
    MPI_Allgather(&bytes, 1, MPI_UINT64_T, bytes_by_local_rank.data(), 1, MPI_UINT64_T, node.node_comm);
    std::uint64_t total = 0, begin = 0;
    std::vector<std::uint64_t> begin_by_local_rank;
    for (const auto part : bytes_by_local_rank) {
      begin_by_local_rank.push_back(total);
      total += 2 * part;
    }
    begin = begin_by_local_rank[static_cast<std::size_t>(node.local_rank)];
    memory_ = std::make_unique<Segment>(node, total, begin, begin + 2 * bytes, SegmentBacking::memfd);
    exchange_offsets(offsets, begin_by_local_rank, bytes_by_local_rank);
  }

  void prepare_exchange() override {
    current_buffer_ ^= 1;
    for (std::size_t i = 0; i < plan_.messages.size(); ++i)
      if (plan_.messages[i].destination >= 0)
        pack_strips(send_addresses_[current_buffer_][i], plan_.messages[i].send, plan_.fields);
  }

  void finish_exchange() override {
    for (std::size_t i = 0; i < plan_.messages.size(); ++i)
      if (plan_.messages[i].source >= 0)
        unpack_strips(receive_addresses_[current_buffer_][i], plan_.messages[i].receive, plan_.fields,
                      plan_.should_add);
  }

 private:
  void exchange_offsets(const std::vector<std::uint64_t>& offsets,
                        const std::vector<std::uint64_t>& begin_by_local_rank,
                        const std::vector<std::uint64_t>& bytes_by_local_rank) {
    const Node& node = context_.node();
    const auto count = offsets.size();
    std::vector<std::uint64_t> offsets_of_all_ranks(count * static_cast<std::size_t>(node.local_size));
    MPI_Allgather(offsets.data(), static_cast<int>(count), MPI_UINT64_T, offsets_of_all_ranks.data(),
                  static_cast<int>(count), MPI_UINT64_T, node.node_comm);
    const auto buffer = [&](int local, std::size_t message, int turn) {
      const auto at = static_cast<std::size_t>(local);
      return memory_->data() + begin_by_local_rank[at] + static_cast<std::uint64_t>(turn) * bytes_by_local_rank[at] +
             offsets_of_all_ranks[at * count + message];
    };
    for (int turn = 0; turn < 2; ++turn)
      for (std::size_t i = 0; i < count; ++i) {
        const int from = plan_.messages[i].source;
        send_addresses_[turn].push_back(buffer(node.local_rank, i, turn));
        receive_addresses_[turn].push_back(
            from < 0 ? nullptr : buffer(node.local_rank_by_rank[static_cast<std::size_t>(from)], i, turn));
      }
  }

  ExchangeContext& context_;
  ExchangePlan plan_;
  std::unique_ptr<Segment> memory_;
  std::vector<std::byte*> send_addresses_[2], receive_addresses_[2];
  int current_buffer_ = 0;
};

// Predicts one core-to-core latency and two copies, plus the cost of short runs.
double cost_staged(const MessageShape& shape, const planning::Costs& costs) {
  return costs.flag_latency_ns() + 2 * shape.bytes * costs.copy_ns_per_byte + 2 * shape.bytes / shape.run_bytes * 4.0;
}

}  // namespace

extern const ProtocolSpec staged_protocol;
const ProtocolSpec staged_protocol{"staged", "two copies, through shared memory",
                                   make_implementation<Protocol, StagedProtocol>, cost_staged, true};

}  // namespace nearfield::halo
