// A random program with wildcards, probes, tests, collectives and messages that contend for links.
#pragma once

#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "stream_builder.hpp"

namespace nearfield::sim {

using Streams = std::vector<StreamBuilder>;
using Kind = stream::CollectiveKind;

constexpr std::uint64_t heap = 0x5555'0000'0000, receive_heap = heap + (1 << 20);

inline stream::Data data(std::uint64_t bytes, std::uint64_t address = heap) {
  return {address, bytes, StreamBuilder::bytes};
}

// Writes the streams of a random program with all kinds of races.
class RaceWriter {
 public:
  RaceWriter(unsigned ranks, unsigned seed) : random_(seed), ranks_(ranks) {
    for (unsigned r = 0; r < ranks; ++r) all_.emplace_back(r, ranks);
  }

  Streams program(int rounds) {
    for (int round = 0; round < rounds; ++round) {
      compute();
      switch (round % 5) {
        case 0:
          ring();
          break;
        case 1:
          to_anyone(round);
          break;
        case 2:
          collective(round % 2 ? Kind::alltoall : Kind::allreduce, round % 3 == 0);
          break;
        case 3:
          poll_round(round);
          break;
        case 4:
          pairs();
          break;
      }
    }
    for (auto& one : all_) one.end();
    return std::move(all_);
  }

 private:
  std::uint64_t below(std::uint64_t limit) { return random_() % limit; }
  std::int64_t other(unsigned rank, unsigned by) const { return (rank + by) % ranks_; }

  void compute() {
    for (auto& one : all_) one.access(below(2) != 0, heap + 8 * below(4000), below(1500), 8 << below(5));
  }
  void ring() {
    const std::uint64_t bytes = below(2) ? 100 : 9000;
    for (unsigned r = 0; r < ranks_; ++r) {
      all_[r].enter("MPI_Irecv", 1).receive(1, other(r, ranks_ - 1), data(bytes, receive_heap)).leave();
      all_[r].enter("MPI_Isend", 2).send(2, other(r, 1), data(bytes)).leave();
      all_[r].enter("MPI_Waitall", 3).wait({1, 2}).leave();
    }
  }
  // All ranks send to one rank at once, which receives from any source; the recorded matches are in its stream.
  void to_anyone(int tag) {
    const auto to = static_cast<unsigned>(below(ranks_));
    const std::uint64_t bytes = below(2) ? 64 : 5000;
    for (unsigned r = 0; r < ranks_; ++r)
      if (r != to) all_[r].enter("MPI_Send", 4).send(1, to, data(bytes), tag).wait({1}).leave();
    const auto first = static_cast<unsigned>(below(ranks_ - 1));
    for (unsigned i = 0; i + 1 < ranks_; ++i)
      all_[to].receive(i + 1, stream::any_source_or_tag, data(bytes, receive_heap + i * 8192),
                       i % 2 ? stream::any_source_or_tag : tag);
    for (unsigned i = 0; i + 1 < ranks_; ++i) {
      const std::int64_t from = other(to, 1 + (first + i) % (ranks_ - 1));
      all_[to].enter("MPI_Wait", 5).add(stream::Outcome{i + 1, from, tag, bytes}).wait({i + 1}).leave();
    }
  }
  void collective(Kind kind, bool nonblocking) {
    for (unsigned r = 0; r < ranks_; ++r) {
      stream::Collective event;
      event.kind = kind;
      event.request = nonblocking ? 7 : 0;
      event.send_buffers = {data(kind == Kind::alltoall ? 200 : 3000)};
      event.receive_buffers = {data(kind == Kind::alltoall ? 200 : 3000, receive_heap)};
      all_[r].enter("MPI_Collective", 6).add(event).leave();
      if (nonblocking) all_[r].access(false, heap, 300).enter("MPI_Wait", 7).wait({7}).leave();
    }
  }
  // Each rank tests, then probes for its neighbour's message.
  void poll_round(int tag) {
    for (unsigned r = 0; r < ranks_; ++r) {
      auto& one = all_[r];
      const std::int64_t from = other(r, ranks_ - 1);
      one.receive(1, from, data(8, receive_heap), tag + 1000).send(2, other(r, 1), data(8), tag + 1000);
      one.enter("MPI_Test", 8).add(stream::RequestsTested{{1}, {}, false}).leave().access(true, heap, below(200));
      one.enter("MPI_Waitany", 9).add(stream::RequestsTested{{1, 2}, {1}, true}).leave().wait({2});
      one.send(3, other(r, 1), data(700), tag);
      one.enter("MPI_Probe", 10).add(stream::Outcome{0, from, tag, 700});
      one.add(stream::Probe{0, stream::any_source_or_tag, tag, true, true}).leave();
      one.receive(4, from, data(700, receive_heap), tag).wait({3, 4});
    }
  }
  // Pairs exchange at the same time, so that messages of many nodes contend for links.
  void pairs() {
    for (unsigned r = 0; r < ranks_; ++r) {
      const std::int64_t with = other(r, ranks_ / 2);
      const bool first = r < ranks_ / 2;
      if (r >= ranks_ / 2 * 2) continue;
      const std::int64_t peer = first ? with : r - ranks_ / 2;
      all_[r]
          .receive(1, peer, data(20000, receive_heap))
          .send(2, peer, data(20000))
          .enter("MPI_Waitall", 3)
          .wait({1, 2})
          .leave();
    }
  }

  std::mt19937 random_;
  unsigned ranks_;
  Streams all_;
};

}  // namespace nearfield::sim
