#include "sim/replay/joined.hpp"

#include <iterator>

#include "sim/packing.hpp"

namespace nearfield::sim {

// ---- what the others found, as bytes

template <class Pack>
void fields(Pack& pack, Counts& its) {
  pack(its.levels, its.dram, its.tlbs, its.page_faults, its.transfers);
}

template <class Pack>
void fields(Pack& pack, Mark& its) {
  pack(its.start, its.stop, its.before, its.after, its.seen);
}

template <class Pack>
void fields(Pack& pack, TimeInCalls& its) {
  pack(its.sending, its.receiving, its.waiting);
}

template <class Pack>
void fields(Pack& pack, RankOutcome& its) {
  pack(its.finished, its.marks, its.in_calls);
}

template <class Pack>
void fields(Pack& pack, VariantOutcome& its) {
  pack(its.policy, its.memory);
  for (Counts& counts : its.memory_at) pack(counts);
  pack(its.nic, its.nic_of_node);
}

template <class Pack>
void fields(Pack& pack, Outcome& its) {
  pack(its.ranks, its.variants, its.events, its.messages, its.bytes);
}

namespace replay {

template <class Pack>
void fields(Pack& pack, Spent& its) {
  pack(its.times, its.time, its.seen);
}

template <class Pack>
void fields(Pack& pack, Place& its) {
  pack(its.object, its.offset, its.callers);
}

template <class Pack>
void fields(Pack& pack, CallOutcome& its) {
  pack(its.name, its.place, its.spent, its.timeline);
}

template <class Pack>
void fields(Pack& pack, ReplayedOutcome& its) {
  pack(its.calls, its.computing, its.accesses, its.skipped_accesses, its.flops, its.dependence, its.regions);
}

template <class Pack>
void fields(Pack& pack, Replayed& its) {
  pack(its.cluster, its.ranks, its.part_ps);
}

// ---- together

namespace {

template <class T>
void append(std::vector<T>& all, std::vector<T>& more) {
  std::ranges::move(more, std::back_inserter(all));
}

// The network, and so what it counts, is the same on all shards.
void append(Outcome& all, Outcome& more) {
  append(all.ranks, more.ranks);
  all.events += more.events;
  for (std::size_t v = 0; v < all.variants.size(); ++v) {
    VariantOutcome &its = all.variants[v], &another = more.variants[v];
    its.memory += another.memory;
    for (std::size_t speed = 0; speed < speeds; ++speed) its.memory_at[speed] += another.memory_at[speed];
    its.nic += another.nic;
    append(its.nic_of_node, another.nic_of_node);
  }
}

}  // namespace

Replayed joined(Replayed mine, Shards& shards) {
  if (shards.count() == 1) return mine;
  Packing packing;
  if (shards.number() > 0) packing(mine);
  const auto all = shards.exchange(packing.bytes());
  for (std::size_t shard = 1; shards.number() == 0 && shard < all.size(); ++shard) {
    Replayed its;
    Unpacking{all[shard]}(its);
    append(mine.cluster, its.cluster);
    append(mine.ranks, its.ranks);
  }
  shards.exchange("");  // so that all learn if the first one could not
  return mine;
}

}  // namespace replay
}  // namespace nearfield::sim
