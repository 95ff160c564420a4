#include "sim/run/replay/merge_shards.hpp"

#include <iterator>

#include "sim/engine/packing.hpp"

namespace nearfield::sim {

// ---- serialisation of results

template <class Pack>
void fields(Pack& pack, Counts& value) {
  pack(value.levels, value.dram, value.tlbs, value.page_faults, value.transfers);
}

template <class Pack>
void fields(Pack& pack, Mark& value) {
  pack(value.start, value.stop, value.before, value.after, value.counters);
}

template <class Pack>
void fields(Pack& pack, TimeInCalls& value) {
  pack(value.sending, value.receiving, value.waiting);
}

template <class Pack>
void fields(Pack& pack, RankOutcome& value) {
  pack(value.finished, value.marks, value.in_calls, value.schedule);
}

template <class Pack>
void fields(Pack& pack, VariantOutcome& value) {
  pack(value.policy, value.memory);
  for (Counts& counts : value.memory_at) pack(counts);
  pack(value.nic, value.nic_of_node);
}

template <class Pack>
void fields(Pack& pack, Outcome& value) {
  pack(value.ranks, value.variants, value.events, value.messages, value.bytes);
}

namespace replay {

template <class Pack>
void fields(Pack& pack, TimeSpent& value) {
  pack(value.times, value.time, value.counters);
}

template <class Pack>
void fields(Pack& pack, CallPlace& value) {
  pack(value.object, value.offset, value.callers);
}

template <class Pack>
void fields(Pack& pack, CallOutcome& value) {
  pack(value.name, value.place, value.spent, value.timeline, value.intervals, value.received);
}

template <class Pack>
void fields(Pack& pack, RankReplayResult& value) {
  pack(value.calls, value.computing, value.accesses, value.skipped_accesses, value.flops, value.timing_sensitivity,
       value.regions);
}

template <class Pack>
void fields(Pack& pack, ReplayResult& value) {
  pack(value.cluster, value.ranks, value.part_ps);
}

// ---- merging

namespace {

template <class T>
void append(std::vector<T>& all, std::vector<T>& more) {
  std::ranges::move(more, std::back_inserter(all));
}

// Every shard simulates the whole network, so the counts of the network are not added.
void append(Outcome& all, Outcome& more) {
  append(all.ranks, more.ranks);
  all.events += more.events;
  for (std::size_t v = 0; v < all.variants.size(); ++v) {
    VariantOutcome &value = all.variants[v], &another = more.variants[v];
    value.memory += another.memory;
    for (std::size_t speed = 0; speed < num_memory_speeds; ++speed) value.memory_at[speed] += another.memory_at[speed];
    value.nic += another.nic;
    append(value.nic_of_node, another.nic_of_node);
  }
}

}  // namespace

ReplayResult merge_shards(ReplayResult mine, Shards& shards) {
  if (shards.num_shards() == 1) return mine;
  Packing packing;
  if (shards.own_number() > 0) packing(mine);
  const auto all = shards.exchange(packing.bytes());
  for (std::size_t shard = 1; shards.own_number() == 0 && shard < all.size(); ++shard) {
    ReplayResult value;
    Unpacking{all[shard]}(value);
    append(mine.cluster, value.cluster);
    append(mine.ranks, value.ranks);
  }
  shards.exchange("");  // so that all shards fail if the first shard could not merge
  return mine;
}

}  // namespace replay
}  // namespace nearfield::sim
