// The flat collectives of one node, on contiguous data, for every Port of an Exchange: each rank reads from all others
// that have data for it. All ranks of the communicator call
// the same function with the same root, and with lengths that fit each other, as MPI requires.
//
// A rank that has returned may reuse its buffers. Buffers that one rank sends and receives with may be the same where a
// function says so ("in place").
//
// A rank chooses its steps by its own arguments alone. A sender records in its line whether its data lie in the line,
// in a slot or in its memory, and readers follow that. Only reductions choose between algorithms; they do so by the
// total length, which MPI makes equal on all ranks. Results are combined in the order of the ranks: ((r0 + r1) + r2) +
// ..., whoever combines them, so all ranks get the same bits in every run.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "collectives/exchange.hpp"

namespace nearfield::collectives {

struct Free {
  void operator()(void* block) const { std::free(block); }
};
// Memory of the C library's heap, which readers copy from without a system call where the shared heap is loaded.
using Buffer = std::unique_ptr<Bytes, Free>;
inline Buffer make_buffer(std::size_t bytes) {
  Buffer buffer(static_cast<Bytes*>(std::malloc(std::max<std::size_t>(bytes, 1))));
  if (!buffer) std::abort();
  return buffer;
}

// A rank's piece of the data that another rank offers.
struct Piece {
  const Bytes* data;
  std::size_t bytes;
};

inline constexpr std::size_t max_whole_bytes = std::size_t{256} << 10;  // measured: beyond it, adding takes too long
inline constexpr std::size_t part_bytes = 32768;  // of a reduction: a few of them fit into the first cache

// A reduction combines `count` elements of `width` bytes each. `combine(out, a, b, n)` sets n elements of out to a + b,
// where out may be a; it must be commutative.
template <class Combine>
struct Reduction {
  std::size_t count, width;
  Combine combine;
  std::size_t bytes() const { return count * width; }
};
template <class Combine>
Reduction(std::size_t, std::size_t, Combine) -> Reduction<Combine>;

// The range of elements that one rank combines if each rank combines a part. It begins at a whole cache line.
struct Slice {
  std::size_t begin, end;  // elements
};
inline Slice slice_of(int rank, int ranks, std::size_t count, std::size_t width) {
  const std::size_t grain = std::max<std::size_t>(line_bytes / width, 1), n = static_cast<std::size_t>(ranks);
  const auto begin = [&](std::size_t i) { return i == n ? count : count / grain * i / n * grain; };
  return {begin(static_cast<std::size_t>(rank)), begin(static_cast<std::size_t>(rank) + 1)};
}

// The ranks `first`, `first` + `step`, ... up to `last`.
struct RankRange {
  int first, last, step = 1;
  bool contains(int rank) const { return first <= rank && rank <= last && (rank - first) % step == 0; }
};

// Combines the elements of a slice that some ranks have posted, in their order, in parts that fit into the first caches.
// Before a part, calls `place(offset)`, which returns the address for the result; this rank's own elements may lie
// there. After the part, calls `done(offset, bytes)`. Offsets are in bytes from the begin of the posted data. The ranks
// must have been awaited.
template <class Port, class Combine, class GetPlace, class Done>
void combine_parts(Exchange<Port>& x, RankRange ranks, Slice slice, const Reduction<Combine>& reduction, GetPlace place,
                   Done done) {
  alignas(line_bytes) Bytes space[part_bytes], saved[part_bytes];
  const std::size_t width = reduction.width, part = part_bytes / width;
  const int first = ranks.first;
  const bool is_member = ranks.contains(x.rank());
  for (std::size_t at = slice.begin; at < slice.end; at += part) {
    const std::size_t count = std::min(part, slice.end - at), bytes = count * width, offset = at * width;
    Bytes* const out = place(offset);
    const Bytes* own = is_member ? x.own_data(offset) : nullptr;
    if (own == out && first != x.rank()) {
      x.port().copy_own(saved, own, bytes);
      own = saved;
    }
    const void* sum = first == x.rank() ? own : x.view(first, offset, bytes, out);
    for (int rank = first + ranks.step; rank <= ranks.last; rank += ranks.step) {
      reduction.combine(out, sum, rank == x.rank() ? own : x.view(rank, offset, bytes, space), count);
      sum = out;
    }
    if (sum != out) x.port().copy_own(out, sum, bytes);
    done(offset, bytes);
  }
}

// Combines elements [slice.begin, slice.end) into `out`.
template <class Port, class Combine>
void combine_ranks(Exchange<Port>& x, RankRange ranks, Slice slice, const Reduction<Combine>& reduction, Bytes* out) {
  const std::size_t begin = slice.begin * reduction.width;
  combine_parts(
      x, ranks, slice, reduction, [&](std::size_t offset) { return out + (offset - begin); },
      [](std::size_t, std::size_t) {});
}

template <class Port>
RankRange all_ranks(const Exchange<Port>& x) {
  return {0, x.ranks() - 1};
}

template <class Port>
void barrier(Exchange<Port>& x) {
  x.begin();
  x.post_nothing();
  x.await_all();
}

template <class Port>
void bcast(Exchange<Port>& x, Bytes* data, std::size_t bytes, int root) {
  x.begin();
  if (x.rank() == root) {
    x.post(data, bytes);
    x.await_readers();
  } else {
    x.post_nothing();
    x.await(root);
    x.fetch(root, 0, data, bytes, true);
    x.finish_reading();
  }
}

// `target(i)` returns where the root puts what rank i sends, as {address, length}; the root's own data are not moved.
template <class Port, class Target>
void gather(Exchange<Port>& x, const Bytes* send, std::size_t bytes, int root, Target target) {
  x.begin();
  if (x.rank() != root) {
    x.post(send, bytes);
    x.await_reader(root);
    return;
  }
  x.post_nothing();
  x.await_all();
  for (int rank = 0; rank < x.ranks(); ++rank) {
    if (rank == root) continue;
    const auto [to, length] = target(rank);
    x.fetch(rank, 0, to, length, true);
  }
  x.finish_reading();
}

// `piece(i)` returns what the root sends to rank i; it is called on the root alone, whose own piece is not moved.
template <class Port, class GetPiece>
void scatter(Exchange<Port>& x, GetPiece piece, Bytes* receive, std::size_t bytes, int root) {
  x.begin();
  if (x.rank() == root) {
    x.post_pieces(piece);
    x.await_readers();
  } else {
    x.post_nothing();
    x.await(root);
    x.fetch_piece(root, receive, bytes, true);
    x.finish_reading();
  }
}

// In place: `send` is target(own rank).
template <class Port, class Target>
void allgather(Exchange<Port>& x, const Bytes* send, std::size_t bytes, Target target) {
  x.begin();
  x.post(send, bytes);
  x.await_all();
  for (int i = 0; i < x.ranks(); ++i) {
    const int rank = (x.rank() + i) % x.ranks();
    const auto [to, length] = target(rank);
    if (rank != x.rank() || to != send) x.fetch(rank, 0, to, length);
  }
  x.finish_reading();
  x.await_readers();
}

// Each rank reads a slice from the root, then those of the others from them, so that nobody is read by all.
template <class Port>
void bcast_in_slices(Exchange<Port>& x, Bytes* data, std::size_t bytes, int root) {
  const auto slice = [&](int rank) { return slice_of(rank, x.ranks(), bytes, 1); };
  const Slice own = slice(x.rank());
  x.begin();
  if (x.rank() == root) {
    x.post(data, bytes);
  } else {
    x.post_nothing();
    x.await(root);
    x.fetch(root, own.begin, data + own.begin, own.end - own.begin);
    x.finish_reading();
  }
  allgather(x, data + own.begin, own.end - own.begin, [&](int rank) {
    const Slice theirs = slice(rank);
    return std::pair(data + theirs.begin, theirs.end - theirs.begin);
  });
}

// Pieces of equal length, one after the other in both buffers.
template <class Port>
void alltoall(Exchange<Port>& x, const Bytes* send, Bytes* receive, std::size_t bytes) {
  const auto own = static_cast<std::size_t>(x.rank());
  x.begin();
  x.post(send, bytes * static_cast<std::size_t>(x.ranks()));
  x.await_all();
  for (int i = 0; i < x.ranks(); ++i) {
    const int rank = (x.rank() + i) % x.ranks();
    x.fetch(rank, own * bytes, receive + static_cast<std::size_t>(rank) * bytes, bytes);
  }
  x.finish_reading();
  x.await_readers();
}

template <class Port, class GetPiece, class Target>
void alltoallv(Exchange<Port>& x, GetPiece piece, Target target) {
  x.begin();
  x.post_pieces(piece);
  x.await_all();
  for (int i = 0; i < x.ranks(); ++i) {
    const int rank = (x.rank() + i) % x.ranks();
    const auto [to, length] = target(rank);
    x.fetch_piece(rank, to, length);
  }
  x.finish_reading();
  x.await_readers();
}

// The space for a result. It is the receive buffer, or a temporary one if the receive buffer overlaps this rank's own
// data, which others may still read.
class Result {
 public:
  Result(Bytes* receive, std::size_t bytes, const Bytes* send, std::size_t send_bytes)
      : receive_(receive), bytes_(bytes) {
    const auto to = reinterpret_cast<std::uintptr_t>(receive), from = reinterpret_cast<std::uintptr_t>(send);
    if (to < from + send_bytes && from < to + bytes) space_ = make_buffer(bytes);
  }
  Bytes* data() const { return space_ ? space_.get() : receive_; }
  // Called when nobody reads the own data any more.
  template <class Port>
  void move_to_receive(Port& port) const {
    if (space_) port.copy_own(receive_, space_.get(), bytes_);
  }

 private:
  Bytes* receive_;
  std::size_t bytes_;
  Buffer space_;
};

// The first of two steps leaves slices of the result on the first `slices` ranks; the second one exchanges them. Between
// the two, `complete(result, count)` may change the elements of this rank's slice, if it has any. Nobody overwrites what
// another rank still has to read, also in place: a rank posts its slice only after it has read that slice of all others.
template <class Port, class Combine, class Complete>
void allreduce_in_slices(Exchange<Port>& x, const Bytes* send, Bytes* receive, const Reduction<Combine>& reduction,
                         int slices, Complete complete) {
  const std::size_t width = reduction.width;
  const auto slice = [&](int rank) {
    return rank < slices ? slice_of(rank, slices, reduction.count, width) : Slice{0, 0};
  };
  const Slice own = slice(x.rank());
  const std::size_t count = own.end - own.begin;
  Bytes* const result = receive + own.begin * width;
  x.begin();
  x.post(send, reduction.bytes());
  x.await_all();
  combine_ranks(x, all_ranks(x), own, reduction, result);
  x.finish_reading();
  if (count > 0) complete(result, count);
  allgather(x, result, count * width, [&](int rank) {
    const Slice theirs = slice(rank);
    return std::pair(receive + theirs.begin * width, (theirs.end - theirs.begin) * width);
  });
}

template <class Port, class Combine>
void allreduce_in_slices(Exchange<Port>& x, const Bytes* send, Bytes* receive, const Reduction<Combine>& reduction) {
  allreduce_in_slices(x, send, receive, reduction, x.ranks(), [](Bytes*, std::size_t) {});
}

// Each rank adds all elements. In place: `send` is `receive`.
template <class Port, class Combine>
void allreduce_whole(Exchange<Port>& x, const Bytes* send, Bytes* receive, const Reduction<Combine>& reduction) {
  const std::size_t bytes = reduction.bytes();
  const Slice all{0, reduction.count};
  x.begin();
  x.post(send, bytes);
  x.await_all();
  if (bytes <= slot_bytes) return combine_ranks(x, all_ranks(x), all, reduction, receive);
  const Result result(receive, bytes, send, bytes);
  combine_ranks(x, all_ranks(x), all, reduction, result.data());
  x.finish_reading();
  x.await_readers();
  result.move_to_receive(x.port());
}

// In place: `send` is `receive`. Up to `max_whole_bytes`, two ranks add all elements each: they read as much of each
// other as if each added a half and read the other one, but then nobody reads a result, whose lines would be slow to
// write the next time.
template <class Port, class Combine>
void allreduce(Exchange<Port>& x, const Bytes* send, Bytes* receive, const Reduction<Combine>& reduction) {
  if (reduction.bytes() <= (x.ranks() == 2 ? max_whole_bytes : slot_bytes))
    allreduce_whole(x, send, receive, reduction);
  else
    allreduce_in_slices(x, send, receive, reduction);
}

// Only the root uses `receive`. In place: `send` is `receive` there. Long data: each rank combines a slice and
// stores it into the root's result.
template <class Port, class Combine>
void reduce(Exchange<Port>& x, const Bytes* send, Bytes* receive, const Reduction<Combine>& reduction, int root) {
  const std::size_t bytes = reduction.bytes();
  const bool is_root = x.rank() == root;
  const int last = x.ranks() - 1;
  x.begin();
  x.post(send, bytes, is_root ? receive : nullptr);
  if (bytes <= slot_bytes) {
    if (!is_root) return;
    x.await_all();
    return combine_ranks(x, {0, last}, {0, reduction.count}, reduction, receive);
  }
  x.await_all();
  const Slice own = slice_of(x.rank(), x.ranks(), reduction.count, reduction.width);
  if (is_root) {
    combine_ranks(x, {0, last}, own, reduction, receive + own.begin * reduction.width);
  } else {
    alignas(line_bytes) Bytes part[part_bytes];
    combine_parts(
        x, all_ranks(x), own, reduction, [&](std::size_t) { return part; },
        [&](std::size_t offset, std::size_t length) { x.store(root, offset, part, length); });
  }
  x.finish_reading();
  x.await_readers();
}

// This rank gets the elements of `slice`. `receive` and `send` may overlap.
template <class Port, class Combine>
void reduce_scatter(Exchange<Port>& x, const Bytes* send, Bytes* receive, Slice slice,
                    const Reduction<Combine>& reduction) {
  const Result result(receive, (slice.end - slice.begin) * reduction.width, send, reduction.bytes());
  x.begin();
  x.post(send, reduction.bytes());
  x.await_all();
  combine_ranks(x, all_ranks(x), slice, reduction, result.data());
  x.finish_reading();
  x.await_readers();
  result.move_to_receive(x.port());
}

// Combines ranks 0 ... last; `last` is the own rank, or the one before it (MPI_Exscan; rank 0 gets nothing). `receive`
// and `send` may overlap.
template <class Port, class Combine>
void scan(Exchange<Port>& x, const Bytes* send, Bytes* receive, const Reduction<Combine>& reduction, int last) {
  const Result result(receive, last < 0 ? 0 : reduction.bytes(), send, reduction.bytes());
  x.begin();
  x.post(send, reduction.bytes());
  for (int rank = 0; rank <= last; ++rank) x.await(rank);
  if (last >= 0) combine_ranks(x, {0, last}, {0, reduction.count}, reduction, result.data());
  x.finish_reading();
  x.await_readers();
  if (last >= 0) result.move_to_receive(x.port());
}

}  // namespace nearfield::collectives
