// Each rank copies cells out of its neighbours' processes by process_vm_readv: one copy, from memory that need not be
// shared, with a system call per neighbour. The processes must belong to the same user, and neither Yama nor a
// container may forbid the call.
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "halo/error.hpp"
#include "halo/protocol.hpp"

namespace nearfield::halo {
namespace {

constexpr std::size_t max_iovecs_per_call = 1024;    // maximum iovecs per call (IOV_MAX)
constexpr std::size_t max_bytes_per_call = 1 << 30;  // the kernel truncates a call just below 2 GiB

// The arguments of one process_vm_readv: local and remote pieces, in pairs of the same length.
struct ReadBatch {
  std::vector<iovec> local, remote;
  std::size_t bytes = 0;
};

void append_run(std::byte* to, std::byte* from, std::size_t bytes, std::vector<ReadBatch>& batches) {
  for (std::size_t part; bytes > 0; to += part, from += part, bytes -= part) {
    part = std::min(bytes, max_bytes_per_call);
    if (batches.empty() || batches.back().local.size() == max_iovecs_per_call ||
        batches.back().bytes + part > max_bytes_per_call)
      batches.emplace_back();
    auto& [local_pieces, remote_pieces, total_bytes] = batches.back();
    total_bytes += part;
    if (!local_pieces.empty() &&
        static_cast<std::byte*>(local_pieces.back().iov_base) + local_pieces.back().iov_len == to &&
        static_cast<std::byte*>(remote_pieces.back().iov_base) + remote_pieces.back().iov_len == from) {
      local_pieces.back().iov_len += part;  // contiguous with the last piece
      remote_pieces.back().iov_len += part;
    } else {
      local_pieces.push_back({to, part});
      remote_pieces.push_back({from, part});
    }
  }
}

void append_runs(const StridedCells& local, const StridedCells& remote, const Triple& extents, std::size_t cell_bytes,
                 std::vector<ReadBatch>& batches) {
  const auto dense = static_cast<Index>(cell_bytes);
  const bool has_dense_rows = local.strides[2] == dense && remote.strides[2] == dense;
  const Index pieces = has_dense_rows ? 1 : extents[2];
  const auto bytes = has_dense_rows ? static_cast<std::size_t>(extents[2]) * cell_bytes : cell_bytes;
  for (Index i = 0; i < extents[0]; ++i)
    for (Index j = 0; j < extents[1]; ++j)
      for (Index k = 0; k < pieces; ++k) {
        const auto address = [&](const StridedCells& p) {
          return p.first + i * p.strides[0] + j * p.strides[1] + k * p.strides[2];
        };
        append_run(address(local), address(remote), bytes, batches);
      }
}

class SingleCopyProtocol final : public Protocol {
 public:
  SingleCopyProtocol(ExchangeContext& context, ExchangePlan plan) : context_(context), plan_(std::move(plan)) {
    const Node& node = context.node();
    const auto count = static_cast<std::size_t>(node.local_size);
    batches_.resize(plan_.messages.size());
    buffers_.resize(plan_.messages.size());
    for (std::size_t i = 0; plan_.should_add && i < buffers_.size(); ++i)
      buffers_[i].resize(message_bytes(plan_.messages[i].receive, plan_.fields));
    std::vector<std::size_t> used_buffer_bytes(plan_.messages.size(), 0);
    for (const auto& field : plan_.fields) {
      std::vector<Array> arrays(count);
      MPI_Allgather(&field.local_array, sizeof(Array), MPI_BYTE, arrays.data(), sizeof(Array), MPI_BYTE,
                    node.node_comm);
      for (std::size_t i = 0; i < plan_.messages.size(); ++i)
        append_batches(i, field.local_array, arrays, used_buffer_bytes[i]);
    }
  }

  void finish_exchange() override {
    for (std::size_t i = 0; i < batches_.size(); ++i) {
      for (const auto& batch : batches_[i]) read_batch(plan_.messages[i].source, batch);
      if (plan_.should_add) unpack_strips(buffers_[i].data(), plan_.messages[i].receive, plan_.fields, true);
    }
    context_.wait_until_cells_are_fetched(plan_);
  }

 private:
  void append_batches(std::size_t index, const Array& local_array, const std::vector<Array>& arrays,
                      std::size_t& used_buffer_bytes) {
    const auto& message = plan_.messages[index];
    if (message.source < 0) return;
    const Array& neighbor_array = arrays[context_.node().local_rank_of(message.source)];
    for (const auto& strip : message.receive) {
      const auto extents = strip.extents();
      StridedCells local = local_array.at(strip.local_box.lo);
      if (plan_.should_add)
        local = packed_cells(buffers_[index].data() + used_buffer_bytes, extents, local_array.cell_bytes);
      used_buffer_bytes += static_cast<std::size_t>(strip.local_box.num_cells()) * local_array.cell_bytes;
      append_runs(local, neighbor_array.at(strip.neighbor_box.lo), extents, local_array.cell_bytes, batches_[index]);
    }
  }

  void read_batch(int from, const ReadBatch& batch) {
    const Node& node = context_.node();
    const auto process = static_cast<pid_t>(node.process_id_by_local_rank[node.local_rank_of(from)]);
    const auto num_read_bytes =
        process_vm_readv(process, batch.local.data(), batch.local.size(), batch.remote.data(), batch.remote.size(), 0);
    if (num_read_bytes == static_cast<ssize_t>(batch.bytes)) return;
    if (num_read_bytes < 0 && errno == ESRCH)
      throw Error(ErrorCode::lost, "rank " + std::to_string(from) + " has ended");
    throw Error(ErrorCode::internal,
                "reading the cells of rank " + std::to_string(from) +
                    " failed: " + (num_read_bytes < 0 ? std::strerror(errno) : "its array is shorter than it was"));
  }

  ExchangeContext& context_;
  ExchangePlan plan_;
  std::vector<std::vector<ReadBatch>> batches_;
  std::vector<std::vector<std::byte>> buffers_;
};

// Tests whether the call is permitted: each rank reads a word of the next rank on its node. If any rank fails, returns
// the reason, otherwise an empty string.
std::string single_copy_unavailability_reason(const Node& node) {
  const long word = 4711;
  const auto address = reinterpret_cast<std::uintptr_t>(&word);
  std::vector<std::uintptr_t> addresses(static_cast<std::size_t>(node.local_size));
  MPI_Allgather(&address, sizeof address, MPI_BYTE, addresses.data(), sizeof address, MPI_BYTE, node.node_comm);
  const auto next = static_cast<std::size_t>((node.local_rank + 1) % node.local_size);
  long read = 0;
  const iovec local{&read, sizeof read}, remote{reinterpret_cast<void*>(addresses[next]), sizeof read};
  int refused = 0;
  if (process_vm_readv(static_cast<pid_t>(node.process_id_by_local_rank[next]), &local, 1, &remote, 1, 0) < 0)
    refused = errno;
  else if (read != word)
    refused = ESRCH;
  MPI_Allreduce(MPI_IN_PLACE, &refused, 1, MPI_INT, MPI_MAX, node.comm);  // returns after all ranks have read `word`
  return refused ? std::string("processes may not read each other's memory: ") + std::strerror(refused) : "";
}

// Predicts two core-to-core latencies, a system call, page lookups and one copy.
double cost_single_copy(const MessageShape& shape, const planning::Costs& costs) {
  return 2 * costs.flag_latency_ns() + 700.0 + shape.bytes / 4096 * 100.0 + shape.bytes * costs.copy_ns_per_byte +
         shape.bytes / shape.run_bytes * 30.0;
}

}  // namespace

extern const ProtocolSpec single_copy_protocol;
const ProtocolSpec single_copy_protocol{.name = "single-copy",
                                        .summary = "one copy by the kernel out of the neighbour's process",
                                        .make = make_implementation<Protocol, SingleCopyProtocol>,
                                        .cost_ns = cost_single_copy,
                                        .is_intra_node_only = true,
                                        .unavailability_reason = single_copy_unavailability_reason};

}  // namespace nearfield::halo
