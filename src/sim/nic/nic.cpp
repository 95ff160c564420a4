#include "sim/nic/nic.hpp"

#include <algorithm>
#include <stdexcept>

namespace nearfield::sim {
namespace {

constexpr unsigned word = 8;
constexpr std::uint64_t head_bytes = 128;    // the NIC reads this part of a message before the first byte can depart
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
      parameters_(*machine.nic),
      post_(ps_from_ns(parameters_.post_ns)),
      dma_(ps_from_ns(parameters_.dma_ns)),
      queues_(static_cast<std::size_t>(machine.cores)),
      written_(node.variants()),
      counts_(static_cast<std::size_t>(node.variants())),
      counts_per_poll_(counts_.size()),
      empty_polls_since_(counts_.size()),
      empty_poll_counts_(counts_.size()) {
  if (parameters_.event_bytes < 1 || parameters_.event_entries < 1)
    throw std::invalid_argument("machine '" + machine.name + "': event_bytes and event_entries: at least 1");
  for (const auto& policy : policies) policies_.push_back(policy.make_policy(machine));
}

Address Nic::next_entry(int core) {
  const auto entry_bytes = static_cast<std::uint64_t>(parameters_.event_bytes);
  const auto entries = static_cast<std::uint64_t>(parameters_.event_entries);
  EventQueue& mine = event_queue_of(core);
  if (mine.begin == 0) {
    mine.begin = node_.allocate(core, entry_bytes * entries);
    mine.pace = ConfigClock(node_.variants());
  }
  return mine.begin + mine.next++ % entries * entry_bytes;
}

// ---- actions of a core

Address Nic::post(int core) {
  const Address entry = next_entry(core);
  const auto bytes = std::min<std::uint64_t>(command_bytes, static_cast<std::uint64_t>(parameters_.event_bytes));
  node_.touch(core, Access::store, entry, bytes);
  node_.drain(core);  // the stores must be visible before the NIC reads
  node_.advance(core, post_);
  for (auto& counts : counts_) ++counts.commands;
  return entry;
}

void Nic::read_entry(int core, Address entry) {
  node_.access(core, Access::chase, entry, std::min(word, static_cast<unsigned>(parameters_.event_bytes)));
}

// Polls by a command: posts the command, waits for the NIC's answer and reads it.
void Nic::poll_by_command(int core) {
  const Address entry = post(core);
  const ConfigClock known = fetch(entry, node_.now(core));
  node_.wait_until(core, answer(core, entry, known).visible);
  read_entry(core, entry);
}

// Polls by a command. Every polls_per_sample-th poll is a sample: its cache counts stand for those of each empty poll
// until the next sample.
void Nic::poll_by_sampled_command(int core) {
  const bool samples = commands_polled_++ % polls_per_sample == 0;
  std::vector<Counts> before;
  for (int v = 0; samples && v < node_.variants(); ++v) before.push_back(node_.counts(v));
  poll_by_command(core);
  for (int v = 0; samples && v < node_.variants(); ++v) {
    const auto variant = static_cast<std::size_t>(v);
    for (std::size_t speed = 0; speed < num_memory_speeds; ++speed)
      empty_poll_counts_[variant][speed] = empty_poll_counts(v, speed);
    empty_polls_since_[variant] = {};
    counts_per_poll_[variant] = node_.counts(v);
    counts_per_poll_[variant].add(before[variant], -1);
  }
}

void Nic::poll(int core, Address entry, const ConfigClock& visible) {
  const ConfigClock before = node_.now(core);
  node_.wait_until(core, visible);
  const ConfigClock begun = node_.now(core);
  ConfigClock& pace = event_queue_of(core).pace;
  if (entry)
    read_entry(core, entry);
  else
    poll_by_sampled_command(core);
  if (!entry || parameters_.polling == Polling::queue) pace = node_.now(core) - begun;
  for (std::size_t v = 0; v < counts_.size(); ++v) {
    const auto variant = static_cast<int>(v);
    for (int l = 0; l < num_memory_speeds; ++l) {
      const Ps waited = visible[variant][l] - before[variant][l], each = pace[variant][l];
      if (waited <= 0 || each <= 0) continue;
      const auto speed = static_cast<std::size_t>(l);
      const auto empty = static_cast<Count>(waited / each);
      counts_[v].empty_polls[speed] += empty;
      if (parameters_.polling == Polling::command) empty_polls_since_[v][speed] += empty;
    }
  }
}

Counts Nic::empty_poll_counts(int variant, std::size_t speed) const {
  const auto v = static_cast<std::size_t>(variant);
  Counts all = empty_poll_counts_[v][speed];
  return all.add(counts_per_poll_[v], static_cast<std::int64_t>(empty_polls_since_[v][speed]));
}

// ---- actions of the NIC

ConfigClock Nic::fetch(Address entry, const ConfigClock& start) {
  return node_.dma_read(entry, static_cast<std::uint64_t>(parameters_.event_bytes), start);
}

Nic::ReadTimes Nic::read(Address address, std::uint64_t bytes, const ConfigClock& start) {
  const std::uint64_t head = std::min(bytes, head_bytes - address % head_bytes);
  for (auto& counts : counts_) counts.read_bytes += bytes;
  const ConfigClock first = node_.dma_read(address, head, start);
  return {first, later(first, node_.dma_read(address + head, bytes - head, start))};
}

ConfigClock Nic::write_to_chosen_target(const IncomingWrite& incoming, const ConfigClock& start) {
  std::array<InjectionTarget, max_variants> where;
  for (std::size_t v = 0; v < policies_.size(); ++v)
    where[v] = policies_[v]->choose_target(incoming, NodeCounterReader(node_, static_cast<int>(v)));
  return node_.dma_write(incoming.address, incoming.bytes, {where.data(), policies_.size()}, start);
}

ConfigClock Nic::write(int core, Address address, std::uint64_t bytes, std::uint64_t message_bytes,
                       const ConfigClock& first, const ConfigClock& last) {
  written_ = later(written_, first);
  if (bytes > 0) {
    for (auto& counts : counts_) counts.written_bytes += bytes;
    written_ = write_to_chosen_target(
        {IncomingWrite::Kind::payload, address, bytes, message_bytes, core, steered_level_of(address)}, written_);
  }
  written_ = later(written_, last);
  return written_;
}

Nic::Event Nic::notify(int core, const ConfigClock& start) {
  written_ = later(written_, start);
  if (parameters_.polling == Polling::command) return {0, written_};
  return answer(core, next_entry(core), written_);
}

Nic::Event Nic::answer(int core, Address entry, const ConfigClock& start) {
  for (auto& counts : counts_) ++counts.events;
  const auto bytes = static_cast<std::uint64_t>(parameters_.event_bytes);
  const IncomingWrite incoming{IncomingWrite::Kind::header, entry, bytes, bytes, core, {}};
  return {entry, write_to_chosen_target(incoming, start) + dma_};
}

void Nic::steer(Address address, std::uint64_t bytes, int level) {
  steered_.push_back({address, address + bytes, level});
}

std::optional<int> Nic::steered_level_of(Address address) const {
  for (auto range = steered_.rbegin(); range != steered_.rend(); ++range)
    if (range->begin <= address && address < range->end) return range->level;
  return {};
}

}  // namespace nearfield::sim
