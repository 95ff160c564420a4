// The flat collectives of the ranks of one node, on contiguous data, for every Port of an Exchange: each rank reads
// directly from all ranks that have data for it. All ranks of the communicator call the same function with the same
// root, and with lengths that match each other, as MPI requires.
//
// When a function returns, the calling rank may reuse its buffers. A function whose comment says "in place" accepts the
// same buffer for sending and receiving.
//
// The steps of a rank depend only on its own arguments. A sender records in its line whether its data are in the line,
// in a slot or in private memory, and readers read them from there. Only reductions choose between algorithms, by the
// total length, which MPI requires to be equal on all ranks. All ranks combine vectors in the order of the ranks,
// ((r0 + r1) + r2) + ..., so the result is bitwise identical on all ranks and in every run.
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

// allreduce() of two ranks combines vectors up to this size in one piece; longer vectors were measured to be faster in
// slices.
inline constexpr std::size_t max_unsliced_allreduce_bytes = std::size_t{256} << 10;
inline constexpr std::size_t reduction_part_bytes = 32768;  // operands and result of this size fit into the L1 cache

// A reduction of vectors of `count` elements, each `width` bytes long. `combine(out, a, b, n)` sets n elements of `out`
// to a + b, where + is the reduction operation, which must be commutative; `out` may be `a`.
template <class Combine>
struct Reduction {
  std::size_t count, width;
  Combine combine;
  std::size_t bytes() const { return count * width; }
};
template <class Combine>
Reduction(std::size_t, std::size_t, Combine) -> Reduction<Combine>;

// The elements [begin, end) of a vector that one rank combines if each rank combines one slice. Each slice begins at a
// multiple of the cache line size.
struct Slice {
  std::size_t begin, end;  // elements
};
inline Slice slice_of(int rank, int ranks, std::size_t count, std::size_t width) {
  const std::size_t elements_per_cache_line = std::max<std::size_t>(cache_line_bytes / width, 1),
                    n = static_cast<std::size_t>(ranks);
  const auto begin = [&](std::size_t i) {
    return i == n ? count : count / elements_per_cache_line * i / n * elements_per_cache_line;
  };
  return {begin(static_cast<std::size_t>(rank)), begin(static_cast<std::size_t>(rank) + 1)};
}

// The ranks `first`, `first` + `step`, `first` + 2 `step` ... up to `last`.
struct RankRange {
  int first, last, step = 1;
  bool contains(int rank) const { return first <= rank && rank <= last && (rank - first) % step == 0; }
};

// Combines the elements of `slice` that `ranks` have posted, in the order of the ranks, in parts that fit into the L1
// cache. Before each part, calls `output_for(offset)`, which returns the address to which the part's result is written;
// this rank's own elements may be at this address. After each part, calls `on_part_done(offset, bytes)`. Offsets are in
// bytes from the beginning of the posted data. The caller must have awaited the posts of `ranks`.
template <class Port, class Combine, class GetOutput, class OnPartDone>
void combine_parts(Exchange<Port>& exchange, RankRange ranks, Slice slice, const Reduction<Combine>& reduction,
                   GetOutput output_for, OnPartDone on_part_done) {
  alignas(cache_line_bytes) Bytes fetched_data[reduction_part_bytes], saved_own_data[reduction_part_bytes];
  const std::size_t width = reduction.width, part = reduction_part_bytes / width;
  const int first = ranks.first;
  const bool is_member = ranks.contains(exchange.rank());
  for (std::size_t at = slice.begin; at < slice.end; at += part) {
    const std::size_t count = std::min(part, slice.end - at), bytes = count * width, offset = at * width;
    Bytes* const out = output_for(offset);
    const Bytes* own_vector = is_member ? exchange.own_data(offset) : nullptr;
    if (own_vector == out && first != exchange.rank()) {
      exchange.port().copy_own(saved_own_data, own_vector, bytes);
      own_vector = saved_own_data;
    }
    const void* sum = first == exchange.rank() ? own_vector : exchange.view_data(first, offset, bytes, out);
    for (int rank = first + ranks.step; rank <= ranks.last; rank += ranks.step) {
      reduction.combine(out, sum,
                        rank == exchange.rank() ? own_vector : exchange.view_data(rank, offset, bytes, fetched_data),
                        count);
      sum = out;
    }
    if (sum != out) exchange.port().copy_own(out, sum, bytes);
    on_part_done(offset, bytes);
  }
}

// Combines the elements of `slice` that `ranks` have posted, and writes the result to `out`.
template <class Port, class Combine>
void combine_slice(Exchange<Port>& exchange, RankRange ranks, Slice slice, const Reduction<Combine>& reduction,
                   Bytes* out) {
  const std::size_t begin = slice.begin * reduction.width;
  combine_parts(
      exchange, ranks, slice, reduction, [&](std::size_t offset) { return out + (offset - begin); },
      [](std::size_t, std::size_t) {});
}

template <class Port>
RankRange all_ranks(const Exchange<Port>& exchange) {
  return {0, exchange.ranks() - 1};
}

template <class Port>
void barrier(Exchange<Port>& exchange) {
  exchange.begin_operation();
  exchange.post_nothing();
  exchange.await_all_posts();
}

template <class Port>
void bcast(Exchange<Port>& exchange, Bytes* data, std::size_t bytes, int root) {
  exchange.begin_operation();
  if (exchange.rank() == root) {
    exchange.post_data(data, bytes);
    exchange.await_readers();
  } else {
    exchange.post_nothing();
    exchange.await_post(root);
    exchange.fetch_data(root, 0, data, bytes, true);
    exchange.publish_reads_finished();
  }
}

// A gather. `target(i)` returns the place for the data of rank i in the root's receive buffer, as {address, length}.
// The root's own data are not moved.
template <class Port, class Target>
void gather(Exchange<Port>& exchange, const Bytes* send, std::size_t bytes, int root, Target target) {
  exchange.begin_operation();
  if (exchange.rank() != root) {
    exchange.post_data(send, bytes);
    exchange.await_reader(root);
    return;
  }
  exchange.post_nothing();
  exchange.await_all_posts();
  for (int rank = 0; rank < exchange.ranks(); ++rank) {
    if (rank == root) continue;
    const auto [to, length] = target(rank);
    exchange.fetch_data(rank, 0, to, length, true);
  }
  exchange.publish_reads_finished();
}

// A scatter. `piece(i)` returns the piece of data that the root sends to rank i. Only the root calls `piece`; the
// root's own piece is not moved.
template <class Port, class GetPiece>
void scatter(Exchange<Port>& exchange, GetPiece piece, Bytes* receive, std::size_t bytes, int root) {
  exchange.begin_operation();
  if (exchange.rank() == root) {
    exchange.post_pieces(piece);
    exchange.await_readers();
  } else {
    exchange.post_nothing();
    exchange.await_post(root);
    exchange.fetch_piece(root, receive, bytes, true);
    exchange.publish_reads_finished();
  }
}

// An allgather. `target(i)` returns the place for the data of rank i in the receive buffer, as {address, length}. In
// place: `send` is the address of this rank's own place.
template <class Port, class Target>
void allgather(Exchange<Port>& exchange, const Bytes* send, std::size_t bytes, Target target) {
  exchange.begin_operation();
  exchange.post_data(send, bytes);
  exchange.await_all_posts();
  for (int i = 0; i < exchange.ranks(); ++i) {
    const int rank = (exchange.rank() + i) % exchange.ranks();
    const auto [to, length] = target(rank);
    if (rank != exchange.rank() || to != send) exchange.fetch_data(rank, 0, to, length);
  }
  exchange.publish_reads_finished();
  exchange.await_readers();
}

// A broadcast in slices (scatter and allgather): each rank reads one slice from the root and each other slice from the
// rank that has read it from the root, so that the root need not supply the whole data to every rank.
template <class Port>
void bcast_in_slices(Exchange<Port>& exchange, Bytes* data, std::size_t bytes, int root) {
  const auto slice = [&](int rank) { return slice_of(rank, exchange.ranks(), bytes, 1); };
  const Slice own_slice = slice(exchange.rank());
  exchange.begin_operation();
  if (exchange.rank() == root) {
    exchange.post_data(data, bytes);
  } else {
    exchange.post_nothing();
    exchange.await_post(root);
    exchange.fetch_data(root, own_slice.begin, data + own_slice.begin, own_slice.end - own_slice.begin);
    exchange.publish_reads_finished();
  }
  allgather(exchange, data + own_slice.begin, own_slice.end - own_slice.begin, [&](int rank) {
    const Slice peer_slice = slice(rank);
    return std::pair(data + peer_slice.begin, peer_slice.end - peer_slice.begin);
  });
}

// An all-to-all of pieces of `bytes` bytes each, contiguous and in the order of the ranks in both buffers.
template <class Port>
void alltoall(Exchange<Port>& exchange, const Bytes* send, Bytes* receive, std::size_t bytes) {
  const auto own_index = static_cast<std::size_t>(exchange.rank());
  exchange.begin_operation();
  exchange.post_data(send, bytes * static_cast<std::size_t>(exchange.ranks()));
  exchange.await_all_posts();
  for (int i = 0; i < exchange.ranks(); ++i) {
    const int rank = (exchange.rank() + i) % exchange.ranks();
    exchange.fetch_data(rank, own_index * bytes, receive + static_cast<std::size_t>(rank) * bytes, bytes);
  }
  exchange.publish_reads_finished();
  exchange.await_readers();
}

template <class Port, class GetPiece, class Target>
void alltoallv(Exchange<Port>& exchange, GetPiece piece, Target target) {
  exchange.begin_operation();
  exchange.post_pieces(piece);
  exchange.await_all_posts();
  for (int i = 0; i < exchange.ranks(); ++i) {
    const int rank = (exchange.rank() + i) % exchange.ranks();
    const auto [to, length] = target(rank);
    exchange.fetch_piece(rank, to, length);
  }
  exchange.publish_reads_finished();
  exchange.await_readers();
}

// The buffer to which a reduction writes its result: the receive buffer, or a temporary buffer if the receive buffer
// overlaps the data that this rank has posted, which peers may still be reading.
class ResultBuffer {
 public:
  ResultBuffer(Bytes* receive, std::size_t bytes, const Bytes* send, std::size_t send_bytes)
      : receive_(receive), bytes_(bytes) {
    const auto to = reinterpret_cast<std::uintptr_t>(receive), from = reinterpret_cast<std::uintptr_t>(send);
    if (to < from + send_bytes && from < to + bytes) temporary_ = allocate_buffer(bytes);
  }
  Bytes* data() const { return temporary_ ? temporary_.get() : receive_; }
  // Copies the result from the temporary buffer, if there is one, to the receive buffer. Called when no peer reads this
  // rank's posted data any more.
  template <class Port>
  void copy_to_receive_buffer(Port& port) const {
    if (temporary_) port.copy_own(receive_, temporary_.get(), bytes_);
  }

 private:
  Bytes* receive_;
  std::size_t bytes_;
  Buffer temporary_;
};

// An allreduce in two steps (reduce-scatter and allgather), also in place. In the first step each of the first `slices`
// ranks combines one slice of the vectors of all ranks; in the second step the ranks exchange these slices. Between the
// steps, each rank that has a slice calls `complete_slice(result, count)`, which may change the combined elements. No
// rank overwrites data that a peer has yet to read, since a rank posts its slice only after it has read the same slice
// of all other ranks.
template <class Port, class Combine, class CompleteSlice>
void allreduce_in_slices(Exchange<Port>& exchange, const Bytes* send, Bytes* receive,
                         const Reduction<Combine>& reduction, int slices, CompleteSlice complete_slice) {
  const std::size_t width = reduction.width;
  const auto slice = [&](int rank) {
    return rank < slices ? slice_of(rank, slices, reduction.count, width) : Slice{0, 0};
  };
  const Slice own_slice = slice(exchange.rank());
  const std::size_t count = own_slice.end - own_slice.begin;
  Bytes* const result = receive + own_slice.begin * width;
  exchange.begin_operation();
  exchange.post_data(send, reduction.bytes());
  exchange.await_all_posts();
  combine_slice(exchange, all_ranks(exchange), own_slice, reduction, result);
  exchange.publish_reads_finished();
  if (count > 0) complete_slice(result, count);
  allgather(exchange, result, count * width, [&](int rank) {
    const Slice peer_slice = slice(rank);
    return std::pair(receive + peer_slice.begin * width, (peer_slice.end - peer_slice.begin) * width);
  });
}

template <class Port, class Combine>
void allreduce_in_slices(Exchange<Port>& exchange, const Bytes* send, Bytes* receive,
                         const Reduction<Combine>& reduction) {
  allreduce_in_slices(exchange, send, receive, reduction, exchange.ranks(), [](Bytes*, std::size_t) {});
}

// An allreduce in which each rank combines the whole vectors of all ranks. In place: `send` equals `receive`.
template <class Port, class Combine>
void allreduce_whole(Exchange<Port>& exchange, const Bytes* send, Bytes* receive, const Reduction<Combine>& reduction) {
  const std::size_t bytes = reduction.bytes();
  const Slice all_elements{0, reduction.count};
  exchange.begin_operation();
  exchange.post_data(send, bytes);
  exchange.await_all_posts();
  if (bytes <= slot_bytes) return combine_slice(exchange, all_ranks(exchange), all_elements, reduction, receive);
  const ResultBuffer result(receive, bytes, send, bytes);
  combine_slice(exchange, all_ranks(exchange), all_elements, reduction, result.data());
  exchange.publish_reads_finished();
  exchange.await_readers();
  result.copy_to_receive_buffer(exchange.port());
}

// An allreduce, also in place (`send` equals `receive`). Up to `max_unsliced_allreduce_bytes`, each of two ranks
// combines the whole vectors. Each then reads as many bytes from its peer as if each combined one half and read the
// other half of the result. But no rank reads a result from its peer's cache; such a read would leave the result's
// cache lines shared and so slow down the next write to them.
template <class Port, class Combine>
void allreduce(Exchange<Port>& exchange, const Bytes* send, Bytes* receive, const Reduction<Combine>& reduction) {
  if (reduction.bytes() <= (exchange.ranks() == 2 ? max_unsliced_allreduce_bytes : slot_bytes))
    allreduce_whole(exchange, send, receive, reduction);
  else
    allreduce_in_slices(exchange, send, receive, reduction);
}

// A reduce; `receive` is used on the root only, where it may equal `send`. If the vectors are longer than a slot, each
// rank combines a slice and stores the slice into the root's receive buffer.
template <class Port, class Combine>
void reduce(Exchange<Port>& exchange, const Bytes* send, Bytes* receive, const Reduction<Combine>& reduction,
            int root) {
  const std::size_t bytes = reduction.bytes();
  const bool is_root = exchange.rank() == root;
  const int last = exchange.ranks() - 1;
  exchange.begin_operation();
  exchange.post_data(send, bytes, is_root ? receive : nullptr);
  if (bytes <= slot_bytes) {
    if (!is_root) return;
    exchange.await_all_posts();
    return combine_slice(exchange, {0, last}, {0, reduction.count}, reduction, receive);
  }
  exchange.await_all_posts();
  const Slice own_slice = slice_of(exchange.rank(), exchange.ranks(), reduction.count, reduction.width);
  if (is_root) {
    combine_slice(exchange, {0, last}, own_slice, reduction, receive + own_slice.begin * reduction.width);
  } else {
    alignas(cache_line_bytes) Bytes part[reduction_part_bytes];
    combine_parts(
        exchange, all_ranks(exchange), own_slice, reduction, [&](std::size_t) { return part; },
        [&](std::size_t offset, std::size_t length) { exchange.store_result(root, offset, part, length); });
  }
  exchange.publish_reads_finished();
  exchange.await_readers();
}

// A reduce-scatter in which this rank receives the elements of `slice`. `receive` and `send` may overlap.
template <class Port, class Combine>
void reduce_scatter(Exchange<Port>& exchange, const Bytes* send, Bytes* receive, Slice slice,
                    const Reduction<Combine>& reduction) {
  const ResultBuffer result(receive, (slice.end - slice.begin) * reduction.width, send, reduction.bytes());
  exchange.begin_operation();
  exchange.post_data(send, reduction.bytes());
  exchange.await_all_posts();
  combine_slice(exchange, all_ranks(exchange), slice, reduction, result.data());
  exchange.publish_reads_finished();
  exchange.await_readers();
  result.copy_to_receive_buffer(exchange.port());
}

// A scan that combines the vectors of ranks 0 ... `last`: `last` is this rank for MPI_Scan, and the rank before it for
// MPI_Exscan, in which rank 0 receives nothing. `receive` and `send` may overlap.
template <class Port, class Combine>
void scan(Exchange<Port>& exchange, const Bytes* send, Bytes* receive, const Reduction<Combine>& reduction, int last) {
  const ResultBuffer result(receive, last < 0 ? 0 : reduction.bytes(), send, reduction.bytes());
  exchange.begin_operation();
  exchange.post_data(send, reduction.bytes());
  for (int rank = 0; rank <= last; ++rank) exchange.await_post(rank);
  if (last >= 0) combine_slice(exchange, {0, last}, {0, reduction.count}, reduction, result.data());
  exchange.publish_reads_finished();
  exchange.await_readers();
  if (last >= 0) result.copy_to_receive_buffer(exchange.port());
}

}  // namespace nearfield::collectives
