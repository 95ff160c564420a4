// Calls of collectives as programs may make them: a rank writes what it sends, calls, checks the result, and overwrites
// all buffers.
#pragma once

#include <bit>
#include <utility>
#include <vector>

#include "checked_kinds.hpp"
#include "checked_port.hpp"
#include "collectives/doubling.hpp"
#include "collectives/grouped.hpp"
#include "collectives/spanning.hpp"
#include "mirror_lane.hpp"

namespace nearfield::collectives {

// One call of a collective by one rank. `position` distinguishes the data of the calls of a sequence.
template <std::uint64_t depth>
class CheckedCall {
 public:
  using Port = CheckedPort<depth>;

  CheckedCall(const Kind& kind, Exchange<Port>& exchange, Buffers& buffers, std::uint64_t position)
      : kind_(kind), x_(exchange), buffers_(buffers), position_(position) {
    used_.reserve(8);
  }

  // Throws a problem if the result is wrong.
  void run() {
    using enum Operation;
    note_that_all_is_written();
    switch (kind_.operation) {
      case barrier:
        collectives::barrier(x_);
        break;
      case grouped_barrier:
        barrier_in_groups(x_, groups);
        break;
      case stepped_barrier:
        barrier_by_dissemination(x_);
        break;
      case spanning_barrier:
        collectives::spanning_barrier(x_, make_lane(), [&] { collectives::barrier(x_); });
        if (x_.port().last_barrier_across() < position_ + 1)
          throw Problem{Problem::wrong_value, "a rank leaves before the barrier between nodes"};
        break;
      case spanning_bcast:
        run_spanning_bcast();
        break;
      case spanning_allgather:
        run_spanning_allgather();
        break;
      case spanning_alltoall:
        run_spanning_alltoall();
        break;
      case bcast:
      case grouped_bcast:
      case sliced_bcast:
        run_bcast();
        break;
      case gather:
        run_gather();
        break;
      case scatter:
        run_scatter();
        break;
      case allgather:
      case stepped_allgather:
        run_allgather();
        break;
      case alltoall:
      case stepped_alltoall:
        run_alltoall();
        break;
      case alltoallv:
        run_alltoallv();
        break;
      case reduce:
      case allreduce:
      case grouped_allreduce:
      case stepped_reduce:
      case stepped_allreduce:
      case spanning_reduce:
      case spanning_allreduce:
      case laned_allreduce:
      case reduce_scatter:
      case scan:
      case exscan:
        run_reduction();
        break;
    }
    note_that_all_is_written();
    for (const auto& [words, count] : used_) std::memset(words, 0xee, count * sizeof *words);
  }

 private:
  static constexpr std::size_t stride = 1030;  // words, between the blocks of ranks
  static constexpr std::size_t word = sizeof(std::uint64_t);
  static constexpr Groups groups{2};

  int own() const { return x_.rank(); }
  bool is_root() const { return own() == kind_.root; }
  std::uint64_t* block(std::uint64_t* buffer, int rank) const {
    return buffer + stride * static_cast<std::size_t>(rank);
  }
  static Bytes* bytes_of(std::uint64_t* words) { return reinterpret_cast<Bytes*>(words); }

  // Returns how many words a rank gives.
  std::size_t length_of(int rank) const {
    constexpr std::size_t even[] = {5, 125, 1025, 3200, 1200}, uneven[] = {0, 125, 1025};
    return kind_.size == Size::uneven ? uneven[(rank + kind_.root) % 3] : even[static_cast<int>(kind_.size)];
  }
  // Returns how many words a rank gives to another one.
  std::size_t length_of(int from, int to) const {
    constexpr std::size_t uneven[3][3] = {{1, 125, 0}, {1025, 1030, 5}, {0, 0, 0}};
    return kind_.size == Size::uneven ? uneven[(from + kind_.root) % 3][to] : length_of(from);
  }

  void note_that_all_is_written() {
    x_.port().note_own(buffers_.send, sizeof buffers_.send, true);
    x_.port().note_own(buffers_.receive, sizeof buffers_.receive, true);
  }

  // Writes elements of what this rank gives, from element `first` on.
  void fill(std::uint64_t* words, std::size_t count, std::size_t first = 0) {
    for (std::size_t i = 0; i < count; ++i) words[i] = value_of(position_, own(), first + i);
    used_.emplace_back(words, count);
  }
  void fill_pieces() {
    for (int to = 0; to < x_.ranks(); ++to) fill(block(buffers_.send, to), length_of(own(), to), to * stride);
  }
  // Returns the piece for a rank of what fill_pieces() has written.
  auto get_piece() {
    return [this](int to) { return Piece{bytes_of(block(buffers_.send, to)), length_of(own(), to) * word}; };
  }

  // Checks a part of the result against `expected(i)`.
  template <class GetValue>
  void check(std::uint64_t* words, std::size_t count, GetValue expected) {
    used_.emplace_back(words, count);
    x_.port().note_own(words, count * word, false);
    std::uint64_t differences = 0;
    for (std::size_t i = 0; i < count; ++i) differences |= words[i] ^ expected(i);
    if (differences)
      throw Problem{Problem::wrong_value, "rank " + std::to_string(own()) + " gets wrong data by " + kind_.name()};
  }
  void check_block(std::uint64_t* words, std::size_t count, int from, std::size_t first = 0) {
    check(words, count, [&](std::size_t i) { return value_of(position_, from, first + i); });
  }

  void run_bcast() {
    const std::size_t count = length_of(kind_.root);
    if (is_root()) fill(buffers_.send, count);
    std::uint64_t* const data = is_root() ? buffers_.send : buffers_.receive;
    switch (kind_.operation) {
      case Operation::grouped_bcast:
        bcast_in_groups(x_, bytes_of(data), count * word, kind_.root, groups, 12800);
        break;
      case Operation::sliced_bcast:
        bcast_in_slices(x_, bytes_of(data), count * word, kind_.root);
        break;
      default:
        bcast(x_, bytes_of(data), count * word, kind_.root);
    }
    check_block(data, count, kind_.root);
  }

  static constexpr auto ignore = [](auto&&...) {};
  template <class FillData = decltype(ignore), class Combine = decltype(ignore)>
  auto make_lane(FillData fill_data = ignore, Combine combine = ignore) {
    return MirrorLane<Port, FillData, Combine>{&x_.port(), position_ + 1, fill_data, combine};
  }
  // The ranks of this node have even numbers, so that those of a lane are neighbours.
  Layout make_layout() const {
    std::vector<std::uint64_t> hosts;
    for (int i = 0; i < 2 * x_.ranks(); ++i) hosts.push_back(static_cast<std::uint64_t>(i % 2));
    return {hosts, 2 * own()};
  }
  std::size_t number_in_layout(int node, int local) const { return static_cast<std::size_t>(2 * local + node); }

  void run_spanning_bcast() {
    const std::size_t count = length_of(kind_.root);
    const bool is_far = kind_.is_in_place;
    Bytes* const data = bytes_of(is_root() && !is_far ? buffers_.send : buffers_.receive);
    if (is_root() && !is_far) fill(buffers_.send, count);
    const auto fill_data = [&](Bytes* to, std::size_t bytes) {
      const auto first = static_cast<std::size_t>(to - data) / word;
      for (std::size_t i = 0; i < bytes / word; ++i)
        reinterpret_cast<std::uint64_t*>(to)[i] = value_of(position_, kind_.root, first + i);
    };
    collectives::spanning_bcast(x_, make_lane(fill_data), data, count * word, {is_far, kind_.root}, 0, 12800);
    check_block(reinterpret_cast<std::uint64_t*>(data), count, kind_.root);
  }

  void run_spanning_allgather() {
    constexpr std::size_t counts[] = {2, 125, 525};
    const std::size_t count = counts[static_cast<int>(kind_.size)];
    const auto block_of = [&](int node, int local) { return buffers_.receive + number_in_layout(node, local) * count; };
    std::uint64_t* const send = kind_.is_in_place ? block_of(0, own()) : buffers_.send;
    fill(send, count);
    std::uint64_t* const of_lane = buffers_.send + 2 * stride;
    used_.emplace_back(of_lane, 2 * count);
    collectives::spanning_allgather(x_, make_lane(), make_layout(), bytes_of(send), bytes_of(of_lane),
                                    bytes_of(buffers_.receive), count * word);
    for (int node = 0; node < 2; ++node)
      for (int local = 0; local < x_.ranks(); ++local) check_block(block_of(node, local), count, local);
  }

  void run_spanning_alltoall() {
    constexpr std::size_t counts[] = {1, 125, 525};
    const std::size_t count = counts[static_cast<int>(kind_.size)];
    fill(buffers_.send, 2 * count * static_cast<std::size_t>(x_.ranks()));
    collectives::spanning_alltoall(x_, make_lane(), make_layout(), bytes_of(buffers_.send), bytes_of(buffers_.receive),
                                   count * word);
    for (int node = 0; node < 2; ++node)
      for (int local = 0; local < x_.ranks(); ++local)
        check_block(buffers_.receive + count * number_in_layout(node, local), count, local,
                    count * number_in_layout(0, own()));
  }

  void run_gather() {
    if (!is_root()) fill(buffers_.send, length_of(own()));
    gather(x_, bytes_of(buffers_.send), is_root() ? 0 : length_of(own()) * word, kind_.root,
           [&](int rank) { return std::pair(bytes_of(block(buffers_.receive, rank)), length_of(rank) * word); });
    for (int rank = 0; rank < x_.ranks() && is_root(); ++rank)
      if (rank != own()) check_block(block(buffers_.receive, rank), length_of(rank), rank);
  }

  void run_scatter() {
    if (is_root()) fill_pieces();
    const std::size_t count = is_root() ? 0 : length_of(kind_.root, own());
    scatter(x_, get_piece(), bytes_of(buffers_.receive), count * word, kind_.root);
    check_block(buffers_.receive, count, kind_.root, static_cast<std::size_t>(own()) * stride);
  }

  void run_allgather() {
    if (kind_.operation == Operation::stepped_allgather) return run_stepped_allgather();
    std::uint64_t* const send = kind_.is_in_place ? block(buffers_.receive, own()) : buffers_.send;
    fill(send, length_of(own()));
    allgather(x_, bytes_of(send), length_of(own()) * word,
              [&](int rank) { return std::pair(bytes_of(block(buffers_.receive, rank)), length_of(rank) * word); });
    for (int rank = 0; rank < x_.ranks(); ++rank) check_block(block(buffers_.receive, rank), length_of(rank), rank);
  }

  void run_stepped_allgather() {
    const std::size_t count = length_of(0);
    std::uint64_t* const send =
        kind_.is_in_place ? buffers_.receive + count * static_cast<std::size_t>(own()) : buffers_.send;
    fill(send, count);
    allgather_by_doubling(x_, bytes_of(send), bytes_of(buffers_.receive), count * word);
    for (int rank = 0; rank < x_.ranks(); ++rank)
      check_block(buffers_.receive + count * static_cast<std::size_t>(rank), count, rank);
  }

  void run_alltoall() {
    constexpr std::size_t counts[] = {2, 125, 525};
    const std::size_t count = counts[static_cast<int>(kind_.size)];
    fill(buffers_.send, count * static_cast<std::size_t>(x_.ranks()));
    if (kind_.operation == Operation::stepped_alltoall)
      alltoall_by_doubling(x_, bytes_of(buffers_.send), bytes_of(buffers_.receive), count * word);
    else
      alltoall(x_, bytes_of(buffers_.send), bytes_of(buffers_.receive), count * word);
    for (int rank = 0; rank < x_.ranks(); ++rank)
      check_block(buffers_.receive + count * static_cast<std::size_t>(rank), count, rank,
                  count * static_cast<std::size_t>(own()));
  }

  void run_alltoallv() {
    fill_pieces();
    alltoallv(x_, get_piece(), [&](int rank) {
      return std::pair(bytes_of(block(buffers_.receive, rank)), length_of(rank, own()) * word);
    });
    for (int rank = 0; rank < x_.ranks(); ++rank)
      check_block(block(buffers_.receive, rank), length_of(rank, own()), rank,
                  static_cast<std::size_t>(own()) * stride);
  }

  void run_reduction() {
    using enum Operation;
    const std::size_t count = kind_.size == Size::uneven ? 1025 : length_of(0),
                      width = kind_.size == Size::wide ? 4800 : word;
    const bool is_spanning_reduce = kind_.operation == spanning_reduce,
               is_far = is_spanning_reduce && kind_.is_in_place,
               is_reduce = kind_.operation == reduce || kind_.operation == stepped_reduce || is_spanning_reduce,
               gets_result = !is_reduce || (is_root() && !is_far);
    std::uint64_t* const send = kind_.is_in_place && gets_result ? buffers_.receive : buffers_.send;
    fill(send, count);
    Port& port = x_.port();
    const auto combine = [&port, width](void* out, const void* a, const void* b, std::size_t n) {
      const std::size_t words = n * width / word;
      port.note_own(a, words * word, false);
      port.note_own(b, words * word, false);
      port.note_own(out, words * word, true);
      const auto *left = static_cast<const std::uint64_t*>(a), *right = static_cast<const std::uint64_t*>(b);
      for (std::size_t i = 0; i < words; ++i) static_cast<std::uint64_t*>(out)[i] = combine_values(left[i], right[i]);
    };
    const Reduction reduction{count * word / width, width, combine};
    Bytes* const receive = bytes_of(buffers_.receive);
    const bool is_scan = kind_.operation == scan || kind_.operation == exscan;
    const int last = !is_scan ? x_.ranks() - 1 : own() - (kind_.operation == exscan ? 1 : 0);
    Slice slice{0, count};
    if (is_spanning_reduce) {
      collectives::spanning_reduce(x_, make_lane(ignore, combine), receive, reduction.count, {is_far, kind_.root},
                                   [&] { collectives::reduce(x_, bytes_of(send), receive, reduction, kind_.root); });
    } else if (kind_.operation == spanning_allreduce) {
      collectives::spanning_allreduce_by_leaders(
          x_, make_lane(ignore, combine), receive, reduction.count,
          [&] { collectives::reduce(x_, bytes_of(send), receive, reduction, 0); },
          [&] { collectives::bcast(x_, receive, reduction.bytes(), 0); });
    } else if (kind_.operation == laned_allreduce) {
      collectives::spanning_allreduce_by_lanes(x_, make_lane(ignore, combine), 2, bytes_of(send), receive, reduction);
    } else if (kind_.operation == stepped_reduce) {
      collectives::reduce_by_doubling(x_, bytes_of(send), receive, reduction, kind_.root);
    } else if (kind_.operation == stepped_allreduce) {
      collectives::allreduce_by_doubling(x_, bytes_of(send), receive, reduction);
    } else if (is_reduce) {
      collectives::reduce(x_, bytes_of(send), receive, reduction, kind_.root);
    } else if (kind_.operation == allreduce) {
      collectives::allreduce(x_, bytes_of(send), receive, reduction);
    } else if (kind_.operation == grouped_allreduce) {
      collectives::allreduce_in_groups(x_, bytes_of(send), receive, reduction, groups);
    } else if (kind_.operation == reduce_scatter) {
      slice = get_slice(count);
      collectives::reduce_scatter(x_, bytes_of(send), receive, slice, reduction);
    } else {
      collectives::scan(x_, bytes_of(send), receive, reduction, last);
    }
    if (last >= 0 && gets_result)
      check(buffers_.receive, slice.end - slice.begin,
            [&](std::size_t i) { return expect_sum(last, slice.begin + i); });
  }

  // Returns the sum over ranks 0 ... last, combined in the order that the operation promises.
  std::uint64_t expect_sum(int last, std::size_t i) const {
    using enum Operation;
    std::vector<std::uint64_t> sums;
    for (int rank = 0; rank <= last; ++rank) sums.push_back(value_of(position_, rank, i));
    const auto combine_neighbours = [&](std::size_t pairs) {  // the first ones
      for (std::size_t pair = 0; pair < pairs; ++pair) {
        sums[pair] = combine_values(sums[pair], sums[pair + 1]);
        sums.erase(sums.begin() + static_cast<std::ptrdiff_t>(pair) + 1);
      }
    };
    if (kind_.operation == stepped_reduce || kind_.operation == stepped_allreduce) {
      combine_neighbours(sums.size() - std::bit_floor(sums.size()));
      while (sums.size() > 1) combine_neighbours(sums.size() / 2);
    }
    if (kind_.operation == grouped_allreduce) combine_neighbours(sums.size() / 2);
    std::uint64_t sum = sums[0];
    for (std::size_t k = 1; k < sums.size(); ++k) sum = combine_values(sum, sums[k]);
    const bool is_spanning = kind_.operation == spanning_reduce || kind_.operation == spanning_allreduce ||
                             kind_.operation == laned_allreduce;
    return is_spanning ? combine_values(sum, sum) : sum;
  }

  // Returns this rank's elements of reduce_scatter; rank 0 has none if they are uneven.
  Slice get_slice(std::size_t count) const {
    const auto begin = [&](int rank) {
      if (kind_.size == Size::uneven && rank == 1) return std::size_t{0};
      return count * static_cast<std::size_t>(rank) / static_cast<std::size_t>(x_.ranks());
    };
    return {begin(own()), begin(own() + 1)};
  }

  const Kind& kind_;
  Exchange<Port>& x_;
  Buffers& buffers_;
  std::uint64_t position_;
  std::vector<std::pair<std::uint64_t*, std::size_t>> used_;  // what must be overwritten
};

}  // namespace nearfield::collectives
