// Collectives on the ranks of any communicator. One object serves one operation: its messages have a tag of their own,
// so that several operations may be in flight. With an AsyncProgressTask the operation is nonblocking.
#pragma once

#include "sim/mpi/collectives/on_rank.hpp"
#include "sim/mpi/endpoint.hpp"

namespace nearfield::sim {

class GroupCommunicator final : public RankCommunicator {
 public:
  // `world`: the members' ranks, of which this rank is number `me`. `scratch` provides temporary buffers. Both must
  // outlive the operation. `to`: context and tag of the messages. `async_task`: nullptr for a blocking operation.
  GroupCommunicator(Rank& rank, const std::vector<int>& world, int me, const Pattern& to, ScratchPool& scratch,
                    AsyncProgressTask* async_task)
      : RankCommunicator(rank, to.tag),
        endpoint_(rank.endpoint()),
        world_(world),
        me_(me),
        to_(to),
        scratch_(scratch),
        async_task_(async_task) {}

  int rank() const override { return me_; }
  int size() const override { return static_cast<int>(world_.size()); }
  Request send(int to, const Buffer& data) override { return endpoint_.send(pattern_for_member(to), data); }
  Request receive(int from, const Buffer& buffer) override {
    return endpoint_.receive(pattern_for_member(from), buffer);
  }
  Task<> wait(std::span<const Request> requests) override {
    for (const Request request : requests) {
      if (async_task_)
        co_await endpoint_.wait(*async_task_, request);
      else
        co_await endpoint_.wait(request);
    }
  }
  // Copies unless the data is already in place.
  Task<> copy(Address to, Address from, std::uint64_t bytes) override {
    return RankCommunicator::copy(to, from, to == from ? 0 : bytes);
  }
  Task<> copy(Buffer to, Buffer from) override {
    const bool in_place = to.address == from.address && to.scattered == from.scattered;
    return RankCommunicator::copy(to, in_place ? Buffer() : from);
  }
  Address acquire(std::uint64_t bytes) override { return scratch_.acquire(bytes); }
  void release(Address buffer, std::uint64_t bytes) override { scratch_.release(buffer, bytes); }

 private:
  Pattern pattern_for_member(int member) const {
    return {world_[static_cast<std::size_t>(member)], to_.tag, to_.context};
  }

  Endpoint& endpoint_;
  const std::vector<int>& world_;
  int me_;
  Pattern to_;
  ScratchPool& scratch_;
  AsyncProgressTask* async_task_;
};

}  // namespace nearfield::sim
