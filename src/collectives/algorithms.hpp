// The flat collectives of the ranks of one node, on contiguous data, for every Port of an Exchange: each rank reads
// directly from all ranks that have data for it. All ranks of the communicator call the same function with the same
// root, and with lengths that match each other, as MPI requires.
//
// When a function returns, the calling rank may reuse its buffers. A function whose comment says "in place" accepts the
// same buffer for sending and receiving.
//
// The steps of a rank depend only on its own arguments. A sender records in its line whether its data lie in the line,
// in a slot or in private memory, and readers follow that record. Only reductions choose between algorithms, by the
// total length, which MPI makes equal on all ranks. Vectors are combined in the order of the ranks, ((r0 + r1) + r2) +
// ..., whichever rank combines them, so all ranks get the same bits in every run.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "collectives/exchange.hpp"

namespace nearfield::collectives {

struct FreeBlock {
  void operator()(void* block) const { std::free(block); }
};
// A block of the C library's heap. If the shared heap is preloaded, peers copy from such a block without a system call.
using Buffer = std::unique_ptr<Bytes, FreeBlock>;
inline Buffer allocate_buffer(std::size_t bytes) {
  Buffer buffer(static_cast<Bytes*>(std::malloc(std::max<std::size_t>(bytes, 1))));
  if (!buffer) std::abort();
  return buffer;
}

// The piece, for one rank, of the data that another rank offers.
struct Piece {
  const Bytes* data;
  std::size_t bytes;
};

// The longest vectors that allreduce() of two ranks combines in whole; measured: longer vectors are faster in slices.
inline constexpr std::size_t max_allreduce_whole_bytes = std::size_t{256} << 10;
inline constexpr std::size_t reduction_part_bytes = 32768;  // a few parts of this size fit into the L1 cache

// A reduction of vectors of `count` elements, each `width` bytes long. `combine(out, a, b, n)` sets n elements of `out`
// to a + b; `out` may be `a`. The operation must be commutative.
template <class Combine>
struct Reduction {
  std::size_t count, width;
  Combine combine;
  std::size_t bytes() const { return count * width; }
};
template <class Combine>
Reduction(std::size_t, std::size_t, Combine) -> Reduction<Combine>;

// The elements [begin, end) that one rank combines if each rank combines a slice of the vector. A slice begins at a
// multiple of a cache line.
struct Slice {
  std::size_t begin, end;  // elements
};
inline Slice slice_of(int rank, int ranks, std::size_t count, std::size_t width) {
  const std::size_t grain = std::max<std::size_t>(line_bytes / width, 1), n = static_cast<std::size_t>(ranks);
  const auto begin = [&](std::size_t i) { return i == n ? count : count / grain * i / n * grain; };
  return {begin(static_cast<std::size_t>(rank)), begin(static_cast<std::size_t>(rank) + 1)};
}

// The ranks `first`, `first` + `step`, `first` + 2 `step` ... up to `last`.
struct RankRange {
  int first, last, step = 1;
  bool contains(int rank) const { return first <= rank && rank <= last && (rank - first) % step == 0; }
};

// Combines the elements of `slice` that `ranks` have posted, in the order of the ranks, in parts that fit into the L1
// cache. Before each part, calls `output_for(offset)`, which returns the address for the result; this rank's own
// elements may lie at this address. After each part, calls `on_part_done(offset, bytes)`. Offsets are in bytes from the
// beginning of the posted data. The caller must have awaited the posts of `ranks`.
template <class Port, class Combine, class GetOutput, class OnPartDone>
void combine_parts(Exchange<Port>& x, RankRange ranks, Slice slice, const Reduction<Combine>& reduction,
                   GetOutput output_for, OnPartDone on_part_done) {
  alignas(line_bytes) Bytes space[reduction_part_bytes], saved[reduction_part_bytes];
  const std::size_t width = reduction.width, part = reduction_part_bytes / width;
  const int first = ranks.first;
  const bool is_member = ranks.contains(x.rank());
  for (std::size_t at = slice.begin; at < slice.end; at += part) {
    const std::size_t count = std::min(part, slice.end - at), bytes = count * width, offset = at * width;
    Bytes* const out = output_for(offset);
    const Bytes* own = is_member ? x.own_data(offset) : nullptr;
    if (own == out && first != x.rank()) {
      x.port().copy_own(saved, own, bytes);
      own = saved;
    }
    const void* sum = first == x.rank() ? own : x.view_data(first, offset, bytes, out);
    for (int rank = first + ranks.step; rank <= ranks.last; rank += ranks.step) {
      reduction.combine(out, sum, rank == x.rank() ? own : x.view_data(rank, offset, bytes, space), count);
      sum = out;
    }
    if (sum != out) x.port().copy_own(out, sum, bytes);
    on_part_done(offset, bytes);
  }
}

// Combines the elements of `slice` that `ranks` have posted, and writes the result to `out`.
template <class Port, class Combine>
void combine_slice(Exchange<Port>& x, RankRange ranks, Slice slice, const Reduction<Combine>& reduction, Bytes* out) {
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
  x.begin_operation();
  x.post_nothing();
  x.await_all_posts();
}

template <class Port>
void bcast(Exchange<Port>& x, Bytes* data, std::size_t bytes, int root) {
  x.begin_operation();
  if (x.rank() == root) {
    x.post_data(data, bytes);
    x.await_readers();
  } else {
    x.post_nothing();
    x.await_post(root);
    x.fetch_data(root, 0, data, bytes, true);
    x.publish_reads_finished();
  }
}

// A gather. `target(i)` returns the place for the data of rank i in the root's receive buffer, as {address, length}.
// The root's own data are not moved.
template <class Port, class Target>
void gather(Exchange<Port>& x, const Bytes* send, std::size_t bytes, int root, Target target) {
  x.begin_operation();
  if (x.rank() != root) {
    x.post_data(send, bytes);
    x.await_reader(root);
    return;
  }
  x.post_nothing();
  x.await_all_posts();
  for (int rank = 0; rank < x.ranks(); ++rank) {
    if (rank == root) continue;
    const auto [to, length] = target(rank);
    x.fetch_data(rank, 0, to, length, true);
  }
  x.publish_reads_finished();
}

// A scatter. `piece(i)` returns the piece of data that the root sends to rank i. Only the root calls `piece`; the
// root's own piece is not moved.
template <class Port, class GetPiece>
void scatter(Exchange<Port>& x, GetPiece piece, Bytes* receive, std::size_t bytes, int root) {
  x.begin_operation();
  if (x.rank() == root) {
    x.post_pieces(piece);
    x.await_readers();
  } else {
    x.post_nothing();
    x.await_post(root);
    x.fetch_piece(root, receive, bytes, true);
    x.publish_reads_finished();
  }
}

// An allgather. `target(i)` returns the place for the data of rank i in the receive buffer, as {address, length}. In
// place: `send` is the address of this rank's own place.
template <class Port, class Target>
void allgather(Exchange<Port>& x, const Bytes* send, std::size_t bytes, Target target) {
  x.begin_operation();
  x.post_data(send, bytes);
  x.await_all_posts();
  for (int i = 0; i < x.ranks(); ++i) {
    const int rank = (x.rank() + i) % x.ranks();
    const auto [to, length] = target(rank);
    if (rank != x.rank() || to != send) x.fetch_data(rank, 0, to, length);
  }
  x.publish_reads_finished();
  x.await_readers();
}

// A broadcast in slices: each rank reads one slice from the root and the other slices from the ranks that have read
// them, so that no rank is read by all others in full.
template <class Port>
void bcast_in_slices(Exchange<Port>& x, Bytes* data, std::size_t bytes, int root) {
  const auto slice = [&](int rank) { return slice_of(rank, x.ranks(), bytes, 1); };
  const Slice own = slice(x.rank());
  x.begin_operation();
  if (x.rank() == root) {
    x.post_data(data, bytes);
  } else {
    x.post_nothing();
    x.await_post(root);
    x.fetch_data(root, own.begin, data + own.begin, own.end - own.begin);
    x.publish_reads_finished();
  }
  allgather(x, data + own.begin, own.end - own.begin, [&](int rank) {
    const Slice theirs = slice(rank);
    return std::pair(data + theirs.begin, theirs.end - theirs.begin);
  });
}

// An all-to-all of pieces of `bytes` bytes each, contiguous and in the order of the ranks in both buffers.
template <class Port>
void alltoall(Exchange<Port>& x, const Bytes* send, Bytes* receive, std::size_t bytes) {
  const auto own = static_cast<std::size_t>(x.rank());
  x.begin_operation();
  x.post_data(send, bytes * static_cast<std::size_t>(x.ranks()));
  x.await_all_posts();
  for (int i = 0; i < x.ranks(); ++i) {
    const int rank = (x.rank() + i) % x.ranks();
    x.fetch_data(rank, own * bytes, receive + static_cast<std::size_t>(rank) * bytes, bytes);
  }
  x.publish_reads_finished();
  x.await_readers();
}

template <class Port, class GetPiece, class Target>
void alltoallv(Exchange<Port>& x, GetPiece piece, Target target) {
  x.begin_operation();
  x.post_pieces(piece);
  x.await_all_posts();
  for (int i = 0; i < x.ranks(); ++i) {
    const int rank = (x.rank() + i) % x.ranks();
    const auto [to, length] = target(rank);
    x.fetch_piece(rank, to, length);
  }
  x.publish_reads_finished();
  x.await_readers();
}

// The buffer to which a reduction writes its result: the receive buffer, or a temporary buffer if the receive buffer
// overlaps the data that this rank has posted, which peers may still be reading.
class ResultBuffer {
 public:
  ResultBuffer(Bytes* receive, std::size_t bytes, const Bytes* send, std::size_t send_bytes)
      : receive_(receive), bytes_(bytes) {
    const auto to = reinterpret_cast<std::uintptr_t>(receive), from = reinterpret_cast<std::uintptr_t>(send);
    if (to < from + send_bytes && from < to + bytes) space_ = allocate_buffer(bytes);
  }
  Bytes* data() const { return space_ ? space_.get() : receive_; }
  // Copies the result from the temporary buffer, if there is one, to the receive buffer. Called when no peer reads this
  // rank's posted data any more.
  template <class Port>
  void copy_to_receive_buffer(Port& port) const {
    if (space_) port.copy_own(receive_, space_.get(), bytes_);
  }

 private:
  Bytes* receive_;
  std::size_t bytes_;
  Buffer space_;
};

// An allreduce in two steps, also in place. In the first step each of the first `slices` ranks combines one slice of
// the vectors of all ranks; in the second step the ranks exchange these slices. Between the two steps, on each rank
// that has a slice, `complete_slice(result, count)` may change the elements of the slice. No rank overwrites data that
// a peer still has to read: a rank posts its slice only after it has read this slice from all others.
template <class Port, class Combine, class CompleteSlice>
void allreduce_in_slices(Exchange<Port>& x, const Bytes* send, Bytes* receive, const Reduction<Combine>& reduction,
                         int slices, CompleteSlice complete_slice) {
  const std::size_t width = reduction.width;
  const auto slice = [&](int rank) {
    return rank < slices ? slice_of(rank, slices, reduction.count, width) : Slice{0, 0};
  };
  const Slice own = slice(x.rank());
  const std::size_t count = own.end - own.begin;
  Bytes* const result = receive + own.begin * width;
  x.begin_operation();
  x.post_data(send, reduction.bytes());
  x.await_all_posts();
  combine_slice(x, all_ranks(x), own, reduction, result);
  x.publish_reads_finished();
  if (count > 0) complete_slice(result, count);
  allgather(x, result, count * width, [&](int rank) {
    const Slice theirs = slice(rank);
    return std::pair(receive + theirs.begin * width, (theirs.end - theirs.begin) * width);
  });
}

template <class Port, class Combine>
void allreduce_in_slices(Exchange<Port>& x, const Bytes* send, Bytes* receive, const Reduction<Combine>& reduction) {
  allreduce_in_slices(x, send, receive, reduction, x.ranks(), [](Bytes*, std::size_t) {});
}

// An allreduce in which each rank combines the whole vectors of all ranks. In place: `send` equals `receive`.
template <class Port, class Combine>
void allreduce_whole(Exchange<Port>& x, const Bytes* send, Bytes* receive, const Reduction<Combine>& reduction) {
  const std::size_t bytes = reduction.bytes();
  const Slice all{0, reduction.count};
  x.begin_operation();
  x.post_data(send, bytes);
  x.await_all_posts();
  if (bytes <= slot_bytes) return combine_slice(x, all_ranks(x), all, reduction, receive);
  const ResultBuffer result(receive, bytes, send, bytes);
  combine_slice(x, all_ranks(x), all, reduction, result.data());
  x.publish_reads_finished();
  x.await_readers();
  result.copy_to_receive_buffer(x.port());
}

// An allreduce, also in place (`send` equals `receive`). Up to `max_allreduce_whole_bytes`, two ranks combine the whole
// vectors each. They read as many bytes of each other as if each combined one half and read the result of the other
// half, but no rank reads a result from its peer's cache, which would make the next write to the result's cache lines
// slow.
template <class Port, class Combine>
void allreduce(Exchange<Port>& x, const Bytes* send, Bytes* receive, const Reduction<Combine>& reduction) {
  if (reduction.bytes() <= (x.ranks() == 2 ? max_allreduce_whole_bytes : slot_bytes))
    allreduce_whole(x, send, receive, reduction);
  else
    allreduce_in_slices(x, send, receive, reduction);
}

// A reduce; `receive` is used on the root only, where it may equal `send`. If the vectors are longer than a slot, each
// rank combines a slice and stores the slice into the root's receive buffer.
template <class Port, class Combine>
void reduce(Exchange<Port>& x, const Bytes* send, Bytes* receive, const Reduction<Combine>& reduction, int root) {
  const std::size_t bytes = reduction.bytes();
  const bool is_root = x.rank() == root;
  const int last = x.ranks() - 1;
  x.begin_operation();
  x.post_data(send, bytes, is_root ? receive : nullptr);
  if (bytes <= slot_bytes) {
    if (!is_root) return;
    x.await_all_posts();
    return combine_slice(x, {0, last}, {0, reduction.count}, reduction, receive);
  }
  x.await_all_posts();
  const Slice own = slice_of(x.rank(), x.ranks(), reduction.count, reduction.width);
  if (is_root) {
    combine_slice(x, {0, last}, own, reduction, receive + own.begin * reduction.width);
  } else {
    alignas(line_bytes) Bytes part[reduction_part_bytes];
    combine_parts(
        x, all_ranks(x), own, reduction, [&](std::size_t) { return part; },
        [&](std::size_t offset, std::size_t length) { x.store_result(root, offset, part, length); });
  }
  x.publish_reads_finished();
  x.await_readers();
}

// A reduce-scatter in which this rank receives the elements of `slice`. `receive` and `send` may overlap.
template <class Port, class Combine>
void reduce_scatter(Exchange<Port>& x, const Bytes* send, Bytes* receive, Slice slice,
                    const Reduction<Combine>& reduction) {
  const ResultBuffer result(receive, (slice.end - slice.begin) * reduction.width, send, reduction.bytes());
  x.begin_operation();
  x.post_data(send, reduction.bytes());
  x.await_all_posts();
  combine_slice(x, all_ranks(x), slice, reduction, result.data());
  x.publish_reads_finished();
  x.await_readers();
  result.copy_to_receive_buffer(x.port());
}

// A scan that combines the vectors of ranks 0 ... `last`: `last` is this rank for MPI_Scan, and the rank before it for
// MPI_Exscan, in which rank 0 receives nothing. `receive` and `send` may overlap.
template <class Port, class Combine>
void scan(Exchange<Port>& x, const Bytes* send, Bytes* receive, const Reduction<Combine>& reduction, int last) {
  const ResultBuffer result(receive, last < 0 ? 0 : reduction.bytes(), send, reduction.bytes());
  x.begin_operation();
  x.post_data(send, reduction.bytes());
  for (int rank = 0; rank <= last; ++rank) x.await_post(rank);
  if (last >= 0) combine_slice(x, {0, last}, {0, reduction.count}, reduction, result.data());
  x.publish_reads_finished();
  x.await_readers();
  if (last >= 0) result.copy_to_receive_buffer(x.port());
}

}  // namespace nearfield::collectives
