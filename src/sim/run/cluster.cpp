#include "sim/run/cluster.hpp"

#include <algorithm>

#include "machine/machine.hpp"
#include "sim/engine/packing.hpp"
#include "sim/mpi/endpoint.hpp"
#include "sim/nic/nic.hpp"
#include "sim/run/window_scheduler.hpp"

namespace nearfield::sim {
namespace {

// Runs a program to its end, and passes its exception to the engine.
Task<> run_and_catch(const Program& program, Endpoint& endpoint) {
  try {
    co_await program(endpoint.rank_interface());
    co_await endpoint.flush_calls();
  } catch (...) {
    endpoint.node_state().engine.record_failure(std::current_exception());
  }
}

void check_range(const char* key, long value, long min, long max, const std::string& machine) {
  if (value >= min && value <= max) return;
  throw std::invalid_argument(std::string(key) + ": from " + std::to_string(min) + " to " + std::to_string(max) +
                              " on machine '" + machine + "', not " + std::to_string(value));
}

}  // namespace

Cluster::Cluster(const Machine& machine, const ClusterOptions& options)
    : state_(std::make_unique<ClusterState>()), min_parallel_window_us_(options.min_parallel_window_us) {
  state_->machine = machine;
  state_->shards = options.shards ? options.shards : &single_shard_;
  check_options(options);
  state_->local_nodes = state_->shards->nodes_of_this_shard(options.nodes);
  num_threads_ = std::clamp(options.threads, 1, state_->local_nodes.size());
  for (const auto& policy : options.placement_policy_names) policies_.emplace_back(policy, machine);
  state_->num_variants = static_cast<int>(policies_.size());
  state_->needs_node_counts = options.needs_node_counts;
  state_->needs_core_counters = options.needs_core_counters;
  state_->progress_callback = options.progress_callback;
  if (options.nodes > 1) state_->network = std::make_unique<Network>(machine, options.nodes, state_->num_variants);
  remote_node_ = std::make_unique<Node>(
      machine, Node::Options{state_->num_variants, false, options.memory_slowdown, /*has_memory_effects=*/false});
  for (int n = 0; n < options.nodes; ++n) {
    NodeState& node_state = *state_->node_states.emplace_back(std::make_unique<NodeState>(*state_, n));
    if (state_->local_nodes.contains(n))
      add_node(node_state, options);
    else
      add_ranks(node_state, *remote_node_, nullptr, options);
  }
}

void Cluster::add_node(NodeState& node_state, const ClusterOptions& options) {
  const Machine& machine = state_->machine;
  const bool limits_ways = std::any_of(policies_.begin(), policies_.end(),
                                       [](const PolicyChoice& policy) { return policy.spec().limits_ways; });
  nodes_.push_back(std::make_unique<Node>(
      machine, Node::Options{state_->num_variants, limits_ways, options.memory_slowdown, options.has_memory_effects}));
  Node& node = *nodes_.back();
  node_state.engine.set_progress_callback([cluster = state_.get()] { cluster->run_progress_callback(); });
  make_protocols(node_state);
  if (options.needs_core_counters && options.has_memory_effects) node.enable_per_core_counts();
  if (options.nodes > 1) nics_.push_back(std::make_unique<Nic>(node, machine, policies_));
  add_ranks(node_state, node, options.nodes > 1 ? nics_.back().get() : nullptr, options);
}

void Cluster::add_ranks(NodeState& node_state, Node& node, Nic* nic, const ClusterOptions& options) {
  const int ranks = options.ranks_per_node;
  for (int r = 0; r < ranks; ++r) {
    const int core = options.cores.empty() ? r : options.cores[static_cast<std::size_t>(r)];
    state_->ranks.push_back(
        std::make_unique<Endpoint>(node_state, node, nic, node_state.number * ranks + r, core, ranks == 1));
    if (options.scheduled_policy) state_->ranks.back()->record_schedule(*options.scheduled_policy);
  }
}

Cluster::~Cluster() = default;

void Cluster::check_options(const ClusterOptions& options) const {
  const Machine& machine = state_->machine;
  check_range("nodes", options.nodes, 1, machine.max_nodes, machine.name);
  check_range("ranks_per_node", options.ranks_per_node, 1, machine.cores, machine.name);
  check_range("shards", state_->shards->num_shards(), 1, options.nodes, machine.name);
  check_range("policies", static_cast<long>(options.placement_policy_names.size()), 1, max_variants, machine.name);
  if (!options.cores.empty() && options.cores.size() != static_cast<std::size_t>(options.ranks_per_node))
    throw std::invalid_argument("cores: as many as ranks_per_node, or none");
  for (std::size_t i = 0; i < options.cores.size(); ++i) {
    check_range("cores", options.cores[i], 0, machine.cores - 1, machine.name);
    if (std::count(options.cores.begin(), options.cores.end(), options.cores[i]) > 1)
      throw std::invalid_argument("cores: " + std::to_string(options.cores[i]) + " is there twice");
  }
  for (const double factor : options.memory_slowdown)
    if (!(factor >= 1 && factor <= 1000)) throw std::invalid_argument("memory_slowdown: from 1 to 1000");
}

void Cluster::make_protocols(NodeState& node_state) {
  const Messaging& messaging = state_->machine.messaging;
  const ProtocolPair network = find_protocol_pair(messaging.network, false),
                     node = find_protocol_pair(messaging.node, true);
  node_state.network_small = network.small->make(node_state);
  node_state.network_large = network.large->make(node_state);
  node_state.node_small = node.small->make(node_state);
  node_state.node_large = node.large->make(node_state);
  if (!messaging.pieces.empty())
    node_state.node_pieces = find_protocol_pair(messaging.pieces, true).large->make(node_state);
}

Node& Cluster::node(int number) { return *nodes_[static_cast<std::size_t>(number - state_->local_nodes.begin)]; }

int Cluster::num_ranks() const { return static_cast<int>(state_->ranks.size()); }

Outcome Cluster::run(const Program& program) { return run(std::vector<Program>(state_->ranks.size(), program)); }

Outcome Cluster::run(const std::vector<Program>& programs) {
  if (programs.size() != state_->ranks.size()) throw std::invalid_argument("as many programs as ranks");
  state_->run_thread = std::this_thread::get_id();
  state_->run_progress_callback();
  if (std::exchange(has_failed_, true)) throw std::logic_error("this cluster's last run ended in the middle");
  for (auto& node : nodes_) node->reset_counts();
  for (auto& nic : nics_) nic->reset_counts();
  for (const auto& rank : state_->local_ranks()) {
    rank->marks().clear();
    rank->reset_time_in_calls();
  }
  for (auto& node_state : state_->node_states) node_state->engine.reset_time();
  std::vector<Task<>> tasks;
  for (const auto& rank : state_->local_ranks()) {
    tasks.push_back(run_and_catch(programs[static_cast<std::size_t>(rank->rank())], *rank));
    rank->node_state().engine.resume_at(rank->ordering_clock(), tasks.back().handle());
  }
  WindowScheduler(*state_, num_threads_, min_parallel_window_us_).run();
  check_all_done(tasks);
  has_failed_ = false;
  return collect_outcome();
}

// Throws Deadlock if the program of a rank has not ended, on any shard.
void Cluster::check_all_done(const std::vector<Task<>>& tasks) const {
  bool done = std::ranges::all_of(tasks, [](const auto& task) { return task.done(); }), all_done = true;
  std::string waits = done ? "" : describe_waiting_ranks(), all_waits;
  Packing packing;
  packing(done, waits);
  for (const std::string& bytes : state_->shards->exchange(packing.bytes())) {
    Unpacking{bytes}(done, waits);
    all_done &= done;
    if (!waits.empty()) all_waits += (all_waits.empty() ? "" : "\n") + waits;
  }
  if (!all_done) throw Deadlock(all_waits);
}

std::string Cluster::describe_waiting_ranks() const {
  std::string lines;
  for (const auto& rank : state_->local_ranks())
    if (const std::string line = rank->describe_wait(); !line.empty()) lines += (lines.empty() ? "" : "\n") + line;
  return lines;
}

Outcome Cluster::collect_outcome() {
  Outcome outcome;
  for (const auto& rank : state_->local_ranks())
    outcome.ranks.push_back({rank->now(), std::move(rank->marks()), rank->time_in_calls(), rank->end_schedule()});
  for (int v = 0; v < state_->num_variants; ++v) {
    VariantOutcome variant;
    variant.policy = policies_[static_cast<std::size_t>(v)].text();
    for (std::size_t n = 0; n < nodes_.size(); ++n) {
      const Counts accesses = nodes_[n]->counts(v);
      for (std::size_t speed = 0; speed < num_memory_speeds; ++speed) {
        auto& counts = variant.memory_counts_by_speed[speed] += accesses;
        if (n < nics_.size()) counts += nics_[n]->empty_poll_counts(v, speed);
      }
    }
    variant.memory = variant.memory_counts_by_speed[0];
    for (const auto& nic : nics_) variant.nic += variant.nic_counts_by_node.emplace_back(nic->counts(v));
    outcome.variants.push_back(std::move(variant));
  }
  std::uint64_t events = 0;
  for (const auto& node_state : state_->node_states) events += node_state->engine.num_events_run();
  outcome.events = events - std::exchange(num_events_, events);
  if (const Network* network = state_->network.get()) {
    outcome.messages = network->num_messages() - std::exchange(num_messages_, network->num_messages());
    outcome.bytes = network->total_bytes() - std::exchange(network_bytes_, network->total_bytes());
  }
  return outcome;
}

}  // namespace nearfield::sim
