// Collectives on the ranks of any communicator. One object is for one operation: its messages have a tag of their own,
// so that several may be under way. With a Background, the operation is work beside the rank's program.
#pragma once

#include "sim/collectives/on_rank.hpp"
#include "sim/endpoint.hpp"

namespace nearfield::sim {

class GroupCommunicator final : public RankCommunicator {
 public:
  // `world`: the members' ranks, of which this rank is number `me`; it and `scratch`, where temporary buffers come
  // from, must live until the operation is over. `to`: context and tag of the messages.
  GroupCommunicator(Rank& rank, const std::vector<int>& world, int me, const Pattern& to, Scratch& scratch,
                    Background* beside)
      : RankCommunicator(rank, to.tag),
        endpoint_(rank.endpoint()),
        world_(world),
        me_(me),
        to_(to),
        scratch_(scratch),
        beside_(beside) {}

  int rank() const override { return me_; }
  int size() const override { return static_cast<int>(world_.size()); }
  Request send(int to, const Buffer& from_here) override { return endpoint_.send(with(to), from_here); }
  Request receive(int from, const Buffer& to_here) override { return endpoint_.receive(with(from), to_here); }
  Task<> wait(std::span<const Request> requests) override {
    for (const Request request : requests) {
      if (beside_)
        co_await endpoint_.wait(*beside_, request);
      else
        co_await endpoint_.wait(request);
    }
  }
  // Data that is in place already is not copied.
  Task<> copy(Address to, Address from, std::uint64_t bytes) override {
    return RankCommunicator::copy(to, from, to == from ? 0 : bytes);
  }
  Task<> copy(Buffer to, Buffer from) override {
    const bool in_place = to.address == from.address && to.scattered == from.scattered;
    return RankCommunicator::copy(to, in_place ? Buffer() : from);
  }
  Address take(std::uint64_t bytes) override { return scratch_.take(bytes); }
  void give(Address buffer, std::uint64_t bytes) override { scratch_.give(buffer, bytes); }

 private:
  Pattern with(int member) const { return {world_[static_cast<std::size_t>(member)], to_.tag, to_.context}; }

  Endpoint& endpoint_;
  const std::vector<int>& world_;
  int me_;
  Pattern to_;
  Scratch& scratch_;
  Background* beside_;
};

}  // namespace nearfield::sim
