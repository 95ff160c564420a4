// Each rank copies cells out of the processes of its neighbours by process_vm_readv: one copy, from memory that need
// not be shared, with a system call per neighbour. Requires permission: same user, and neither Yama nor a container
// forbids it.
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

constexpr std::size_t max_pieces = 1024;    // maximum iovecs per call (IOV_MAX)
constexpr std::size_t max_bytes = 1 << 30;  // the kernel truncates a call just below 2 GiB

// The arguments of one process_vm_readv: local and remote pieces, in pairs of the same length.
struct Batch {
  std::vector<iovec> local, remote;
  std::size_t bytes = 0;
};

void add_run(std::byte* to, std::byte* from, std::size_t bytes, std::vector<Batch>& batches) {
  for (std::size_t part; bytes > 0; to += part, from += part, bytes -= part) {
    part = std::min(bytes, max_bytes);
    if (batches.empty() || batches.back().local.size() == max_pieces || batches.back().bytes + part > max_bytes)
      batches.emplace_back();
    auto& [mine, theirs, all] = batches.back();
    all += part;
    if (!mine.empty() && static_cast<std::byte*>(mine.back().iov_base) + mine.back().iov_len == to &&
        static_cast<std::byte*>(theirs.back().iov_base) + theirs.back().iov_len == from) {
      mine.back().iov_len += part;  // contiguous with the last piece
      theirs.back().iov_len += part;
    } else {
      mine.push_back({to, part});
      theirs.push_back({from, part});
    }
  }
}

void add_runs(const StridedCells& local, const StridedCells& remote, const Triple& extents, std::size_t cell_bytes,
              std::vector<Batch>& batches) {
  const auto dense = static_cast<Index>(cell_bytes);
  const bool rows = local.strides[2] == dense && remote.strides[2] == dense;
  const Index pieces = rows ? 1 : extents[2];
  const auto bytes = rows ? static_cast<std::size_t>(extents[2]) * cell_bytes : cell_bytes;
  for (Index i = 0; i < extents[0]; ++i)
    for (Index j = 0; j < extents[1]; ++j)
      for (Index k = 0; k < pieces; ++k) {
        const auto address = [&](const StridedCells& p) {
          return p.first + i * p.strides[0] + j * p.strides[1] + k * p.strides[2];
        };
        add_run(address(local), address(remote), bytes, batches);
      }
}

class SingleCopyProtocol final : public Protocol {
 public:
  SingleCopyProtocol(ExchangeContext& around, ExchangePlan move) : around_(around), move_(std::move(move)) {
    const Node& node = around.node();
    const auto count = static_cast<std::size_t>(node.local_size);
    batches_.resize(move_.messages.size());
    buffers_.resize(move_.messages.size());
    for (std::size_t i = 0; move_.add && i < buffers_.size(); ++i)
      buffers_[i].resize(message_bytes(move_.messages[i].receive, move_.fields));
    std::vector<std::size_t> used(move_.messages.size(), 0);
    for (const auto& field : move_.fields) {
      std::vector<Array> arrays(count);
      MPI_Allgather(&field.mine, sizeof(Array), MPI_BYTE, arrays.data(), sizeof(Array), MPI_BYTE, node.local);
      for (std::size_t i = 0; i < move_.messages.size(); ++i) append_batches(i, field.mine, arrays, used[i]);
    }
  }

  void finish_exchange() override {
    for (std::size_t i = 0; i < batches_.size(); ++i) {
      for (const auto& batch : batches_[i]) read_batch(move_.messages[i].from, batch);
      if (move_.add) unpack_strips(buffers_[i].data(), move_.messages[i].receive, move_.fields, true);
    }
    around_.wait_for_readers(move_);
  }

 private:
  void append_batches(std::size_t index, const Array& mine, const std::vector<Array>& arrays, std::size_t& used) {
    const auto& message = move_.messages[index];
    if (message.from < 0) return;
    const Array& theirs = arrays[around_.node().local_index_of(message.from)];
    for (const auto& strip : message.receive) {
      const auto extents = strip.extents();
      StridedCells local = mine.at(strip.mine.lo);
      if (move_.add) local = packed_cells(buffers_[index].data() + used, extents, mine.cell_bytes);
      used += static_cast<std::size_t>(strip.mine.cells()) * mine.cell_bytes;
      add_runs(local, theirs.at(strip.theirs.lo), extents, mine.cell_bytes, batches_[index]);
    }
  }

  void read_batch(int from, const Batch& batch) {
    const Node& node = around_.node();
    const auto process = static_cast<pid_t>(node.process_of[node.local_index_of(from)]);
    const auto done =
        process_vm_readv(process, batch.local.data(), batch.local.size(), batch.remote.data(), batch.remote.size(), 0);
    if (done == static_cast<ssize_t>(batch.bytes)) return;
    if (done < 0 && errno == ESRCH) throw Error(ErrorCode::lost, "rank " + std::to_string(from) + " is gone");
    throw Error(ErrorCode::internal, "reading the cells of rank " + std::to_string(from) + " failed: " +
                                         (done < 0 ? std::strerror(errno) : "its array is shorter than it was"));
  }

  ExchangeContext& around_;
  ExchangePlan move_;
  std::vector<std::vector<Batch>> batches_;
  std::vector<std::vector<std::byte>> buffers_;
};

// Tests permission: each rank reads a word of the next rank on its node. Returns the reason for a failure on any rank,
// or an empty string.
std::string single_copy_problem(const Node& node) {
  const long word = 4711;
  const auto address = reinterpret_cast<std::uintptr_t>(&word);
  std::vector<std::uintptr_t> addresses(static_cast<std::size_t>(node.local_size));
  MPI_Allgather(&address, sizeof address, MPI_BYTE, addresses.data(), sizeof address, MPI_BYTE, node.local);
  const auto next = static_cast<std::size_t>((node.local_rank + 1) % node.local_size);
  long read = 0;
  const iovec local{&read, sizeof read}, remote{reinterpret_cast<void*>(addresses[next]), sizeof read};
  int refused = 0;
  if (process_vm_readv(static_cast<pid_t>(node.process_of[next]), &local, 1, &remote, 1, 0) < 0)
    refused = errno;
  else if (read != word)
    refused = ESRCH;
  MPI_Allreduce(MPI_IN_PLACE, &refused, 1, MPI_INT, MPI_MAX, node.comm);  // returns after all ranks have read `word`
  return refused ? std::string("processes may not read each other's memory: ") + std::strerror(refused) : "";
}

// Predicts two core-to-core latencies, a system call, page lookups and one copy.
double cost_single_copy(const MessageShape& shape, const planning::Costs& costs) {
  return 2 * costs.flag_ns() + 700.0 + shape.bytes / 4096 * 100.0 + shape.bytes * costs.copy_ns_per_byte +
         shape.bytes / shape.run_bytes * 30.0;
}

}  // namespace

extern const ProtocolSpec single_copy_protocol;
const ProtocolSpec single_copy_protocol{.name = "single-copy",
                                        .summary = "one copy by the kernel out of the neighbour's process",
                                        .make = make_variant<Protocol, SingleCopyProtocol>,
                                        .cost_ns = cost_single_copy,
                                        .shared_only = true,
                                        .problem = single_copy_problem};

}  // namespace nearfield::halo
