// Each rank packs cells for its neighbours into shared memory, and the neighbours unpack them: two copies, one of them
// between cores. Two buffers alternate, so that a rank need not wait until its neighbours have read the previous
// buffer.
#include <cstdint>

#include "halo/protocol.hpp"

namespace nearfield::halo {
namespace {

constexpr std::size_t line = 128;

class StagedProtocol final : public Protocol {
 public:
  StagedProtocol(ExchangeContext& around, ExchangePlan move) : around_(around), move_(std::move(move)) {
    const Node& node = around.node();
    std::vector<std::uint64_t> offsets;  // of each message in this rank's part of the memory
    std::uint64_t bytes = 0;
    for (const auto& message : move_.messages) {
      offsets.push_back(bytes);
      bytes += (message_bytes(message.send, move_.fields) + line - 1) / line * line;
    }
    std::vector<std::uint64_t> parts(static_cast<std::size_t>(node.local_size));
    MPI_Allgather(&bytes, 1, MPI_UINT64_T, parts.data(), 1, MPI_UINT64_T, node.local);
    std::uint64_t total = 0, begin = 0;
    std::vector<std::uint64_t> begins;
    for (const auto part : parts) {
      begins.push_back(total);
      total += 2 * part;
    }
    begin = begins[static_cast<std::size_t>(node.local_rank)];
    memory_ = std::make_unique<Segment>(node, total, begin, begin + 2 * bytes, Backing::own);
    exchange_offsets(offsets, begins, parts);
  }

  void prepare_exchange() override {
    turn_ ^= 1;
    for (std::size_t i = 0; i < move_.messages.size(); ++i)
      if (move_.messages[i].to >= 0) pack_strips(out_[turn_][i], move_.messages[i].send, move_.fields);
  }

  void finish_exchange() override {
    for (std::size_t i = 0; i < move_.messages.size(); ++i)
      if (move_.messages[i].from >= 0) unpack_strips(in_[turn_][i], move_.messages[i].receive, move_.fields, move_.add);
  }

 private:
  void exchange_offsets(const std::vector<std::uint64_t>& offsets, const std::vector<std::uint64_t>& begins,
                        const std::vector<std::uint64_t>& parts) {
    const Node& node = around_.node();
    const auto count = offsets.size();
    std::vector<std::uint64_t> all(count * static_cast<std::size_t>(node.local_size));
    MPI_Allgather(offsets.data(), static_cast<int>(count), MPI_UINT64_T, all.data(), static_cast<int>(count),
                  MPI_UINT64_T, node.local);
    const auto buffer = [&](int local, std::size_t message, int turn) {
      const auto at = static_cast<std::size_t>(local);
      return memory_->data() + begins[at] + static_cast<std::uint64_t>(turn) * parts[at] + all[at * count + message];
    };
    for (int turn = 0; turn < 2; ++turn)
      for (std::size_t i = 0; i < count; ++i) {
        const int from = move_.messages[i].from;
        out_[turn].push_back(buffer(node.local_rank, i, turn));
        in_[turn].push_back(from < 0 ? nullptr : buffer(node.local_of[static_cast<std::size_t>(from)], i, turn));
      }
  }

  ExchangeContext& around_;
  ExchangePlan move_;
  std::unique_ptr<Segment> memory_;
  std::vector<std::byte*> out_[2], in_[2];
  int turn_ = 0;
};

// Predicts one core-to-core latency and two copies, plus the cost of short runs.
double cost_staged(const MessageShape& shape, const planning::Costs& costs) {
  return costs.flag_ns() + 2 * shape.bytes * costs.copy_ns_per_byte + 2 * shape.bytes / shape.run_bytes * 4.0;
}

}  // namespace

extern const ProtocolSpec staged_protocol;
const ProtocolSpec staged_protocol{"staged", "two copies, through shared memory",
                                   make_variant<Protocol, StagedProtocol>, cost_staged, true};

}  // namespace nearfield::halo
