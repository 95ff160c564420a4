#include "sim/nic/nic.hpp"

#include <algorithm>
#include <stdexcept>

namespace nearfield::sim {
namespace {

constexpr unsigned word_bytes = 8;
constexpr std::uint64_t head_bytes = 128;    // the NIC must have read this part of a message before any byte departs
constexpr std::uint64_t command_bytes = 64;  // a core writes at most this part of an entry
constexpr Count polls_per_sample = 64;       // since a sample of the counts takes host time

class NodeCounterReader final : public CounterReader {
 public:
  NodeCounterReader(const Node& node, int variant) : node_(node), variant_(variant) {}
  Counts counts() const override { return node_.counts(variant_); }

 private:
  const Node& node_;
  int variant_;
};

}  // namespace

Nic::Nic(Node& node, const Machine& machine, const std::vector<PolicyChoice>& policies)
    : node_(node),
      nic_parameters_(*machine.nic),
      post_time_(ps_from_ns(nic_parameters_.post_ns)),
      dma_time_(ps_from_ns(nic_parameters_.dma_ns)),
      event_queues_(static_cast<std::size_t>(machine.cores)),
      last_write_end_(node.num_variants()),
      counts_(static_cast<std::size_t>(node.num_variants())),
      counts_per_poll_(counts_.size()),
      empty_polls_since_sample_(counts_.size()),
      empty_poll_counts_(counts_.size()) {
  if (nic_parameters_.event_bytes < 1 || nic_parameters_.event_entries < 1)
    throw std::invalid_argument("machine '" + machine.name + "': event_bytes and event_entries: at least 1");
  for (const auto& policy : policies) placement_policies_.push_back(policy.make_policy(machine));
}

Address Nic::take_next_entry(int core) {
  const auto entry_bytes = static_cast<std::uint64_t>(nic_parameters_.event_bytes);
  const auto entries = static_cast<std::uint64_t>(nic_parameters_.event_entries);
  EventQueue& queue = event_queue_of(core);
  if (queue.begin == 0) {
    queue.begin = node_.allocate(core, entry_bytes * entries);
    queue.poll_duration = ConfigClock(node_.num_variants());
  }
  return queue.begin + queue.next_entry++ % entries * entry_bytes;
}

// ---- actions of a core

Address Nic::post_command(int core) {
  const Address entry = take_next_entry(core);
  const auto bytes = std::min<std::uint64_t>(command_bytes, static_cast<std::uint64_t>(nic_parameters_.event_bytes));
  node_.touch(core, Access::store, entry, bytes);
  node_.drain(core);  // the stores must be visible before the NIC reads
  node_.advance(core, post_time_);
  for (auto& counts : counts_) ++counts.commands;
  return entry;
}

void Nic::read_entry(int core, Address entry) {
  node_.access(core, Access::chase, entry, std::min(word_bytes, static_cast<unsigned>(nic_parameters_.event_bytes)));
}

// Polls by a command: posts the command, waits for the NIC's answer and reads it.
void Nic::poll_by_command(int core) {
  const Address entry = post_command(core);
  const ConfigClock fetch_end = fetch_command(entry, node_.now(core));
  node_.wait_until(core, answer_command(core, entry, fetch_end).visible_time);
  read_entry(core, entry);
}

// Polls by a command. Samples the cache counts of every polls_per_sample-th poll; until the next sample, each empty poll
// is assumed to have the same counts.
void Nic::poll_and_sample_counts(int core) {
  const bool is_sample = num_command_polls_++ % polls_per_sample == 0;
  std::vector<Counts> before;
  for (int v = 0; is_sample && v < node_.num_variants(); ++v) before.push_back(node_.counts(v));
  poll_by_command(core);
  for (int v = 0; is_sample && v < node_.num_variants(); ++v) {
    const auto variant = static_cast<std::size_t>(v);
    for (std::size_t speed = 0; speed < num_memory_speeds; ++speed)
      empty_poll_counts_[variant][speed] = empty_poll_counts(v, speed);
    empty_polls_since_sample_[variant] = {};
    counts_per_poll_[variant] = node_.counts(v);
    counts_per_poll_[variant].add(before[variant], -1);
  }
}

void Nic::poll_event(int core, Address entry, const ConfigClock& visible_time) {
  const ConfigClock before = node_.now(core);
  node_.wait_until(core, visible_time);
  const ConfigClock poll_start = node_.now(core);
  ConfigClock& poll_duration = event_queue_of(core).poll_duration;
  if (entry)
    read_entry(core, entry);
  else
    poll_and_sample_counts(core);
  if (!entry || nic_parameters_.polling == Polling::queue) poll_duration = node_.now(core) - poll_start;
  for (std::size_t v = 0; v < counts_.size(); ++v) {
    const auto variant = static_cast<int>(v);
    for (int l = 0; l < num_memory_speeds; ++l) {
      const Ps wait_time = visible_time[variant][l] - before[variant][l], duration = poll_duration[variant][l];
      if (wait_time <= 0 || duration <= 0) continue;
      const auto speed = static_cast<std::size_t>(l);
      const auto num_empty_polls = static_cast<Count>(wait_time / duration);
      counts_[v].empty_polls[speed] += num_empty_polls;
      if (nic_parameters_.polling == Polling::command) empty_polls_since_sample_[v][speed] += num_empty_polls;
    }
  }
}

Counts Nic::empty_poll_counts(int variant, std::size_t speed) const {
  const auto v = static_cast<std::size_t>(variant);
  Counts all = empty_poll_counts_[v][speed];
  return all.add(counts_per_poll_[v], static_cast<std::int64_t>(empty_polls_since_sample_[v][speed]));
}

// ---- actions of the NIC

ConfigClock Nic::fetch_command(Address entry, const ConfigClock& start) {
  return node_.dma_read(entry, static_cast<std::uint64_t>(nic_parameters_.event_bytes), start);
}

Nic::ReadTimes Nic::read_payload(Address address, std::uint64_t bytes, const ConfigClock& start) {
  const std::uint64_t head = std::min(bytes, head_bytes - address % head_bytes);
  for (auto& counts : counts_) counts.read_bytes += bytes;
  const ConfigClock first = node_.dma_read(address, head, start);
  return {first, later(first, node_.dma_read(address + head, bytes - head, start))};
}

ConfigClock Nic::write_to_chosen_target(const IncomingWrite& incoming, const ConfigClock& start) {
  std::array<InjectionTarget, max_variants> targets;
  for (std::size_t v = 0; v < placement_policies_.size(); ++v)
    targets[v] = placement_policies_[v]->choose_target(incoming, NodeCounterReader(node_, static_cast<int>(v)));
  return node_.dma_write(incoming.address, incoming.bytes, {targets.data(), placement_policies_.size()}, start);
}

ConfigClock Nic::write_payload(int core, Address address, std::uint64_t bytes, std::uint64_t message_bytes,
                               const ConfigClock& first, const ConfigClock& last) {
  last_write_end_ = later(last_write_end_, first);
  if (bytes > 0) {
    for (auto& counts : counts_) counts.written_bytes += bytes;
    last_write_end_ = write_to_chosen_target(
        {IncomingWrite::Kind::payload, address, bytes, message_bytes, core, steered_level_of(address)},
        last_write_end_);
  }
  last_write_end_ = later(last_write_end_, last);
  return last_write_end_;
}

Nic::Event Nic::write_event(int core, const ConfigClock& start) {
  last_write_end_ = later(last_write_end_, start);
  if (nic_parameters_.polling == Polling::command) return {0, last_write_end_};
  return answer_command(core, take_next_entry(core), last_write_end_);
}

Nic::Event Nic::answer_command(int core, Address entry, const ConfigClock& start) {
  for (auto& counts : counts_) ++counts.events;
  const auto bytes = static_cast<std::uint64_t>(nic_parameters_.event_bytes);
  const IncomingWrite incoming{IncomingWrite::Kind::header, entry, bytes, bytes, core, {}};
  return {entry, write_to_chosen_target(incoming, start) + dma_time_};
}

void Nic::steer_range(Address address, std::uint64_t bytes, int level) {
  steering_hints_.push_back({address, address + bytes, level});
}

std::optional<int> Nic::steered_level_of(Address address) const {
  for (auto range = steering_hints_.rbegin(); range != steering_hints_.rend(); ++range)
    if (range->begin <= address && address < range->end) return range->level;
  return {};
}

}  // namespace nearfield::sim
