#include "sim/run/replay/merge_shards.hpp"

#include <iterator>

#include "sim/engine/packing.hpp"

namespace nearfield::sim {

// ---- serialization of results

template <class Pack>
void pack_fields(Pack& pack, Counts& value) {
  pack(value.levels, value.dram, value.tlbs, value.page_faults, value.transfers);
}

template <class Pack>
void pack_fields(Pack& pack, Mark& value) {
  pack(value.start, value.stop, value.counts_before, value.counts_after, value.counters);
}

template <class Pack>
void pack_fields(Pack& pack, TimeInCalls& value) {
  pack(value.send_time, value.receive_time, value.wait_time);
}

template <class Pack>
void pack_fields(Pack& pack, RankOutcome& value) {
  pack(value.finish_time, value.marks, value.time_in_calls, value.schedule);
}

template <class Pack>
void pack_fields(Pack& pack, VariantOutcome& value) {
  pack(value.policy, value.memory);
  for (Counts& counts : value.memory_counts_by_speed) pack(counts);
  pack(value.nic, value.nic_counts_by_node);
}

template <class Pack>
void pack_fields(Pack& pack, Outcome& value) {
  pack(value.ranks, value.variants, value.events, value.messages, value.bytes);
}

namespace replay {

template <class Pack>
void pack_fields(Pack& pack, TimeSpent& value) {
  pack(value.num_intervals, value.time, value.counters);
}

template <class Pack>
void pack_fields(Pack& pack, CallPlace& value) {
  pack(value.object, value.offset, value.callers);
}

template <class Pack>
void pack_fields(Pack& pack, CallOutcome& value) {
  pack(value.name, value.place, value.spent, value.timeline, value.intervals, value.received);
}

template <class Pack>
void pack_fields(Pack& pack, RankReplayResult& value) {
  pack(value.calls, value.computing, value.accesses, value.skipped_accesses, value.flops, value.timing_sensitivity,
       value.regions);
}

template <class Pack>
void pack_fields(Pack& pack, ReplayResult& value) {
  pack(value.cluster, value.ranks, value.bin_ps);
}

// ---- merging

namespace {

template <class T>
void append(std::vector<T>& all, std::vector<T>& added) {
  std::ranges::move(added, std::back_inserter(all));
}

// Every shard simulates the whole network, so the counts of the network are not added.
void append(Outcome& all, Outcome& added) {
  append(all.ranks, added.ranks);
  all.events += added.events;
  for (std::size_t v = 0; v < all.variants.size(); ++v) {
    VariantOutcome &value = all.variants[v], &added_variant = added.variants[v];
    value.memory += added_variant.memory;
    for (std::size_t speed = 0; speed < num_memory_speeds; ++speed)
      value.memory_counts_by_speed[speed] += added_variant.memory_counts_by_speed[speed];
    value.nic += added_variant.nic;
    append(value.nic_counts_by_node, added_variant.nic_counts_by_node);
  }
}

}  // namespace

ReplayResult merge_shards(ReplayResult own_result, Shards& shards) {
  if (shards.num_shards() == 1) return own_result;
  Packing packing;
  if (shards.shard_number() > 0) packing(own_result);
  const auto all = shards.exchange(packing.bytes());
  for (std::size_t shard = 1; shards.shard_number() == 0 && shard < all.size(); ++shard) {
    ReplayResult value;
    Unpacking{all[shard]}(value);
    append(own_result.cluster, value.cluster);
    append(own_result.ranks, value.ranks);
  }
  shards.exchange("");  // so that all shards fail if the first shard could not merge
  return own_result;
}

}  // namespace replay
}  // namespace nearfield::sim
