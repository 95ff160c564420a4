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

constexpr Seconds visit_s = 2e-3;  // target duration of a visit to a case
constexpr int max_repetitions = 16;
constexpr std::size_t min_visits = 12;           // a machine's speed varies over time
constexpr std::size_t min_reported_samples = 6;  // a 95 % confidence interval needs this many samples

class ScenarioRun {
 public:
  ScenarioRun(Context& ctx, const Spec& spec, Emitter& emit)
      : ctx_(ctx), spec_(spec), emit_(emit), scenario_(spec.make(ctx)), cases_(scenario_->cases()) {
    values_.resize(spec.info.metrics.size());
    data_.resize(cases_.size());
    for (auto& data : data_) data.samples.resize(spec.info.metrics.size());
    for (const Parameters& parameters : cases_) requested_.push_back(is_requested(parameters));
    if (!cases_.empty() && requested_case_count() == 0)
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
  std::vector<bool> requested_;       // by case; false: the plan's filters exclude the case
  std::vector<double> values_;        // results of the last run_timed(), by metric
  LatencyHistogram visit_latencies_;  // core-to-core latencies of the visits; rank 0 only
  EventCounters counters_;
  bool has_states_ = false;
  bool interrupted_ = false;  // rank 0: the user has requested the end
  double share_ = 0;          // completed share of the measurement, as last reported
  Ticks shown_ = 0;
  const Ticks begin_ticks_ = now();
  Seconds limit_s_ = 0;  // time after begin_ticks_ at which no task is started any more; rank 0 only

  bool is_timed_rank() const { return ctx_.timed != MPI_COMM_NULL; }
  Seconds to_seconds(Ticks ticks) const { return static_cast<double>(ticks) / ctx_.ticks_per_ns * 1e-9; }

  // ---- rank 0
  Seconds elapsed_seconds() const { return to_seconds(now() - begin_ticks_); }

  bool is_requested(const Parameters& parameters) const {
    return std::all_of(ctx_.plan.filters.begin(), ctx_.plan.filters.end(), [&](const CaseFilter& only) {
      return only.scenario != spec_.info.name || has_parameter_value(parameters, only.parameter, only.values);
    });
  }
  std::size_t requested_case_count() const {
    return static_cast<std::size_t>(std::count(requested_.begin(), requested_.end(), true));
  }

  // Returns whether a task of this duration would end after `limit` (measured from begin_ticks_), or the user has
  // requested the end.
  bool is_out_of_time(Seconds limit, Seconds duration) {
    interrupted_ = interrupted_ || stop_requested(ctx_);
    return interrupted_ || elapsed_seconds() + duration > limit;
  }

  void run_coordinator(Seconds budget) {
    const Seconds begin = elapsed_seconds();
    std::vector<int> order(cases_.size());
    std::iota(order.begin(), order.end(), 0);
    std::mt19937 random(20121105);
    Seconds reported = -1;
    for (bool active = !order.empty(); active && !interrupted_;) {
      active = false;
      std::shuffle(order.begin(), order.end(), random);
      for (const int index : order) {
        const Seconds spent = elapsed_seconds() - begin;
        if (!wants_visit(index, budget, spent > budget) || is_out_of_time(limit_s_, seconds_per_repetition(index)))
          continue;
        active = true;
        broadcast_visit(index);
        if (spent - reported > 0.2) {
          reported = spent;
          emit_progress(std::min({1.0, spent / budget, share_of_min_samples()}));
        }
      }
    }
    if (!ctx_.plan.oversubscribed) examine_cases();
    broadcast_command({CommandKind::end, 0, 0});
  }

  // Verifies the cache states of buffers and counts hardware and software events. Runs after all timed repetitions,
  // because it would disturb them.
  void examine_cases() {
    for (int i = 0; i < static_cast<int>(cases_.size()); ++i) {
      const CaseData& data = data_[static_cast<std::size_t>(i)];
      if (data.samples[0].empty() || is_out_of_time(limit_s_, seconds_per_repetition(i))) continue;
      const bool slow = data.spent > 0.01 * static_cast<double>(data.samples[0].size());
      send_keepalive();
      if (has_states_) broadcast_command({CommandKind::sample_state, i, slow ? 1 : 8});
      broadcast_command({CommandKind::count_events, i, slow ? 1 : 3});
    }
  }

  // Returns whether a case needs another visit: its median is not precise yet, and it has used less than four times its
  // fair share of the budget. Until a case has `min_reported_samples`, the budget does not count.
  bool wants_visit(int index, Seconds budget, bool out_of_time) {
    const CaseData& data = data_[static_cast<std::size_t>(index)];
    if (data.done || !data.checked) return false;
    const auto n = static_cast<std::int64_t>(data.samples[0].size());
    if (n < ctx_.plan.min_samples) return !out_of_time || n < std::int64_t{min_reported_samples};
    if (out_of_time) return false;
    const Seconds fair = budget / static_cast<double>(requested_case_count());
    if (data.spent > 4 * fair) return false;
    return true;
  }

  // Returns the completed share (0 to 1) of the `min_reported_samples` repetitions that every case gets even if the
  // budget is used up.
  double share_of_min_samples() const {
    std::size_t reached = 0;
    for (const CaseData& data : data_) reached += std::min<std::size_t>(data.samples[0].size(), min_reported_samples);
    return static_cast<double>(reached) / static_cast<double>(min_reported_samples * requested_case_count());
  }

  // Returns the mean duration of one repetition; before the first repetition, the duration of the sanity check.
  Seconds seconds_per_repetition(int index) const {
    const CaseData& data = data_[static_cast<std::size_t>(index)];
    const auto n = data.samples[0].size();
    return n == 0 ? data.sanity : data.spent / static_cast<double>(n);
  }

  void broadcast_visit(int index) {
    CaseData& data = data_[static_cast<std::size_t>(index)];
    const bool is_first = data.samples[0].empty();
    const int repetitions =
        is_first ? 1 : std::clamp(static_cast<int>(visit_s / seconds_per_repetition(index)), 1, max_repetitions);
    const Ticks begin = now();
    broadcast_command({CommandKind::measure, index, repetitions});
    data.spent += to_seconds(now() - begin);
    const auto deciding = samples_for_precision(data);
    if (data.visits.back() + 1 >= min_visits &&
        static_cast<std::int64_t>(deciding.size()) >= std::max<std::int64_t>(ctx_.plan.min_samples, 21))
      data.done = is_stable(median_estimate(deciding, ctx_.resolution_ticks), ctx_.plan.tolerance);
  }

  // Returns the samples that decide whether a case is precise: those of the last metric in ns that this rank measures
  // (the time of the whole operation), without repetitions under CPU interference or at another placement of the cores
  // than the usual one.
  std::vector<double> samples_for_precision(const CaseData& data) const {
    std::size_t deciding = 0;
    for (std::size_t m = 0; m < spec_.info.metrics.size(); ++m)
      if (spec_.info.metrics[m].unit == "ns" && !std::isnan(data.samples[m].back())) deciding = m;
    std::vector<double> samples;
    for (std::size_t i = 0; i < data.interference.size(); ++i)
      if (ctx_.interference.slowdown(data.interference[i]) <= CpuInterference::max_slowdown &&
          visit_latencies_.is_usual_latency(data.latencies[i]))
        samples.push_back(data.samples[deciding][i]);
    return samples;
  }

  // Emits a progress line if the last one is older than 1 s: the Python controller considers a silent launch dead.
  void send_keepalive() {
    if (ctx_.world_rank == 0 && to_seconds(now() - shown_) > 1.0) emit_progress(share_);
  }

  void emit_progress(double share) {
    share_ = share;
    shown_ = now();
    emit_.write_line(JsonObject().add("type", "progress").add("scenario", spec_.info.name).add("share", share));
  }

  void broadcast_command(Command what) {
    MPI_Bcast(&what, sizeof what, MPI_BYTE, 0, ctx_.world);
    if (what.kind != CommandKind::end) execute_command(what);
  }

  // ---- all ranks
  void run_worker() {
    for (;;) {
      Command what;
      MPI_Bcast(&what, sizeof what, MPI_BYTE, 0, ctx_.world);
      if (what.kind == CommandKind::end) return;
      execute_command(what);
    }
  }

  void execute_command(const Command& what) {
    scenario_->select_case(static_cast<std::size_t>(what.index));
    if (!is_timed_rank()) return scenario_->run_background_load();
    scenario_->begin_visit();
    CaseData& data = data_[static_cast<std::size_t>(what.index)];
    const double latency = what.kind == CommandKind::measure ? core_latency_ticks() : 0;
    if (what.kind == CommandKind::measure && scenario_->stated_buffers().empty()) warm_up_caches();
    const double before = ctx_.interference.read();
    for (int i = 0; i < what.repetitions; ++i) {
      if (what.kind == CommandKind::measure) measure_repetition(data);
      if (what.kind == CommandKind::count_events) count_events(data);
      if (what.kind == CommandKind::sample_state) sample_states(data);
    }
    const double reading = std::max(before, ctx_.interference.read());
    data.interference.resize(data.samples[0].size(), reading);
    data.visits.resize(data.samples[0].size(), data.visits.empty() ? 0 : data.visits.back() + 1);
    if (what.kind == CommandKind::measure) {
      const double visited = latency_of_visit(latency, core_latency_ticks());
      data.latencies.resize(data.samples[0].size(), visited);
      visit_latencies_.add_visit(visited);
    }
    scenario_->end_visit();
  }

  // Returns the current core-to-core latency between the two ranks in ticks, on rank 0. Returns 0 if the launch has
  // more than two ranks or is oversubscribed.
  double core_latency_ticks() {
    return ctx_.size == 2 && !ctx_.plan.oversubscribed ? ctx_.start->measure_core_latency_ticks() : 0.0;
  }

  // The caches hold data of the previous case. Where prepare_repetition() does not establish a cache state, one
  // discarded repetition warms the caches.
  void warm_up_caches() {
    scenario_->prepare_repetition();
    ctx_.start->wait();
    scenario_->run_timed(values_);
  }

  void measure_repetition(CaseData& data) {
    scenario_->prepare_repetition();
    data.starts.push_back(static_cast<double>(ctx_.start->wait()));
    scenario_->run_timed(values_);
    for (std::size_t m = 0; m < spec_.info.metrics.size(); ++m) data.samples[m].push_back(values_[m]);
  }

  void count_events(CaseData& data) {
    scenario_->prepare_repetition();
    ctx_.start->wait();
    counters_.start();
    scenario_->run_timed(values_);
    const auto counts = counters_.stop();
    data.events.resize(counts.size());
    for (std::size_t i = 0; i < counts.size(); ++i) data.events[i] += counts[i];
    ++data.counted;
  }

  void sample_states(CaseData& data) {
    scenario_->prepare_repetition();
    ctx_.start->wait();
    for (const auto& buffer : scenario_->stated_buffers()) {
      data.state = buffer.state;
      data.sampled += sample_lines(buffer.memory, buffer.state, ctx_.line_bytes(), ctx_.latencies);
    }
  }

  // ---- sanity checks
  // The check at the end skips cases whose first check took more than 10 ms.
  void check_sanity(unsigned seed, Seconds limit) {
    constexpr Seconds slow = 0.01;
    for (std::size_t i = 0; i < cases_.size(); ++i) {
      int skip = !requested_[i] || data_[i].sanity > slow || (ctx_.world_rank == 0 && is_out_of_time(limit, 0));
      MPI_Bcast(&skip, 1, MPI_INT, 0, ctx_.world);
      if (skip) continue;
      send_keepalive();
      const Ticks begin = now();
      scenario_->select_case(i);
      has_states_ = has_states_ || !scenario_->stated_buffers().empty();
      std::string problem;
      if (is_timed_rank()) {
        scenario_->begin_visit();
        scenario_->fill_buffers(seed);
        ctx_.start->wait();
        scenario_->run_timed(values_);
        auto arrived = scenario_->received_data();
        if (ctx_.plan.corrupt && !arrived.empty()) arrived[arrived.size() / 2] ^= std::byte{0x40};
        problem = scenario_->check_received_data(seed);
        scenario_->end_visit();
      } else {
        scenario_->run_background_load();
      }
      int failed = problem.empty() ? ctx_.world_size : ctx_.world_rank;
      MPI_Allreduce(MPI_IN_PLACE, &failed, 1, MPI_INT, MPI_MIN, ctx_.world);
      if (failed < ctx_.world_size) throw_sanity_failure(i, failed, problem);
      data_[i].sanity = to_seconds(now() - begin);
      data_[i].checked = true;
    }
  }

  // Broadcasts the error text of the failing rank, since only rank 0 has the output file. Throws Failure("sanity") on
  // all ranks.
  void throw_sanity_failure(std::size_t index, int failed_rank, std::string problem) {
    problem.resize(200, ' ');
    MPI_Bcast(problem.data(), 200, MPI_CHAR, failed_rank, ctx_.world);
    problem.erase(problem.find_last_not_of(' ') + 1);
    throw Failure("sanity", spec_.info.name + " " + parameters_text(cases_[index]) + ": rank " +
                                std::to_string(failed_rank) + ": " + problem);
  }

  void report_cases() {
    Reporter reporter(ctx_, spec_, emit_);
    for (std::size_t i = 0; i < cases_.size(); ++i) {
      int measured = static_cast<int>(data_[i].samples[0].size());
      MPI_Bcast(&measured, 1, MPI_INT, 0, ctx_.world);
      if (measured > 0 && is_timed_rank()) reporter.report_case(cases_[i], data_[i], counters_.events());
    }
    reporter.report_unsupported(counters_.events(), scenario_->unsupported_cases());
    report_end(reporter);
  }

  // Only rank 0 knows which cases were measured. After an interrupt by the user, unmeasured cases are not reported as
  // missing, since a resumed probe measures them.
  void report_end(Reporter& reporter) {
    int missed = 0;
    for (std::size_t i = 0; i < cases_.size() && !interrupted_; ++i) {
      if (!requested_[i] || !data_[i].samples[0].empty()) continue;
      reporter.report_unmeasured(cases_[i]);
      ++missed;
    }
    JsonObject line;
    line.add("type", "scenario_end").add("scenario", spec_.info.name).add("cut", interrupted_ || missed > 0);
    emit_.write_line(line.add("missed", missed));
  }
};

}  // namespace

bool stop_requested(const Context& ctx) {
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
