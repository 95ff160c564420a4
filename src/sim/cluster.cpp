#include "sim/cluster.hpp"

#include <algorithm>

#include "machine/machine.hpp"
#include "sim/endpoint.hpp"
#include "sim/nic/nic.hpp"
#include "sim/packing.hpp"
#include "sim/windows.hpp"

namespace nearfield::sim {
namespace {

// A program's end, and its exception, reach the engine.
Task<> guarded(const Program& program, Endpoint& endpoint) {
  try {
    co_await program(endpoint.facade());
    co_await endpoint.catch_up();
  } catch (...) {
    endpoint.site().engine.fail(std::current_exception());
  }
}

void within(const char* key, long value, long least, long most, const std::string& machine) {
  if (value >= least && value <= most) return;
  throw std::invalid_argument(std::string(key) + ": from " + std::to_string(least) + " to " + std::to_string(most) +
                              " on machine '" + machine + "', not " + std::to_string(value));
}

}  // namespace

Cluster::Cluster(const Machine& machine, const ClusterOptions& options)
    : world_(std::make_unique<World>()), worth_sharing_us_(options.worth_sharing_us) {
  world_->machine = machine;
  world_->shards = options.shards ? options.shards : &alone_;
  check(options);
  world_->here = world_->shards->part_of(options.nodes);
  threads_ = std::clamp(options.threads, 1, world_->here.size());
  for (const auto& policy : options.policies) policies_.emplace_back(policy, machine);
  world_->variants = static_cast<int>(policies_.size());
  world_->count_marks = options.count_marks;
  world_->count_sides = options.count_sides;
  world_->call_now_and_then = options.now_and_then;
  if (options.nodes > 1) world_->network = std::make_unique<Network>(machine, options.nodes, world_->variants);
  elsewhere_ = std::make_unique<Node>(
      machine, Node::Options{world_->variants, false, options.memory_slowdown, /*memory_effects=*/false});
  for (int n = 0; n < options.nodes; ++n) {
    Site& site = *world_->sites.emplace_back(std::make_unique<Site>(*world_, n));
    if (world_->here.has(n))
      add_node(site, options);
    else
      add_ranks(site, *elsewhere_, nullptr, options);
  }
}

void Cluster::add_node(Site& site, const ClusterOptions& options) {
  const Machine& machine = world_->machine;
  const bool limits_ways = std::any_of(policies_.begin(), policies_.end(),
                                       [](const PolicyChoice& policy) { return policy.spec().limits_ways; });
  nodes_.push_back(std::make_unique<Node>(
      machine, Node::Options{world_->variants, limits_ways, options.memory_slowdown, options.memory_effects}));
  Node& node = *nodes_.back();
  site.engine.now_and_then([world = world_.get()] { world->now_and_then(); });
  make_protocols(site);
  if (options.count_sides && options.memory_effects) node.tell_cores_apart();
  if (options.nodes > 1) nics_.push_back(std::make_unique<Nic>(node, machine, policies_));
  add_ranks(site, node, options.nodes > 1 ? nics_.back().get() : nullptr, options);
}

void Cluster::add_ranks(Site& site, Node& node, Nic* nic, const ClusterOptions& options) {
  const int ranks = options.ranks_per_node;
  for (int r = 0; r < ranks; ++r) {
    const int core = options.cores.empty() ? r : options.cores[static_cast<std::size_t>(r)];
    world_->ranks.push_back(std::make_unique<Endpoint>(site, node, nic, site.number * ranks + r, core, ranks == 1));
  }
}

Cluster::~Cluster() = default;

void Cluster::check(const ClusterOptions& options) const {
  const Machine& machine = world_->machine;
  within("nodes", options.nodes, 1, machine.max_nodes, machine.name);
  within("ranks_per_node", options.ranks_per_node, 1, machine.cores, machine.name);
  within("shards", world_->shards->count(), 1, options.nodes, machine.name);
  within("policies", static_cast<long>(options.policies.size()), 1, most_variants, machine.name);
  if (!options.cores.empty() && options.cores.size() != static_cast<std::size_t>(options.ranks_per_node))
    throw std::invalid_argument("cores: as many as ranks_per_node, or none");
  for (std::size_t i = 0; i < options.cores.size(); ++i) {
    within("cores", options.cores[i], 0, machine.cores - 1, machine.name);
    if (std::count(options.cores.begin(), options.cores.end(), options.cores[i]) > 1)
      throw std::invalid_argument("cores: " + std::to_string(options.cores[i]) + " is there twice");
  }
  for (const double factor : options.memory_slowdown)
    if (!(factor >= 1 && factor <= 1000)) throw std::invalid_argument("memory_slowdown: from 1 to 1000");
}

void Cluster::make_protocols(Site& site) {
  const Messaging& messaging = world_->machine.messaging;
  const Pairing network = find_pairing(messaging.network, false), node = find_pairing(messaging.node, true);
  site.network_small = network.small->make(site);
  site.network_large = network.large->make(site);
  site.node_small = node.small->make(site);
  site.node_large = node.large->make(site);
}

Node& Cluster::node(int number) { return *nodes_[static_cast<std::size_t>(number - world_->here.begin)]; }

int Cluster::ranks() const { return static_cast<int>(world_->ranks.size()); }

Outcome Cluster::run(const Program& program) { return run(std::vector<Program>(world_->ranks.size(), program)); }

Outcome Cluster::run(const std::vector<Program>& programs) {
  if (programs.size() != world_->ranks.size()) throw std::invalid_argument("as many programs as ranks");
  world_->caller = std::this_thread::get_id();
  world_->now_and_then();
  if (std::exchange(broken_, true)) throw std::logic_error("this cluster's last run ended in the middle");
  for (auto& node : nodes_) node->reset_counts();
  for (auto& nic : nics_) nic->reset_counts();
  for (const auto& rank : world_->ranks_here()) {
    rank->marks().clear();
    rank->reset_in_calls();
  }
  for (auto& site : world_->sites) site->engine.restart();
  std::vector<Task<>> tasks;
  for (const auto& rank : world_->ranks_here()) {
    tasks.push_back(guarded(programs[static_cast<std::size_t>(rank->rank())], *rank));
    rank->site().engine.resume_at(rank->first(), tasks.back().handle());
  }
  Windows(*world_, threads_, worth_sharing_us_).run();
  check_done(tasks);
  broken_ = false;
  return outcome();
}

// Throws Deadlock if a rank is not done, on any shard.
void Cluster::check_done(const std::vector<Task<>>& tasks) const {
  bool done = std::ranges::all_of(tasks, [](const auto& task) { return task.done(); }), all_done = true;
  std::string waits = done ? "" : who_waits(), all_wait;
  Packing mine;
  mine(done, waits);
  for (const std::string& its : world_->shards->exchange(mine.bytes())) {
    Unpacking{its}(done, waits);
    all_done &= done;
    if (!waits.empty()) all_wait += (all_wait.empty() ? "" : "\n") + waits;
  }
  if (!all_done) throw Deadlock(all_wait);
}

std::string Cluster::who_waits() const {
  std::string lines;
  for (const auto& rank : world_->ranks_here())
    if (const std::string line = rank->waits_for(); !line.empty()) lines += (lines.empty() ? "" : "\n") + line;
  return lines;
}

Outcome Cluster::outcome() {
  Outcome outcome;
  for (const auto& rank : world_->ranks_here())
    outcome.ranks.push_back({rank->now(), std::move(rank->marks()), rank->in_calls()});
  for (int v = 0; v < world_->variants; ++v) {
    VariantOutcome variant;
    variant.policy = policies_[static_cast<std::size_t>(v)].text();
    for (std::size_t n = 0; n < nodes_.size(); ++n) {
      const Counts accesses = nodes_[n]->counts(v);
      for (std::size_t speed = 0; speed < speeds; ++speed) {
        auto& counts = variant.memory_at[speed] += accesses;
        if (n < nics_.size()) counts += nics_[n]->of_empty_polls(v, speed);
      }
    }
    variant.memory = variant.memory_at[0];
    for (const auto& nic : nics_) variant.nic += variant.nic_of_node.emplace_back(nic->counts(v));
    outcome.variants.push_back(std::move(variant));
  }
  std::uint64_t events = 0;
  for (const auto& site : world_->sites) events += site->engine.events();
  outcome.events = events - std::exchange(events_, events);
  if (const Network* network = world_->network.get()) {
    outcome.messages = network->messages() - std::exchange(messages_, network->messages());
    outcome.bytes = network->bytes() - std::exchange(bytes_, network->bytes());
  }
  return outcome;
}

}  // namespace nearfield::sim
