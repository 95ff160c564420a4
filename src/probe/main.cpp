// nearfield-probe, the measuring engine. An MPI launcher starts the ranks; each rank reads a plan file, binds itself to
// its CPU and measures; rank 0 appends the results to the plan's output file. The measuring processes contain no
// Python.
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <limits>
#include <string>
#include <thread>
#include <utility>

#include "base/launcher.hpp"
#include "base/node_watch.hpp"
#include "base/statistics.hpp"
#include "probe/binding.hpp"
#include "probe/context.hpp"
#include "probe/emit.hpp"
#include "probe/engine.hpp"
#include "probe/failure.hpp"
#include "probe/mpi_variables.hpp"
#include "probe/protocol.hpp"
#include "probe/remote_control.hpp"
#include "probe/scenario.hpp"
#include "probe/single_copy.hpp"

namespace nearfield::probe {
namespace {

constexpr int exit_failure = 5;

const char* name_of_ranks(Ranks ranks) {
  static constexpr const char* names[] = {"pair", "all", "pair-and-background"};
  return names[static_cast<int>(ranks)];
}

const Spec& find_scenario(const std::string& name) {
  try {
    return find_named(all_scenarios(), name, "scenario", [](const Spec& spec) { return spec.info.name; });
  } catch (const std::invalid_argument& error) {
    throw Failure("plan", error.what());
  }
}

JsonObject scenario_to_json(const Spec& spec) {
  std::vector<std::string> parameters, metrics;
  for (const auto& p : spec.info.parameters)
    parameters.push_back(JsonObject().add("name", p.name).add("summary", p.summary).str());
  for (const auto& m : spec.info.metrics)
    metrics.push_back(JsonObject().add("name", m.name).add("unit", m.unit).add("summary", m.summary).str());
  JsonObject object;
  object.add("name", spec.info.name).add("summary", spec.info.summary).add("ranks", name_of_ranks(spec.info.ranks));
  return object.add("weight", spec.time_budget_weight)
      .add_raw("parameters", json_array(parameters))
      .add_raw("metrics", json_array(metrics));
}

// Prints the scenarios as JSON for `nearfield probe --list`. Runs without a launcher and does not call MPI_Init.
int print_scenarios_as_json() {
  std::vector<std::string> specs;
  for (const Spec* spec : all_scenarios()) specs.push_back(scenario_to_json(*spec).str());
  std::printf("%s\n", json_array(specs).c_str());
  return EXIT_SUCCESS;
}

// For `nearfield mpi`: sends a short and a long message, so that the verbose output of the MPI names the transports.
// Also prints how many kernel copies the long message took and which library made them, which no MPI reports.
int run_transport_probe() {
  MPI_Init(nullptr, nullptr);
  int rank = 0, size = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  std::vector<char> memory(1 << 20);
  std::uint64_t calls_before = 0;
  for (const int count : {1, 1 << 20}) {
    calls_before = single_copy_calls;
    if (size == 2)
      MPI_Sendrecv_replace(memory.data(), count, MPI_CHAR, 1 - rank, 0, 1 - rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
  if (rank == 0) {
    const auto copies = static_cast<unsigned long long>(single_copy_calls - calls_before);
    std::printf("single_copies %llu %s\n", copies, copies ? last_single_copy_caller().c_str() : "-");
  }
  MPI_Finalize();
  return EXIT_SUCCESS;
}

struct ClockProperties {
  double ticks_per_ns, overhead_ns, resolution_ns;
};

// Measures the frequency of the clock, the overhead of reading it, and its resolution, since the counter may advance in
// steps of many ticks. The resolution is the smallest gap between the sorted differences of successive reads, without
// gaps of one or two ticks (rounding) and without the largest 5 % of the differences (interrupted reads).
ClockProperties examine_clock() {
  const double ticks_per_ns = measure_ticks_per_ns(0.02);
  std::vector<double> read_times;
  for (int i = 0; i < 10000; ++i) {
    const Ticks first = now();
    read_times.push_back(static_cast<double>(now() - first));
  }
  const double overhead = quantile(read_times, 0.5);
  std::sort(read_times.begin(), read_times.end());
  read_times.resize(read_times.size() * 95 / 100);
  double min_step = overhead;
  for (std::size_t i = 1; i < read_times.size(); ++i)
    if (read_times[i] - read_times[i - 1] > 2) min_step = std::min(min_step, read_times[i] - read_times[i - 1]);
  return {ticks_per_ns, overhead / ticks_per_ns, min_step / ticks_per_ns};
}

Placement placement_of_rank(const Plan& plan, int rank) {
  if (rank < 0 || rank >= static_cast<int>(plan.placement_by_rank.size())) return {};
  return plan.placement_by_rank[static_cast<std::size_t>(rank)];
}

void emit_header(const Context& ctx, const ClockProperties& clock, Emitter& emit) {
  char library[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length = 0;
  MPI_Get_library_version(library, &length);
  JsonObject variables;
  for (const auto& [name, value] : read_mpi_thresholds()) variables.add(name, value);
  JsonObject line;
  line.add("type", "launch").add("ranks", ctx.num_world_ranks).add("library", library);
  line.add("ticks_per_ns", clock.ticks_per_ns).add("clock_overhead_ns", clock.overhead_ns);
  line.add("clock_resolution_ns", clock.resolution_ns);
  const SynchronizedStart& start = *ctx.synchronized_start;
  line.add("common_clock", start.has_shared_memory()).add("flag_ns", start.core_latency_ticks() / ctx.ticks_per_ns);
  std::vector<double> levels = ctx.line_latencies.load_ticks_by_level;
  for (double& level : levels) level /= ctx.ticks_per_ns;
  line.add("level_latency_ns", std::span<const double>(levels));
  line.add("memory_latency_ns", ctx.line_latencies.memory_load_ticks / ctx.ticks_per_ns);
  line.add("cached_limit_ns", ctx.line_latencies.max_cached_load_ticks / ctx.ticks_per_ns);
  line.add("dirty_limit_ns", ctx.line_latencies.max_clean_flush_ticks / ctx.ticks_per_ns);
  emit.write_line(line.add_raw("variables", variables.str()));
}

void emit_switches(const Context& ctx, Emitter& emit) {
  for (const auto& change : ctx.protocol_switches)
    emit.write_line(
        JsonObject().add("type", "switch").add("kind", change.switch_kind).add("size_bytes", change.size_bytes));
}

// Returns the communicator of the timed ranks: ranks 0 and 1 in a launch with background ranks, all ranks otherwise.
// Returns MPI_COMM_NULL on background ranks.
MPI_Comm split_timed_ranks(const Plan& plan, int world_rank) {
  const bool is_background_rank =
      find_scenario(plan.scenarios.at(0).name).info.ranks == Ranks::pair_and_background && world_rank >= 2;
  MPI_Comm timed;
  MPI_Comm_split(MPI_COMM_WORLD, is_background_rank ? MPI_UNDEFINED : 0, world_rank, &timed);
  return timed;
}

void require_enough_ranks(const Spec& spec, int ranks) {
  const bool has_enough_ranks = spec.info.ranks == Ranks::all    ? ranks >= 2
                                : spec.info.ranks == Ranks::pair ? ranks == 2
                                                                 : ranks >= 4;
  if (!has_enough_ranks)
    throw Failure("plan", spec.info.name + " cannot run on " + std::to_string(ranks) + " ranks (" +
                              name_of_ranks(spec.info.ranks) + ")");
}

void verify_binding_or_abort(int rank, const Placement& placement) {
  try {
    verify_binding(rank, placement);
  } catch (const Failure& failure) {
    abort_launch(failure.failure_kind, failure.what());
  }
}

void measure_scenarios(const Plan& plan, int world_rank, Emitter& emit) {
  Context ctx(plan, MPI_COMM_WORLD, split_timed_ranks(plan, world_rank));
  ctx.world_rank = world_rank;
  MPI_Comm_size(MPI_COMM_WORLD, &ctx.num_world_ranks);
  if (static_cast<int>(plan.placement_by_rank.size()) != ctx.num_world_ranks)
    throw Failure("plan", "the plan places " + std::to_string(plan.placement_by_rank.size()) + " ranks but " +
                              std::to_string(ctx.num_world_ranks) + " were started");
  emit.write_current_step("examining the clock");
  const ClockProperties clock = examine_clock();
  ctx.ticks_per_ns = clock.ticks_per_ns;
  ctx.clock_resolution_ticks = clock.resolution_ns * clock.ticks_per_ns;
  std::unique_ptr<SynchronizedStart> start;
  if (ctx.timed_comm != MPI_COMM_NULL) {
    MPI_Comm_rank(ctx.timed_comm, &ctx.rank);
    MPI_Comm_size(ctx.timed_comm, &ctx.num_ranks);
    emit.write_current_step("comparing the clocks of the ranks");
    start = std::make_unique<SynchronizedStart>(ctx.timed_comm, plan.is_oversubscribed, ctx.ticks_per_ns);
    ctx.synchronized_start = start.get();
  }
  if (!plan.command_fifo.empty()) return serve_commands(ctx, find_scenario(plan.scenarios.at(0).name), emit);
  if (ctx.timed_comm != MPI_COMM_NULL) {
    emit.write_current_step("timing the caches");
    ctx.line_latencies = calibrate_latencies(plan.cache_bytes, ctx.cache_line_bytes());
    if (ctx.num_ranks == 2) ctx.protocol_switches = find_protocol_switches(ctx, emit);
  }
  if (world_rank == 0) {
    emit_header(ctx, clock, emit);
    emit_switches(ctx, emit);
  }
  bool is_stopped = false;
  const Ticks begin = now();
  const auto elapsed_s = [&] { return static_cast<double>(now() - begin) / ctx.ticks_per_ns * 1e-9; };
  double remaining_budget_s = 0;
  for (const auto& request : plan.scenarios) remaining_budget_s += request.budget_s;
  for (const auto& request : plan.scenarios) {
    is_stopped = is_stop_requested(ctx);
    MPI_Bcast(&is_stopped, 1, MPI_CXX_BOOL, 0, ctx.world_comm);
    if (is_stopped) break;
    const Spec& spec = find_scenario(request.name);
    require_enough_ranks(spec, ctx.num_world_ranks);
    // Later scenarios may use the time that a scenario does not need.
    const double share_of_remaining_budget =
        request.budget_s / std::exchange(remaining_budget_s, remaining_budget_s - request.budget_s);
    const double no_limit = std::numeric_limits<double>::infinity();
    const double limit =
        plan.time_limit_s > 0 ? (plan.time_limit_s - elapsed_s()) * share_of_remaining_budget : no_limit;
    run_scenario(ctx, spec, request.budget_s, limit, emit);
    verify_binding_or_abort(world_rank, placement_of_rank(plan, world_rank));
  }
  JsonObject last_line;
  last_line.add("type", is_stopped || is_stop_requested(ctx) ? "stopped" : "end");
  emit.write_line(last_line.add("measuring_s", elapsed_s()));
  start.reset();
  if (ctx.timed_comm != MPI_COMM_NULL) MPI_Comm_free(&ctx.timed_comm);
}

// Binds this rank and runs the measurement. Rank 0 writes a Failure to the output; then the launch is aborted.
void run_in_mpi(const Plan& plan) {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  Emitter emit(rank == 0 ? plan.output : "");
  try {
    const Placement placement = placement_of_rank(plan, rank);
    bind_process_to_cpu(placement);
    verify_binding_or_abort(rank, placement);
    if (plan.scenarios.empty()) throw Failure("plan", "no scenario asked for");
    measure_scenarios(plan, rank, emit);
  } catch (const Failure& failure) {
    emit.write_line(JsonObject().add("type", "error").add("kind", failure.failure_kind).add("message", failure.what()));
    // Rank 0, which writes the output, has usually failed with the same error. An immediate abort by another rank would
    // kill it before its line is written.
    if (rank != 0) std::this_thread::sleep_for(std::chrono::seconds(1));
    abort_launch(failure.failure_kind, failure.what());
  } catch (const std::exception& error) {
    abort_launch("engine", error.what());
  }
}

int run_plan(const char* plan_path) {
  Plan plan;
  try {
    plan = read_plan(plan_path);
    bind_process_to_cpu(placement_of_rank(plan, rank_from_environment()));
  } catch (const Failure& failure) {
    std::fprintf(stderr, "nearfield-probe: %s: %s\n", failure.failure_kind.c_str(), failure.what());
    return exit_failure;
  }
  const auto watch = join_launcher_watch();  // must precede MPI_Init, which waits for all nodes
  MPI_Init(nullptr, nullptr);
  run_in_mpi(plan);
  MPI_Finalize();
  return EXIT_SUCCESS;
}

}  // namespace
}  // namespace nearfield::probe

int main(int argc, char** argv) {
  using namespace nearfield::probe;
  if (argc == 2 && std::strcmp(argv[1], "--describe") == 0) return print_scenarios_as_json();
  if (argc == 2 && std::strcmp(argv[1], "--transport-probe") == 0) return run_transport_probe();
  if (argc == 2) return run_plan(argv[1]);
  std::fprintf(stderr,
               "usage: nearfield-probe PLAN | --describe | --transport-probe  (started by `nearfield probe`)\n");
  return 2;
}
