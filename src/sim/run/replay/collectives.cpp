#include "sim/run/replay/collectives.hpp"

#include <algorithm>
#include <optional>
#include <stdexcept>

#include "sim/mpi/collectives/blocks.hpp"
#include "sim/mpi/collectives/lists.hpp"

namespace nearfield::sim::replay {
namespace {

using Kind = stream::CollectiveKind;

// A buffer, with a contiguous copy if the buffer is not contiguous.
class PackedBuffer {
 public:
  PackedBuffer(Communicator& comm, const Buffer& buffer) : buffer_(buffer) {
    if (!buffer.is_contiguous() && buffer.bytes() > 0) temporary_buffer_.emplace(comm, buffer.bytes());
  }
  Address begin() const { return temporary_buffer_ ? temporary_buffer_->begin() : buffer_.address; }
  Task<> pack(Communicator& comm) { return comm.copy(contiguous_buffer(), temporary_buffer_ ? buffer_ : Buffer()); }
  Task<> unpack(Communicator& comm) { return comm.copy(buffer_, temporary_buffer_ ? contiguous_buffer() : Buffer()); }

 private:
  Buffer contiguous_buffer() const { return {begin(), buffer_.bytes()}; }
  Buffer buffer_;
  std::optional<TemporaryBuffer> temporary_buffer_;
};

// The buffers of a collective whose algorithm takes contiguous data: `in` is packed before the algorithm runs, `out` is
// unpacked afterwards.
struct PackedArguments {
  Buffer in, out;
  std::uint64_t bytes = 0;
};
using ContiguousAlgorithm = Task<> (*)(Communicator& comm, CollectiveCall call);

Task<> run_packed(Communicator& comm, ContiguousAlgorithm run, PackedArguments packed_arguments, int root) {
  PackedBuffer packed_input(comm, packed_arguments.in), packed_output(comm, packed_arguments.out);
  co_await packed_input.pack(comm);
  co_await run(comm, CollectiveCall{packed_input.begin(), packed_output.begin(), packed_arguments.bytes, root});
  co_await packed_output.unpack(comm);
}

// ---- arguments of collectives

const BufferArgument& single_argument(const std::vector<BufferArgument>& parts) {
  if (parts.empty()) throw std::runtime_error("a collective operation lacks an argument in the stream");
  return parts.front();
}

std::vector<Buffer> buffers_of_arguments(const std::vector<BufferArgument>& parts, std::size_t count) {
  if (parts.size() != count) throw std::runtime_error("a collective operation has too many or too few parts");
  std::vector<Buffer> buffers;
  for (const BufferArgument& part : parts) buffers.push_back(part.buffer());
  return buffers;
}

std::vector<Buffer> repeated_buffer(const BufferArgument& part, std::size_t count) { return {count, part.buffer()}; }
std::vector<Buffer> consecutive_buffers(const BufferArgument& part, std::size_t count) {
  std::vector<Buffer> buffers;
  for (std::size_t i = 0; i < count; ++i) buffers.push_back(part.part_buffer(static_cast<int>(i)));
  return buffers;
}

// ---- collectives from or to one rank

// The root packs its data before the broadcast, the other ranks unpack theirs afterwards.
Task<> run_bcast(Communicator& comm, const CollectiveArguments& arguments) {
  const Buffer data = single_argument(arguments.gives.empty() ? arguments.gets : arguments.gives).buffer();
  PackedBuffer whole(comm, data);
  if (comm.rank() == arguments.root) co_await whole.pack(comm);
  co_await bcast_collective.run(comm, CollectiveCall{whole.begin(), whole.begin(), data.bytes(), arguments.root});
  if (comm.rank() != arguments.root) co_await whole.unpack(comm);
}

PackedArguments gather_arguments(const Communicator& comm, const CollectiveArguments& arguments) {
  const BufferArgument& own_part =
      arguments.in_place ? single_argument(arguments.gets) : single_argument(arguments.gives);
  const Buffer out =
      comm.rank() == arguments.root ? single_argument(arguments.gets).consecutive_parts(comm.size()) : Buffer();
  return {arguments.in_place ? own_part.part_buffer(arguments.root) : own_part.buffer(), out, own_part.bytes()};
}

PackedArguments scatter_arguments(const Communicator& comm, const CollectiveArguments& arguments) {
  const BufferArgument& own_part =
      arguments.in_place ? single_argument(arguments.gives) : single_argument(arguments.gets);
  const Buffer in =
      comm.rank() == arguments.root ? single_argument(arguments.gives).consecutive_parts(comm.size()) : Buffer();
  return {in, arguments.in_place ? own_part.part_buffer(arguments.root) : own_part.buffer(), own_part.bytes()};
}

Task<> run_gatherv(Communicator& comm, const CollectiveArguments& arguments) {
  std::vector<Buffer> parts;
  if (comm.rank() == arguments.root)
    parts = buffers_of_arguments(arguments.gets, static_cast<std::size_t>(comm.size()));
  Buffer own_part;
  if (arguments.in_place)
    own_part = parts.at(static_cast<std::size_t>(arguments.root));
  else
    own_part = single_argument(arguments.gives).buffer();
  co_await gatherv(comm, own_part, parts, arguments.root);
}

Task<> run_scatterv(Communicator& comm, const CollectiveArguments& arguments) {
  std::vector<Buffer> parts;
  if (comm.rank() == arguments.root)
    parts = buffers_of_arguments(arguments.gives, static_cast<std::size_t>(comm.size()));
  Buffer own_part;
  if (arguments.in_place)
    own_part = parts.at(static_cast<std::size_t>(arguments.root));
  else
    own_part = single_argument(arguments.gets).buffer();
  co_await scatterv(comm, parts, own_part, arguments.root);
}

// ---- collectives from all to all

Task<> run_barrier(Communicator& comm, const CollectiveArguments&) {
  return find_collective("barrier").run(comm, CollectiveCall{});
}

PackedArguments allgather_arguments(const Communicator& comm, const CollectiveArguments& arguments) {
  const BufferArgument& block = single_argument(arguments.gets);
  const Buffer in = arguments.in_place ? block.part_buffer(comm.rank()) : single_argument(arguments.gives).buffer();
  return {in, block.consecutive_parts(comm.size()), block.bytes()};
}

Task<> run_allgatherv(Communicator& comm, const CollectiveArguments& arguments) {
  const auto parts = buffers_of_arguments(arguments.gets, static_cast<std::size_t>(comm.size()));
  Buffer own_part = parts[static_cast<std::size_t>(comm.rank())];
  if (!arguments.in_place) own_part = single_argument(arguments.gives).buffer();
  co_await allgatherv(comm, own_part, parts);
}

Task<> run_alltoall(Communicator& comm, const CollectiveArguments& arguments) {
  const BufferArgument& block = single_argument(arguments.gets);
  if (arguments.in_place) {
    const auto parts = consecutive_buffers(block, static_cast<std::size_t>(comm.size()));
    co_await alltoallw_in_place(comm, parts);
    co_return;
  }
  const PackedArguments packed_arguments{single_argument(arguments.gives).consecutive_parts(comm.size()),
                                         block.consecutive_parts(comm.size()), block.bytes()};
  co_await run_packed(comm, alltoall_collective.run, packed_arguments, 0);
}

Task<> run_alltoallw(Communicator& comm, const CollectiveArguments& arguments) {
  const auto ranks = static_cast<std::size_t>(comm.size());
  const auto out = buffers_of_arguments(arguments.gets, ranks);
  if (arguments.in_place) {
    co_await alltoallw_in_place(comm, out);
    co_return;
  }
  const auto in = buffers_of_arguments(arguments.gives, ranks);
  co_await alltoallw(comm, in, out);
}

Task<> run_neighbor_collective(Communicator& comm, const CollectiveArguments& arguments) {
  const std::size_t to = arguments.destinations.size(), from = arguments.sources.size();
  std::vector<Buffer> in, out;
  const bool gives_one = arguments.kind == Kind::neighbor_allgather || arguments.kind == Kind::neighbor_allgatherv;
  const bool gives_row = arguments.kind == Kind::neighbor_alltoall;
  const bool gets_row = arguments.kind == Kind::neighbor_allgather || arguments.kind == Kind::neighbor_alltoall;
  if (to > 0 && gives_one) in = repeated_buffer(single_argument(arguments.gives), to);
  if (to > 0 && !gives_one)
    in = gives_row ? consecutive_buffers(single_argument(arguments.gives), to)
                   : buffers_of_arguments(arguments.gives, to);
  if (from > 0)
    out = gets_row ? consecutive_buffers(single_argument(arguments.gets), from)
                   : buffers_of_arguments(arguments.gets, from);
  co_await neighbor_alltoallw(comm, arguments.destinations, in, arguments.sources, out);
}

// ---- reductions

PackedArguments reduction_arguments(const Communicator&, const CollectiveArguments& arguments) {
  const BufferArgument& vector =
      arguments.in_place ? single_argument(arguments.gets) : single_argument(arguments.gives);
  return {vector.buffer(), arguments.gets.empty() ? Buffer() : arguments.gets.front().buffer(), vector.bytes()};
}

PackedArguments reduce_scatter_block_arguments(const Communicator& comm, const CollectiveArguments& arguments) {
  const BufferArgument& block = single_argument(arguments.gets);
  const Buffer in = arguments.in_place ? block.consecutive_parts(comm.size())
                                       : single_argument(arguments.gives).consecutive_parts(comm.size());
  return {in, block.buffer(), block.bytes()};
}

Task<> exclusive_scan(Communicator& comm, CollectiveCall call) { return scan(comm, call, true); }
Task<> inclusive_scan(Communicator& comm, CollectiveCall call) { return scan(comm, call, false); }

// Runs MPI_Reduce_scatter. The parts of the vector are adjacent, so the whole vector begins at the first part and has
// the elements of all parts.
Task<> run_reduce_scatter(Communicator& comm, const CollectiveArguments& arguments) {
  const std::vector<BufferArgument>& parts = arguments.in_place ? arguments.gets : arguments.gives;
  std::vector<std::uint64_t> offsets{0};
  BufferArgument whole = single_argument(parts);
  whole.count = 0;
  for (const BufferArgument& part : parts) {
    offsets.push_back(offsets.back() + part.bytes());
    whole.count += part.count;
  }
  if (offsets.size() != static_cast<std::size_t>(comm.size()) + 1)
    throw std::runtime_error("a collective operation has too many or too few parts");
  BufferArgument own_part =
      arguments.in_place ? parts[static_cast<std::size_t>(comm.rank())] : single_argument(arguments.gets);
  own_part.address =
      arguments.in_place ? whole.address : own_part.address;  // the result is stored at the beginning of the vector
  PackedBuffer packed_input(comm, whole.buffer()), packed_output(comm, own_part.buffer());
  co_await packed_input.pack(comm);
  co_await reduce_scatter(comm, packed_input.begin(), packed_output.begin(), std::move(offsets));
  co_await packed_output.unpack(comm);
}

// How a kind of collective is run: either `contiguous`, an algorithm for contiguous data, runs on packed copies of the
// buffers that `packed_arguments` returns, or `parts` runs on the buffers themselves.
struct CollectiveRunner {
  Kind kind;
  ContiguousAlgorithm contiguous = nullptr;
  PackedArguments (*packed_arguments)(const Communicator& comm, const CollectiveArguments& arguments) = nullptr;
  Task<> (*parts)(Communicator& comm, const CollectiveArguments& arguments) = nullptr;
};

const CollectiveRunner& runner_of(Kind kind) {
  static const auto run = [](const char* name) { return find_collective(name).run; };
  static const std::vector<CollectiveRunner> runners{
      {Kind::reduce, run("reduce"), reduction_arguments},
      {Kind::allreduce, run("allreduce"), reduction_arguments},
      {Kind::scan, inclusive_scan, reduction_arguments},
      {Kind::exscan, exclusive_scan, reduction_arguments},
      {Kind::gather, run("gather"), gather_arguments},
      {Kind::scatter, run("scatter"), scatter_arguments},
      {Kind::allgather, run("allgather"), allgather_arguments},
      {Kind::reduce_scatter_block, run("reduce_scatter"), reduce_scatter_block_arguments},
      {Kind::barrier, {}, {}, run_barrier},
      {Kind::bcast, {}, {}, run_bcast},
      {Kind::gatherv, {}, {}, run_gatherv},
      {Kind::scatterv, {}, {}, run_scatterv},
      {Kind::allgatherv, {}, {}, run_allgatherv},
      {Kind::alltoall, {}, {}, run_alltoall},
      {Kind::alltoallv, {}, {}, run_alltoallw},
      {Kind::alltoallw, {}, {}, run_alltoallw},
      {Kind::reduce_scatter, {}, {}, run_reduce_scatter},
      {Kind::neighbor_allgather, {}, {}, run_neighbor_collective},
      {Kind::neighbor_allgatherv, {}, {}, run_neighbor_collective},
      {Kind::neighbor_alltoall, {}, {}, run_neighbor_collective},
      {Kind::neighbor_alltoallv, {}, {}, run_neighbor_collective},
      {Kind::neighbor_alltoallw, {}, {}, run_neighbor_collective},
  };
  const auto runner = std::ranges::find(runners, kind, &CollectiveRunner::kind);
  if (runner == runners.end()) throw std::runtime_error("a collective operation that is not known");
  return *runner;
}

// Returns the buffers of all arguments. A single argument stands for `parts` consecutive parts.
std::vector<Buffer> all_buffers(const std::vector<BufferArgument>& arguments, std::size_t parts) {
  if (arguments.size() == 1) return {arguments.front().consecutive_parts(static_cast<int>(parts))};
  return buffers_of_arguments(arguments, arguments.size());
}

}  // namespace

std::vector<Buffer> input_buffers(const CollectiveArguments& arguments, int ranks) {
  if (arguments.gives.empty() && arguments.in_place) return output_buffers(arguments, ranks);
  const bool of_each = arguments.kind == Kind::scatter || arguments.kind == Kind::alltoall ||
                       arguments.kind == Kind::reduce_scatter_block;
  const bool of_neighbors = arguments.kind == Kind::neighbor_alltoall;
  const std::size_t parts = of_each        ? static_cast<std::size_t>(ranks)
                            : of_neighbors ? arguments.destinations.size()
                                           : 1;
  return all_buffers(arguments.gives, parts);
}

std::vector<Buffer> output_buffers(const CollectiveArguments& arguments, int ranks) {
  const bool of_each =
      arguments.kind == Kind::gather || arguments.kind == Kind::allgather || arguments.kind == Kind::alltoall;
  const bool of_neighbors = arguments.kind == Kind::neighbor_allgather || arguments.kind == Kind::neighbor_alltoall;
  const std::size_t parts = of_each ? static_cast<std::size_t>(ranks) : of_neighbors ? arguments.sources.size() : 1;
  return all_buffers(arguments.gets, parts);
}

Task<> run_collective(Communicator& comm, const CollectiveArguments& arguments) {
  const CollectiveRunner& runner = runner_of(arguments.kind);
  if (runner.parts) return runner.parts(comm, arguments);
  return run_packed(comm, runner.contiguous, runner.packed_arguments(comm, arguments), arguments.root);
}

}  // namespace nearfield::sim::replay
