#include "sim/run/replay/collectives.hpp"

#include <algorithm>
#include <optional>
#include <stdexcept>

#include "sim/mpi/collectives/blocks.hpp"
#include "sim/mpi/collectives/lists.hpp"

namespace nearfield::sim::replay {
namespace {

using Kind = stream::CollectiveKind;

// A contiguous copy of a non-contiguous buffer.
class InOnePiece {
 public:
  InOnePiece(Communicator& all, const Buffer& buffer) : buffer_(buffer) {
    if (!buffer.is_contiguous() && buffer.bytes() > 0) packed_.emplace(all, buffer.bytes());
  }
  Address begin() const { return packed_ ? packed_->begin() : buffer_.address; }
  Task<> pack(Communicator& all) { return all.copy(packed(), packed_ ? buffer_ : Buffer()); }
  Task<> unpack(Communicator& all) { return all.copy(buffer_, packed_ ? packed() : Buffer()); }

 private:
  Buffer packed() const { return {begin(), buffer_.bytes()}; }
  Buffer buffer_;
  std::optional<Temporary> packed_;
};

// The buffers of a collective that takes contiguous data. They are packed before it and unpacked afterwards.
struct Pieces {
  Buffer in, out;
  std::uint64_t bytes = 0;
};
using Contiguous = Task<> (*)(Communicator& all, Call call);

Task<> in_one_piece(Communicator& all, Contiguous run, Pieces pieces, int root) {
  InOnePiece given(all, pieces.in), got(all, pieces.out);
  co_await given.pack(all);
  co_await run(all, Call{given.begin(), got.begin(), pieces.bytes, root});
  co_await got.unpack(all);
}

// ---- arguments

const Part& only(const std::vector<Part>& parts) {
  if (parts.empty()) throw std::runtime_error("a collective operation lacks an argument in the stream");
  return parts.front();
}

std::vector<Buffer> buffers(const std::vector<Part>& parts, std::size_t count) {
  if (parts.size() != count) throw std::runtime_error("a collective operation has too many or too few parts");
  std::vector<Buffer> all;
  for (const Part& part : parts) all.push_back(part.buffer());
  return all;
}

std::vector<Buffer> repeated(const Part& part, std::size_t count) { return {count, part.buffer()}; }
std::vector<Buffer> row(const Part& part, std::size_t count) {
  std::vector<Buffer> all;
  for (std::size_t i = 0; i < count; ++i) all.push_back(part.of_row(static_cast<int>(i)));
  return all;
}

// ---- from or to one rank

// The root packs its data before, the others unpack theirs afterwards.
Task<> broadcast(Communicator& all, const CollectiveArguments& arguments) {
  const Buffer data = only(arguments.gives.empty() ? arguments.gets : arguments.gives).buffer();
  InOnePiece whole(all, data);
  if (all.rank() == arguments.root) co_await whole.pack(all);
  co_await bcast_collective.run(all, Call{whole.begin(), whole.begin(), data.bytes(), arguments.root});
  if (all.rank() != arguments.root) co_await whole.unpack(all);
}

Pieces gather(const Communicator& all, const CollectiveArguments& arguments) {
  const Part& mine = arguments.in_place ? only(arguments.gets) : only(arguments.gives);
  const Buffer out = all.rank() == arguments.root ? only(arguments.gets).row(all.size()) : Buffer();
  return {arguments.in_place ? mine.of_row(arguments.root) : mine.buffer(), out, mine.bytes()};
}

Pieces scatter(const Communicator& all, const CollectiveArguments& arguments) {
  const Part& mine = arguments.in_place ? only(arguments.gives) : only(arguments.gets);
  const Buffer in = all.rank() == arguments.root ? only(arguments.gives).row(all.size()) : Buffer();
  return {in, arguments.in_place ? mine.of_row(arguments.root) : mine.buffer(), mine.bytes()};
}

Task<> gather_list(Communicator& all, const CollectiveArguments& arguments) {
  std::vector<Buffer> parts;
  if (all.rank() == arguments.root) parts = buffers(arguments.gets, static_cast<std::size_t>(all.size()));
  Buffer mine;
  if (arguments.in_place)
    mine = parts.at(static_cast<std::size_t>(arguments.root));
  else
    mine = only(arguments.gives).buffer();
  co_await gatherv(all, mine, parts, arguments.root);
}

Task<> scatter_list(Communicator& all, const CollectiveArguments& arguments) {
  std::vector<Buffer> parts;
  if (all.rank() == arguments.root) parts = buffers(arguments.gives, static_cast<std::size_t>(all.size()));
  Buffer mine;
  if (arguments.in_place)
    mine = parts.at(static_cast<std::size_t>(arguments.root));
  else
    mine = only(arguments.gets).buffer();
  co_await scatterv(all, parts, mine, arguments.root);
}

// ---- from all to all

Task<> barrier(Communicator& all, const CollectiveArguments&) { return find_collective("barrier").run(all, Call{}); }

Pieces gather_to_all(const Communicator& all, const CollectiveArguments& arguments) {
  const Part& block = only(arguments.gets);
  const Buffer in = arguments.in_place ? block.of_row(all.rank()) : only(arguments.gives).buffer();
  return {in, block.row(all.size()), block.bytes()};
}

Task<> gather_list_to_all(Communicator& all, const CollectiveArguments& arguments) {
  const auto parts = buffers(arguments.gets, static_cast<std::size_t>(all.size()));
  Buffer mine = parts[static_cast<std::size_t>(all.rank())];
  if (!arguments.in_place) mine = only(arguments.gives).buffer();
  co_await allgatherv(all, mine, parts);
}

Task<> all_to_all(Communicator& all, const CollectiveArguments& arguments) {
  const Part& block = only(arguments.gets);
  if (arguments.in_place) {
    const auto parts = row(block, static_cast<std::size_t>(all.size()));
    co_await alltoallw_in_place(all, parts);
    co_return;
  }
  const Pieces pieces{only(arguments.gives).row(all.size()), block.row(all.size()), block.bytes()};
  co_await in_one_piece(all, alltoall_collective.run, pieces, 0);
}

Task<> lists_to_all(Communicator& all, const CollectiveArguments& arguments) {
  const auto ranks = static_cast<std::size_t>(all.size());
  const auto out = buffers(arguments.gets, ranks);
  if (arguments.in_place) {
    co_await alltoallw_in_place(all, out);
    co_return;
  }
  const auto in = buffers(arguments.gives, ranks);
  co_await alltoallw(all, in, out);
}

Task<> with_neighbors(Communicator& all, const CollectiveArguments& arguments) {
  const std::size_t to = arguments.destinations.size(), from = arguments.sources.size();
  std::vector<Buffer> in, out;
  const bool gives_one = arguments.kind == Kind::neighbor_allgather || arguments.kind == Kind::neighbor_allgatherv;
  const bool gives_row = arguments.kind == Kind::neighbor_alltoall;
  const bool gets_row = arguments.kind == Kind::neighbor_allgather || arguments.kind == Kind::neighbor_alltoall;
  if (to > 0 && gives_one) in = repeated(only(arguments.gives), to);
  if (to > 0 && !gives_one) in = gives_row ? row(only(arguments.gives), to) : buffers(arguments.gives, to);
  if (from > 0) out = gets_row ? row(only(arguments.gets), from) : buffers(arguments.gets, from);
  co_await neighbor_alltoallw(all, arguments.destinations, in, arguments.sources, out);
}

// ---- reductions

Pieces vector(const Communicator&, const CollectiveArguments& arguments) {
  const Part& vector = arguments.in_place ? only(arguments.gets) : only(arguments.gives);
  return {vector.buffer(), arguments.gets.empty() ? Buffer() : arguments.gets.front().buffer(), vector.bytes()};
}

Pieces vector_and_block(const Communicator& all, const CollectiveArguments& arguments) {
  const Part& block = only(arguments.gets);
  const Buffer in = arguments.in_place ? block.row(all.size()) : only(arguments.gives).row(all.size());
  return {in, block.buffer(), block.bytes()};
}

Task<> exclusive_scan(Communicator& all, Call call) { return scan(all, call, true); }
Task<> inclusive_scan(Communicator& all, Call call) { return scan(all, call, false); }

// The parts are contiguous, so the whole vector is that of all their elements, beginning at the first part.
Task<> reduce_to_list(Communicator& all, const CollectiveArguments& arguments) {
  const std::vector<Part>& parts = arguments.in_place ? arguments.gets : arguments.gives;
  std::vector<std::uint64_t> offsets{0};
  Part whole = only(parts);
  whole.count = 0;
  for (const Part& part : parts) {
    offsets.push_back(offsets.back() + part.bytes());
    whole.count += part.count;
  }
  if (offsets.size() != static_cast<std::size_t>(all.size()) + 1)
    throw std::runtime_error("a collective operation has too many or too few parts");
  Part mine = arguments.in_place ? parts[static_cast<std::size_t>(all.rank())] : only(arguments.gets);
  mine.address =
      arguments.in_place ? whole.address : mine.address;  // the result is stored at the beginning of the vector
  InOnePiece given(all, whole.buffer()), got(all, mine.buffer());
  co_await given.pack(all);
  co_await reduce_scatter(all, given.begin(), got.begin(), std::move(offsets));
  co_await got.unpack(all);
}

// How a kind is run: by an algorithm for contiguous data, or by one that takes the parts where they are.
struct Runner {
  Kind kind;
  Contiguous contiguous = nullptr;
  Pieces (*pieces)(const Communicator& all, const CollectiveArguments& arguments) = nullptr;
  Task<> (*parts)(Communicator& all, const CollectiveArguments& arguments) = nullptr;
};

const Runner& runner_of(Kind kind) {
  static const auto run = [](const char* name) { return find_collective(name).run; };
  static const std::vector<Runner> runners{
      {Kind::reduce, run("reduce"), vector},
      {Kind::allreduce, run("allreduce"), vector},
      {Kind::scan, inclusive_scan, vector},
      {Kind::exscan, exclusive_scan, vector},
      {Kind::gather, run("gather"), gather},
      {Kind::scatter, run("scatter"), scatter},
      {Kind::allgather, run("allgather"), gather_to_all},
      {Kind::reduce_scatter_block, run("reduce_scatter"), vector_and_block},
      {Kind::barrier, {}, {}, barrier},
      {Kind::bcast, {}, {}, broadcast},
      {Kind::gatherv, {}, {}, gather_list},
      {Kind::scatterv, {}, {}, scatter_list},
      {Kind::allgatherv, {}, {}, gather_list_to_all},
      {Kind::alltoall, {}, {}, all_to_all},
      {Kind::alltoallv, {}, {}, lists_to_all},
      {Kind::alltoallw, {}, {}, lists_to_all},
      {Kind::reduce_scatter, {}, {}, reduce_to_list},
      {Kind::neighbor_allgather, {}, {}, with_neighbors},
      {Kind::neighbor_allgatherv, {}, {}, with_neighbors},
      {Kind::neighbor_alltoall, {}, {}, with_neighbors},
      {Kind::neighbor_alltoallv, {}, {}, with_neighbors},
      {Kind::neighbor_alltoallw, {}, {}, with_neighbors},
  };
  const auto found = std::ranges::find(runners, kind, &Runner::kind);
  if (found == runners.end()) throw std::runtime_error("a collective operation that is not known");
  return *found;
}

}  // namespace

Task<> run_collective(Communicator& all, const CollectiveArguments& arguments) {
  const Runner& runner = runner_of(arguments.kind);
  if (runner.parts) return runner.parts(all, arguments);
  return in_one_piece(all, runner.contiguous, runner.pieces(all, arguments), arguments.root);
}

}  // namespace nearfield::sim::replay
