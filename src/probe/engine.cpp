#include "probe/engine.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "base/statistics.hpp"
#include "probe/counters.hpp"
#include "probe/failure.hpp"
#include "probe/places.hpp"
#include "probe/reporter.hpp"

namespace nearfield::probe {
namespace {

enum class CommandKind : int { measure, count_events, sample_state, end };

struct Command {
  CommandKind kind;
  int index;  // index of the case
  int repetitions;
};

constexpr Seconds target_visit_s = 2e-3;  // target duration of a visit to a case
constexpr int max_repetitions_per_visit = 16;
constexpr std::size_t min_visits = 12;           // a machine's speed varies over time
constexpr std::size_t min_reported_samples = 6;  // a 95 % confidence interval needs this many samples

class ScenarioRun {
 public:
  ScenarioRun(Context& ctx, const Spec& spec, Emitter& emit)
      : ctx_(ctx), spec_(spec), emit_(emit), scenario_(spec.make(ctx)), cases_(scenario_->cases()) {
    metric_values_.resize(spec.info.metrics.size());
    data_.resize(cases_.size());
    for (auto& data : data_) data.samples.resize(spec.info.metrics.size());
    for (const Parameters& parameters : cases_) is_case_requested_.push_back(is_requested(parameters));
    if (!cases_.empty() && num_requested_cases() == 0)
      throw Failure("plan", "'only' leaves no case of " + spec.info.name);
  }

  void run(Seconds budget, Seconds limit) {
    limit_s_ = limit;
    emit_progress(0);
    check_sanity(1, limit / 2);
    if (ctx_.world_rank == 0)
      run_coordinator(budget);
    else
      run_worker();
    check_sanity(2, limit);
    report_cases();
  }

 private:
  Context& ctx_;
  const Spec& spec_;
  Emitter& emit_;
  std::unique_ptr<Scenario> scenario_;
  std::vector<Parameters> cases_;
  std::vector<CaseData> data_;
  std::vector<bool> is_case_requested_;  // by case; false if the plan's filters exclude the case
  std::vector<double> metric_values_;    // results of the last run_timed(), by metric
  LatencyHistogram visit_latencies_;     // core-to-core latencies of the visits; rank 0 only
  EventCounters counters_;
  bool has_buffers_in_cache_state_ = false;
  bool is_interrupted_ = false;  // rank 0: the user has requested the end
  double reported_share_ = 0;    // completed share of the measurement, as last reported
  Ticks last_progress_ticks_ = 0;
  const Ticks begin_ticks_ = now();
  Seconds limit_s_ = 0;  // time after begin_ticks_ from which no task is started; rank 0 only

  bool is_timed_rank() const { return ctx_.timed_comm != MPI_COMM_NULL; }
  Seconds to_seconds(Ticks ticks) const { return static_cast<double>(ticks) / ctx_.ticks_per_ns * 1e-9; }

  // ---- rank 0
  Seconds elapsed_seconds() const { return to_seconds(now() - begin_ticks_); }

  bool is_requested(const Parameters& parameters) const {
    return std::all_of(ctx_.plan.filters.begin(), ctx_.plan.filters.end(), [&](const CaseFilter& filter) {
      return filter.scenario != spec_.info.name || has_parameter_value(parameters, filter.parameter, filter.values);
    });
  }
  std::size_t num_requested_cases() const {
    return static_cast<std::size_t>(std::count(is_case_requested_.begin(), is_case_requested_.end(), true));
  }

  // Returns true if a task of this duration would end after `limit` (measured from begin_ticks_), or if the user has
  // requested the end.
  bool is_out_of_time(Seconds limit, Seconds duration) {
    is_interrupted_ = is_interrupted_ || is_stop_requested(ctx_);
    return is_interrupted_ || elapsed_seconds() + duration > limit;
  }

  void run_coordinator(Seconds budget) {
    const Seconds begin = elapsed_seconds();
    std::vector<int> order(cases_.size());
    std::iota(order.begin(), order.end(), 0);
    std::mt19937 random(20121105);
    Seconds reported = -1;
    for (bool has_visited_any = !order.empty(); has_visited_any && !is_interrupted_;) {
      has_visited_any = false;
      std::shuffle(order.begin(), order.end(), random);
      for (const int index : order) {
        const Seconds spent = elapsed_seconds() - begin;
        if (!needs_visit(index, budget, spent > budget) || is_out_of_time(limit_s_, seconds_per_repetition(index)))
          continue;
        has_visited_any = true;
        broadcast_visit(index);
        if (spent - reported > 0.2) {
          reported = spent;
          emit_progress(std::min({1.0, spent / budget, share_of_min_samples()}));
        }
      }
    }
    if (!ctx_.plan.is_oversubscribed) examine_cases();
    broadcast_command({CommandKind::end, 0, 0});
  }

  // Verifies the cache states of buffers and counts hardware and software events. Runs after all timed repetitions,
  // because it would disturb them.
  void examine_cases() {
    for (int i = 0; i < static_cast<int>(cases_.size()); ++i) {
      const CaseData& data = data_[static_cast<std::size_t>(i)];
      if (data.samples[0].empty() || is_out_of_time(limit_s_, seconds_per_repetition(i))) continue;
      const bool is_slow = data.measuring_s > 0.01 * static_cast<double>(data.samples[0].size());
      send_keepalive();
      if (has_buffers_in_cache_state_) broadcast_command({CommandKind::sample_state, i, is_slow ? 1 : 8});
      broadcast_command({CommandKind::count_events, i, is_slow ? 1 : 3});
    }
  }

  // Returns whether a case needs another visit: its median is not precise yet, and it has used at most four times its
  // equal share of the budget. A case with fewer than `min_reported_samples` samples needs a visit even if the budget
  // is used up.
  bool needs_visit(int index, Seconds budget, bool is_budget_spent) {
    const CaseData& data = data_[static_cast<std::size_t>(index)];
    if (data.is_precise || !data.has_passed_sanity_check) return false;
    const auto n = static_cast<std::int64_t>(data.samples[0].size());
    if (n < ctx_.plan.min_samples) return !is_budget_spent || n < std::int64_t{min_reported_samples};
    if (is_budget_spent) return false;
    const Seconds fair_share_s = budget / static_cast<double>(num_requested_cases());
    if (data.measuring_s > 4 * fair_share_s) return false;
    return true;
  }

  // Every case gets `min_reported_samples` repetitions even if the budget is used up. Returns the share (0 to 1) of
  // these repetitions that have been completed.
  double share_of_min_samples() const {
    std::size_t num_collected = 0;
    for (const CaseData& data : data_)
      num_collected += std::min<std::size_t>(data.samples[0].size(), min_reported_samples);
    return static_cast<double>(num_collected) / static_cast<double>(min_reported_samples * num_requested_cases());
  }

  // Returns the mean duration of one repetition in s; before the first repetition, the duration of the sanity check.
  Seconds seconds_per_repetition(int index) const {
    const CaseData& data = data_[static_cast<std::size_t>(index)];
    const auto n = data.samples[0].size();
    return n == 0 ? data.sanity_check_s : data.measuring_s / static_cast<double>(n);
  }

  void broadcast_visit(int index) {
    CaseData& data = data_[static_cast<std::size_t>(index)];
    const bool is_first = data.samples[0].empty();
    const int repetitions = is_first ? 1
                                     : std::clamp(static_cast<int>(target_visit_s / seconds_per_repetition(index)), 1,
                                                  max_repetitions_per_visit);
    const Ticks begin = now();
    broadcast_command({CommandKind::measure, index, repetitions});
    data.measuring_s += to_seconds(now() - begin);
    const auto deciding = samples_for_precision(data);
    if (data.visit_numbers.back() + 1 >= min_visits &&
        static_cast<std::int64_t>(deciding.size()) >= std::max<std::int64_t>(ctx_.plan.min_samples, 21))
      data.is_precise = is_stable(median_estimate(deciding, ctx_.clock_resolution_ticks), ctx_.plan.tolerance);
  }

  // Returns the samples that determine whether the median of a case is precise: the samples of the last metric in ns
  // that this rank measures (the time of the whole operation). Excludes repetitions under CPU interference, and those
  // whose core-to-core latency is not the most frequent one.
  std::vector<double> samples_for_precision(const CaseData& data) const {
    std::size_t deciding = 0;
    for (std::size_t m = 0; m < spec_.info.metrics.size(); ++m)
      if (spec_.info.metrics[m].unit == "ns" && !std::isnan(data.samples[m].back())) deciding = m;
    std::vector<double> samples;
    for (std::size_t i = 0; i < data.interference_ticks.size(); ++i)
      if (ctx_.interference.slowdown(data.interference_ticks[i]) <= CpuInterference::max_undisturbed_slowdown &&
          visit_latencies_.is_dominant_latency(data.core_latency_ticks[i]))
        samples.push_back(data.samples[deciding][i]);
    return samples;
  }

  // Emits a progress line if the last one is older than 1 s, because the Python controller considers a launch without
  // output dead.
  void send_keepalive() {
    if (ctx_.world_rank == 0 && to_seconds(now() - last_progress_ticks_) > 1.0) emit_progress(reported_share_);
  }

  void emit_progress(double share) {
    reported_share_ = share;
    last_progress_ticks_ = now();
    emit_.write_line(JsonObject().add("type", "progress").add("scenario", spec_.info.name).add("share", share));
  }

  void broadcast_command(Command command) {
    MPI_Bcast(&command, sizeof command, MPI_BYTE, 0, ctx_.world_comm);
    if (command.kind != CommandKind::end) execute_command(command);
  }

  // ---- all ranks
  void run_worker() {
    for (;;) {
      Command command;
      MPI_Bcast(&command, sizeof command, MPI_BYTE, 0, ctx_.world_comm);
      if (command.kind == CommandKind::end) return;
      execute_command(command);
    }
  }

  void execute_command(const Command& command) {
    scenario_->select_case(static_cast<std::size_t>(command.index));
    if (!is_timed_rank()) return scenario_->run_background_load();
    scenario_->begin_visit();
    CaseData& data = data_[static_cast<std::size_t>(command.index)];
    const double latency = command.kind == CommandKind::measure ? core_latency_ticks() : 0;
    if (command.kind == CommandKind::measure && scenario_->buffers_in_cache_state().empty()) warm_up_caches();
    const double ticks_before = ctx_.interference.measure_loop_ticks();
    for (int i = 0; i < command.repetitions; ++i) {
      if (command.kind == CommandKind::measure) measure_repetition(data);
      if (command.kind == CommandKind::count_events) count_events(data);
      if (command.kind == CommandKind::sample_state) sample_states(data);
    }
    const double loop_ticks = std::max(ticks_before, ctx_.interference.measure_loop_ticks());
    data.interference_ticks.resize(data.samples[0].size(), loop_ticks);
    data.visit_numbers.resize(data.samples[0].size(), data.visit_numbers.empty() ? 0 : data.visit_numbers.back() + 1);
    if (command.kind == CommandKind::measure) {
      const double visit_latency = latency_of_visit(latency, core_latency_ticks());
      data.core_latency_ticks.resize(data.samples[0].size(), visit_latency);
      visit_latencies_.add_visit(visit_latency);
    }
    scenario_->end_visit();
  }

  // Returns the current core-to-core latency between the two ranks in ticks, on rank 0. Returns 0 if the launch has
  // more than two ranks or is oversubscribed.
  double core_latency_ticks() {
    return ctx_.num_ranks == 2 && !ctx_.plan.is_oversubscribed ? ctx_.synchronized_start->measure_core_latency_ticks()
                                                               : 0.0;
  }

  // Runs a discarded repetition, since the caches contain data of the previous case. Called if prepare_repetition()
  // establishes no cache state.
  void warm_up_caches() {
    scenario_->prepare_repetition();
    ctx_.synchronized_start->wait();
    scenario_->run_timed(metric_values_);
  }

  void measure_repetition(CaseData& data) {
    scenario_->prepare_repetition();
    data.start_ticks.push_back(static_cast<double>(ctx_.synchronized_start->wait()));
    scenario_->run_timed(metric_values_);
    for (std::size_t m = 0; m < spec_.info.metrics.size(); ++m) data.samples[m].push_back(metric_values_[m]);
  }

  void count_events(CaseData& data) {
    scenario_->prepare_repetition();
    ctx_.synchronized_start->wait();
    counters_.start();
    scenario_->run_timed(metric_values_);
    const auto counts = counters_.stop();
    data.event_counts.resize(counts.size());
    for (std::size_t i = 0; i < counts.size(); ++i) data.event_counts[i] += counts[i];
    ++data.num_counted_repetitions;
  }

  void sample_states(CaseData& data) {
    scenario_->prepare_repetition();
    ctx_.synchronized_start->wait();
    for (const auto& buffer : scenario_->buffers_in_cache_state()) {
      data.expected_cache_state = buffer.state;
      data.line_samples += sample_lines(buffer.memory, buffer.state, ctx_.cache_line_bytes(), ctx_.line_latencies);
    }
  }

  // ---- sanity checks

  // Checks the received data of all requested cases. Called before and after the measurements; the second call skips
  // cases whose first check took more than 10 ms. Once the run has lasted `limit`, the remaining cases are skipped.
  void check_sanity(unsigned seed, Seconds limit) {
    constexpr Seconds is_slow = 0.01;
    for (std::size_t i = 0; i < cases_.size(); ++i) {
      int skip = !is_case_requested_[i] || data_[i].sanity_check_s > is_slow ||
                 (ctx_.world_rank == 0 && is_out_of_time(limit, 0));
      MPI_Bcast(&skip, 1, MPI_INT, 0, ctx_.world_comm);
      if (skip) continue;
      send_keepalive();
      const Ticks begin = now();
      scenario_->select_case(i);
      has_buffers_in_cache_state_ = has_buffers_in_cache_state_ || !scenario_->buffers_in_cache_state().empty();
      std::string problem;
      if (is_timed_rank()) {
        scenario_->begin_visit();
        scenario_->fill_buffers(seed);
        ctx_.synchronized_start->wait();
        scenario_->run_timed(metric_values_);
        auto arrived = scenario_->received_data();
        if (ctx_.plan.corrupts_received_data && !arrived.empty()) arrived[arrived.size() / 2] ^= std::byte{0x40};
        problem = scenario_->check_received_data(seed);
        scenario_->end_visit();
      } else {
        scenario_->run_background_load();
      }
      int failing_rank = problem.empty() ? ctx_.num_world_ranks : ctx_.world_rank;
      MPI_Allreduce(MPI_IN_PLACE, &failing_rank, 1, MPI_INT, MPI_MIN, ctx_.world_comm);
      if (failing_rank < ctx_.num_world_ranks) throw_sanity_failure(i, failing_rank, problem);
      data_[i].sanity_check_s = to_seconds(now() - begin);
      data_[i].has_passed_sanity_check = true;
    }
  }

  // Broadcasts the error text of the failing rank, since only rank 0 has the output file. Throws Failure("sanity") on
  // all ranks.
  void throw_sanity_failure(std::size_t index, int failed_rank, std::string problem) {
    problem.resize(200, ' ');
    MPI_Bcast(problem.data(), 200, MPI_CHAR, failed_rank, ctx_.world_comm);
    problem.erase(problem.find_last_not_of(' ') + 1);
    throw Failure("sanity", spec_.info.name + " " + format_parameters(cases_[index]) + ": rank " +
                                std::to_string(failed_rank) + ": " + problem);
  }

  void report_cases() {
    Reporter reporter(ctx_, spec_, emit_);
    for (std::size_t i = 0; i < cases_.size(); ++i) {
      int measured = static_cast<int>(data_[i].samples[0].size());
      MPI_Bcast(&measured, 1, MPI_INT, 0, ctx_.world_comm);
      if (measured > 0 && is_timed_rank()) reporter.report_case(cases_[i], data_[i], counters_.events());
    }
    reporter.report_unsupported(counters_.events(), scenario_->unsupported_cases());
    report_end(reporter);
  }

  // Reports unmeasured cases as missing, unless the user has interrupted the probe, since a resumed probe measures
  // them. Only rank 0 knows which cases were measured.
  void report_end(Reporter& reporter) {
    int num_unmeasured = 0;
    for (std::size_t i = 0; i < cases_.size() && !is_interrupted_; ++i) {
      if (!is_case_requested_[i] || !data_[i].samples[0].empty()) continue;
      reporter.report_unmeasured_case(cases_[i]);
      ++num_unmeasured;
    }
    JsonObject line;
    line.add("type", "scenario_end").add("scenario", spec_.info.name).add("cut", is_interrupted_ || num_unmeasured > 0);
    emit_.write_line(line.add("missed", num_unmeasured));
  }
};

}  // namespace

bool is_stop_requested(const Context& ctx) {
  struct stat unused;
  return !ctx.plan.stop_file.empty() && stat(ctx.plan.stop_file.c_str(), &unused) == 0;
}

void run_scenario(Context& ctx, const Spec& spec, double budget_s, double limit_s, Emitter& emit) {
  try {
    ScenarioRun(ctx, spec, emit).run(budget_s, limit_s);
  } catch (const Unavailable& reason) {
    emit.write_line(JsonObject().add("type", "skipped").add("scenario", spec.info.name).add("reason", reason.what()));
  }
}

}  // namespace nearfield::probe
