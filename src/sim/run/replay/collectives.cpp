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
  PackedBuffer(Communicator& all, const Buffer& buffer) : buffer_(buffer) {
    if (!buffer.is_contiguous() && buffer.bytes() > 0) packed_.emplace(all, buffer.bytes());
  }
  Address begin() const { return packed_ ? packed_->begin() : buffer_.address; }
  Task<> pack(Communicator& all) { return all.copy(packed(), packed_ ? buffer_ : Buffer()); }
  Task<> unpack(Communicator& all) { return all.copy(buffer_, packed_ ? packed() : Buffer()); }

 private:
  Buffer packed() const { return {begin(), buffer_.bytes()}; }
  Buffer buffer_;
  std::optional<TemporaryBuffer> packed_;
};

// The buffers of a collective whose algorithm takes contiguous data: `in` is packed before the algorithm runs, `out` is
// unpacked afterwards.
struct PackedArguments {
  Buffer in, out;
  std::uint64_t bytes = 0;
};
using ContiguousAlgorithm = Task<> (*)(Communicator& all, Call call);

Task<> run_packed(Communicator& all, ContiguousAlgorithm run, PackedArguments pieces, int root) {
  PackedBuffer given(all, pieces.in), got(all, pieces.out);
  co_await given.pack(all);
  co_await run(all, Call{given.begin(), got.begin(), pieces.bytes, root});
  co_await got.unpack(all);
}

// ---- arguments of collectives

const BufferArgument& single_argument(const std::vector<BufferArgument>& parts) {
  if (parts.empty()) throw std::runtime_error("a collective operation lacks an argument in the stream");
  return parts.front();
}

std::vector<Buffer> buffers_of_arguments(const std::vector<BufferArgument>& parts, std::size_t count) {
  if (parts.size() != count) throw std::runtime_error("a collective operation has too many or too few parts");
  std::vector<Buffer> all;
  for (const BufferArgument& part : parts) all.push_back(part.buffer());
  return all;
}

std::vector<Buffer> repeated_buffer(const BufferArgument& part, std::size_t count) { return {count, part.buffer()}; }
std::vector<Buffer> consecutive_buffers(const BufferArgument& part, std::size_t count) {
  std::vector<Buffer> all;
  for (std::size_t i = 0; i < count; ++i) all.push_back(part.part_buffer(static_cast<int>(i)));
  return all;
}

// ---- collectives from or to one rank

// The root packs its data before the broadcast, the other ranks unpack theirs afterwards.
Task<> run_bcast(Communicator& all, const CollectiveArguments& arguments) {
  const Buffer data = single_argument(arguments.gives.empty() ? arguments.gets : arguments.gives).buffer();
  PackedBuffer whole(all, data);
  if (all.rank() == arguments.root) co_await whole.pack(all);
  co_await bcast_collective.run(all, Call{whole.begin(), whole.begin(), data.bytes(), arguments.root});
  if (all.rank() != arguments.root) co_await whole.unpack(all);
}

PackedArguments gather_arguments(const Communicator& all, const CollectiveArguments& arguments) {
  const BufferArgument& mine = arguments.in_place ? single_argument(arguments.gets) : single_argument(arguments.gives);
  const Buffer out =
      all.rank() == arguments.root ? single_argument(arguments.gets).consecutive_parts(all.size()) : Buffer();
  return {arguments.in_place ? mine.part_buffer(arguments.root) : mine.buffer(), out, mine.bytes()};
}

PackedArguments scatter_arguments(const Communicator& all, const CollectiveArguments& arguments) {
  const BufferArgument& mine = arguments.in_place ? single_argument(arguments.gives) : single_argument(arguments.gets);
  const Buffer in =
      all.rank() == arguments.root ? single_argument(arguments.gives).consecutive_parts(all.size()) : Buffer();
  return {in, arguments.in_place ? mine.part_buffer(arguments.root) : mine.buffer(), mine.bytes()};
}

Task<> run_gatherv(Communicator& all, const CollectiveArguments& arguments) {
  std::vector<Buffer> parts;
  if (all.rank() == arguments.root) parts = buffers_of_arguments(arguments.gets, static_cast<std::size_t>(all.size()));
  Buffer mine;
  if (arguments.in_place)
    mine = parts.at(static_cast<std::size_t>(arguments.root));
  else
    mine = single_argument(arguments.gives).buffer();
  co_await gatherv(all, mine, parts, arguments.root);
}

Task<> run_scatterv(Communicator& all, const CollectiveArguments& arguments) {
  std::vector<Buffer> parts;
  if (all.rank() == arguments.root) parts = buffers_of_arguments(arguments.gives, static_cast<std::size_t>(all.size()));
  Buffer mine;
  if (arguments.in_place)
    mine = parts.at(static_cast<std::size_t>(arguments.root));
  else
    mine = single_argument(arguments.gets).buffer();
  co_await scatterv(all, parts, mine, arguments.root);
}

// ---- collectives from all to all

Task<> run_barrier(Communicator& all, const CollectiveArguments&) {
  return find_collective("barrier").run(all, Call{});
}

PackedArguments allgather_arguments(const Communicator& all, const CollectiveArguments& arguments) {
  const BufferArgument& block = single_argument(arguments.gets);
  const Buffer in = arguments.in_place ? block.part_buffer(all.rank()) : single_argument(arguments.gives).buffer();
  return {in, block.consecutive_parts(all.size()), block.bytes()};
}

Task<> run_allgatherv(Communicator& all, const CollectiveArguments& arguments) {
  const auto parts = buffers_of_arguments(arguments.gets, static_cast<std::size_t>(all.size()));
  Buffer mine = parts[static_cast<std::size_t>(all.rank())];
  if (!arguments.in_place) mine = single_argument(arguments.gives).buffer();
  co_await allgatherv(all, mine, parts);
}

Task<> run_alltoall(Communicator& all, const CollectiveArguments& arguments) {
  const BufferArgument& block = single_argument(arguments.gets);
  if (arguments.in_place) {
    const auto parts = consecutive_buffers(block, static_cast<std::size_t>(all.size()));
    co_await alltoallw_in_place(all, parts);
    co_return;
  }
  const PackedArguments pieces{single_argument(arguments.gives).consecutive_parts(all.size()),
                               block.consecutive_parts(all.size()), block.bytes()};
  co_await run_packed(all, alltoall_collective.run, pieces, 0);
}

Task<> run_alltoallw(Communicator& all, const CollectiveArguments& arguments) {
  const auto ranks = static_cast<std::size_t>(all.size());
  const auto out = buffers_of_arguments(arguments.gets, ranks);
  if (arguments.in_place) {
    co_await alltoallw_in_place(all, out);
    co_return;
  }
  const auto in = buffers_of_arguments(arguments.gives, ranks);
  co_await alltoallw(all, in, out);
}

Task<> run_neighbor_collective(Communicator& all, const CollectiveArguments& arguments) {
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
  co_await neighbor_alltoallw(all, arguments.destinations, in, arguments.sources, out);
}

// ---- reductions

PackedArguments reduction_arguments(const Communicator&, const CollectiveArguments& arguments) {
  const BufferArgument& vector =
      arguments.in_place ? single_argument(arguments.gets) : single_argument(arguments.gives);
  return {vector.buffer(), arguments.gets.empty() ? Buffer() : arguments.gets.front().buffer(), vector.bytes()};
}

PackedArguments reduce_scatter_block_arguments(const Communicator& all, const CollectiveArguments& arguments) {
  const BufferArgument& block = single_argument(arguments.gets);
  const Buffer in = arguments.in_place ? block.consecutive_parts(all.size())
                                       : single_argument(arguments.gives).consecutive_parts(all.size());
  return {in, block.buffer(), block.bytes()};
}

Task<> exclusive_scan(Communicator& all, Call call) { return scan(all, call, true); }
Task<> inclusive_scan(Communicator& all, Call call) { return scan(all, call, false); }

// MPI_Reduce_scatter. The parts of the vector are adjacent, so the whole vector begins at the first part and has the
// elements of all parts.
Task<> run_reduce_scatter(Communicator& all, const CollectiveArguments& arguments) {
  const std::vector<BufferArgument>& parts = arguments.in_place ? arguments.gets : arguments.gives;
  std::vector<std::uint64_t> offsets{0};
  BufferArgument whole = single_argument(parts);
  whole.count = 0;
  for (const BufferArgument& part : parts) {
    offsets.push_back(offsets.back() + part.bytes());
    whole.count += part.count;
  }
  if (offsets.size() != static_cast<std::size_t>(all.size()) + 1)
    throw std::runtime_error("a collective operation has too many or too few parts");
  BufferArgument mine =
      arguments.in_place ? parts[static_cast<std::size_t>(all.rank())] : single_argument(arguments.gets);
  mine.address =
      arguments.in_place ? whole.address : mine.address;  // the result is stored at the beginning of the vector
  PackedBuffer given(all, whole.buffer()), got(all, mine.buffer());
  co_await given.pack(all);
  co_await reduce_scatter(all, given.begin(), got.begin(), std::move(offsets));
  co_await got.unpack(all);
}

// How a kind of collective is run: by an algorithm for contiguous data (`contiguous`, on the buffers that `pieces`
// returns), or by one that takes the parts where they are (`parts`).
struct CollectiveRunner {
  Kind kind;
  ContiguousAlgorithm contiguous = nullptr;
  PackedArguments (*pieces)(const Communicator& all, const CollectiveArguments& arguments) = nullptr;
  Task<> (*parts)(Communicator& all, const CollectiveArguments& arguments) = nullptr;
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
  const auto found = std::ranges::find(runners, kind, &CollectiveRunner::kind);
  if (found == runners.end()) throw std::runtime_error("a collective operation that is not known");
  return *found;
}

// Returns the buffers of arguments, of which a single one may stand for several consecutive parts.
std::vector<Buffer> all_buffers(const std::vector<BufferArgument>& arguments, std::size_t parts) {
  if (arguments.size() == 1) return {arguments.front().consecutive_parts(static_cast<int>(parts))};
  return buffers_of_arguments(arguments, arguments.size());
}

}  // namespace

std::vector<Buffer> given_buffers(const CollectiveArguments& arguments, int ranks) {
  if (arguments.gives.empty() && arguments.in_place) return result_buffers(arguments, ranks);
  const bool of_each = arguments.kind == Kind::scatter || arguments.kind == Kind::alltoall ||
                       arguments.kind == Kind::reduce_scatter_block;
  const bool of_neighbors = arguments.kind == Kind::neighbor_alltoall;
  const std::size_t parts = of_each        ? static_cast<std::size_t>(ranks)
                            : of_neighbors ? arguments.destinations.size()
                                           : 1;
  return all_buffers(arguments.gives, parts);
}

std::vector<Buffer> result_buffers(const CollectiveArguments& arguments, int ranks) {
  const bool of_each =
      arguments.kind == Kind::gather || arguments.kind == Kind::allgather || arguments.kind == Kind::alltoall;
  const bool of_neighbors = arguments.kind == Kind::neighbor_allgather || arguments.kind == Kind::neighbor_alltoall;
  const std::size_t parts = of_each ? static_cast<std::size_t>(ranks) : of_neighbors ? arguments.sources.size() : 1;
  return all_buffers(arguments.gets, parts);
}

Task<> run_collective(Communicator& all, const CollectiveArguments& arguments) {
  const CollectiveRunner& runner = runner_of(arguments.kind);
  if (runner.parts) return runner.parts(all, arguments);
  return run_packed(all, runner.contiguous, runner.pieces(all, arguments), arguments.root);
}

}  // namespace nearfield::sim::replay
