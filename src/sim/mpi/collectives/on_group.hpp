// Collectives on the ranks of any communicator. One object serves one operation, whose messages have a tag that no
// other operation uses, so that several operations may be in flight. With an AsyncProgressTask the operation is
// nonblocking.
#pragma once

#include "sim/mpi/collectives/on_rank.hpp"
#include "sim/mpi/endpoint.hpp"

namespace nearfield::sim {

class GroupCommunicator final : public RankCommunicator {
 public:
  // `member_ranks`: the members' ranks, of which this rank is number `own_number`. `scratch` provides temporary
  // buffers. Both must outlive the operation. `to`: context and tag of the messages. `async_task`: nullptr for a
  // blocking operation.
  GroupCommunicator(Rank& rank, const std::vector<int>& member_ranks, int own_number, const Pattern& to,
                    ScratchPool& scratch, AsyncProgressTask* async_task)
      : RankCommunicator(rank, to.tag),
        endpoint_(rank.endpoint()),
        member_ranks_(member_ranks),
        own_number_(own_number),
        message_pattern_(to),
        scratch_(scratch),
        async_task_(async_task) {}

  int rank() const override { return own_number_; }
  int size() const override { return static_cast<int>(member_ranks_.size()); }
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
    const bool in_place = to.address == from.address && to.scattered_layout == from.scattered_layout;
    return RankCommunicator::copy(to, in_place ? Buffer() : from);
  }
  Address acquire(std::uint64_t bytes) override { return scratch_.acquire(bytes); }
  void release(Address buffer, std::uint64_t bytes) override { scratch_.release(buffer, bytes); }

 private:
  Pattern pattern_for_member(int member) const {
    return {member_ranks_[static_cast<std::size_t>(member)], message_pattern_.tag, message_pattern_.context};
  }

  Endpoint& endpoint_;
  const std::vector<int>& member_ranks_;
  int own_number_;
  Pattern message_pattern_;
  ScratchPool& scratch_;
  AsyncProgressTask* async_task_;
};

}  // namespace nearfield::sim
