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

enum class Task : int { measure, count_events, sample_state, end };

struct Command {
  Task task;
  int index;  // index of the case
  int repetitions;
};

constexpr Seconds visit_s = 2e-3;  // target duration of a visit to a case
constexpr int max_repetitions = 16;
constexpr std::size_t min_visits = 12;           // a machine's speed varies over time
constexpr std::size_t min_reported_samples = 6;  // a 95 % confidence interval needs this many samples

class Run {
 public:
  Run(Context& ctx, const Spec& spec, Emitter& emit)
      : ctx_(ctx), spec_(spec), emit_(emit), scenario_(spec.make(ctx)), cases_(scenario_->cases()) {
    values_.resize(spec.info.metrics.size());
    data_.resize(cases_.size());
    for (auto& data : data_) data.samples.resize(spec.info.metrics.size());
    for (const Parameters& parameters : cases_) wanted_.push_back(is_wanted(parameters));
    if (!cases_.empty() && wanted() == 0) throw Failure("plan", "'only' leaves no case of " + spec.info.name);
  }

  void run(Seconds budget, Seconds limit) {
    limit_ = limit;
    progress(0);
    check_sanity(1, limit / 2);
    if (ctx_.world_rank == 0)
      run_coordinator(budget);
    else
      run_worker();
    check_sanity(2, limit);
    report();
  }

 private:
  Context& ctx_;
  const Spec& spec_;
  Emitter& emit_;
  std::unique_ptr<Scenario> scenario_;
  std::vector<Parameters> cases_;
  std::vector<CaseData> data_;
  std::vector<bool> wanted_;    // by case; false: the plan's filters exclude the case
  std::vector<double> values_;  // results of the last body(), by metric
  Places places_;               // core-to-core latencies of the visits; rank 0 only
  Counters counters_;
  bool has_states_ = false;
  bool interrupted_ = false;  // rank 0: the user has requested the end
  double share_ = 0;          // completed share of the measurement, as last reported
  Ticks shown_ = 0;
  const Ticks begin_ = now();
  Seconds limit_ = 0;  // time after begin_ at which no task is started any more; rank 0 only

  bool timed() const { return ctx_.timed != MPI_COMM_NULL; }
  Seconds seconds(Ticks ticks) const { return static_cast<double>(ticks) / ctx_.ticks_per_ns * 1e-9; }

  // ---- rank 0
  Seconds elapsed() const { return seconds(now() - begin_); }

  bool is_wanted(const Parameters& parameters) const {
    return std::all_of(ctx_.plan.only.begin(), ctx_.plan.only.end(), [&](const Only& only) {
      return only.scenario != spec_.info.name || has_value(parameters, only.parameter, only.values);
    });
  }
  std::size_t wanted() const { return static_cast<std::size_t>(std::count(wanted_.begin(), wanted_.end(), true)); }

  // Returns whether a task of this duration would end after `limit` (measured from begin_), or the user has requested
  // the end.
  bool is_over(Seconds limit, Seconds duration) {
    interrupted_ = interrupted_ || stop_requested(ctx_);
    return interrupted_ || elapsed() + duration > limit;
  }

  void run_coordinator(Seconds budget) {
    const Seconds begin = elapsed();
    std::vector<int> order(cases_.size());
    std::iota(order.begin(), order.end(), 0);
    std::mt19937 random(20121105);
    Seconds reported = -1;
    for (bool active = !order.empty(); active && !interrupted_;) {
      active = false;
      std::shuffle(order.begin(), order.end(), random);
      for (const int index : order) {
        const Seconds spent = elapsed() - begin;
        if (!wants_visit(index, budget, spent > budget) || is_over(limit_, each(index))) continue;
        active = true;
        broadcast_visit(index);
        if (spent - reported > 0.2) {
          reported = spent;
          progress(std::min({1.0, spent / budget, share_reached()}));
        }
      }
    }
    if (!ctx_.plan.oversubscribed) examine_cases();
    command({Task::end, 0, 0});
  }

  // Verifies the cache states of buffers and counts hardware and software events. Runs after all timed repetitions,
  // because it would disturb them.
  void examine_cases() {
    for (int i = 0; i < static_cast<int>(cases_.size()); ++i) {
      const CaseData& data = data_[static_cast<std::size_t>(i)];
      if (data.samples[0].empty() || is_over(limit_, each(i))) continue;
      const bool slow = data.spent > 0.01 * static_cast<double>(data.samples[0].size());
      send_keepalive();
      if (has_states_) command({Task::sample_state, i, slow ? 1 : 8});
      command({Task::count_events, i, slow ? 1 : 3});
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
    const Seconds fair = budget / static_cast<double>(wanted());
    if (data.spent > 4 * fair) return false;
    return true;
  }

  // Returns the completed share (0 to 1) of the `min_reported_samples` repetitions that every case gets even if the
  // budget is used up.
  double share_reached() const {
    std::size_t reached = 0;
    for (const CaseData& data : data_) reached += std::min<std::size_t>(data.samples[0].size(), min_reported_samples);
    return static_cast<double>(reached) / static_cast<double>(min_reported_samples * wanted());
  }

  // Returns the mean duration of one repetition; before the first repetition, the duration of the sanity check.
  Seconds each(int index) const {
    const CaseData& data = data_[static_cast<std::size_t>(index)];
    const auto n = data.samples[0].size();
    return n == 0 ? data.sanity : data.spent / static_cast<double>(n);
  }

  void broadcast_visit(int index) {
    CaseData& data = data_[static_cast<std::size_t>(index)];
    const bool is_first = data.samples[0].empty();
    const int repetitions = is_first ? 1 : std::clamp(static_cast<int>(visit_s / each(index)), 1, max_repetitions);
    const Ticks begin = now();
    command({Task::measure, index, repetitions});
    data.spent += seconds(now() - begin);
    const auto deciding = deciding_samples(data);
    if (data.visits.back() + 1 >= min_visits &&
        static_cast<std::int64_t>(deciding.size()) >= std::max<std::int64_t>(ctx_.plan.min_samples, 21))
      data.done = is_stable(median_estimate(deciding, ctx_.resolution_ticks), ctx_.plan.tolerance);
  }

  // Returns the samples that decide whether a case is precise: those of the last metric in ns that this rank measures
  // (the time of the whole operation), without repetitions under CPU interference or at another placement of the cores
  // than the usual one.
  std::vector<double> deciding_samples(const CaseData& data) const {
    std::size_t deciding = 0;
    for (std::size_t m = 0; m < spec_.info.metrics.size(); ++m)
      if (spec_.info.metrics[m].unit == "ns" && !std::isnan(data.samples[m].back())) deciding = m;
    std::vector<double> samples;
    for (std::size_t i = 0; i < data.interference.size(); ++i)
      if (ctx_.interference.slowdown(data.interference[i]) <= CpuInterference::max_slowdown &&
          places_.is_usual(data.latencies[i]))
        samples.push_back(data.samples[deciding][i]);
    return samples;
  }

  // Emits a progress line if the last one is older than 1 s: the Python controller considers a silent launch dead.
  void send_keepalive() {
    if (ctx_.world_rank == 0 && seconds(now() - shown_) > 1.0) progress(share_);
  }

  void progress(double share) {
    share_ = share;
    shown_ = now();
    emit_.line(JsonObject().add("type", "progress").add("scenario", spec_.info.name).add("share", share));
  }

  void command(Command what) {
    MPI_Bcast(&what, sizeof what, MPI_BYTE, 0, ctx_.world);
    if (what.task != Task::end) execute(what);
  }

  // ---- all ranks
  void run_worker() {
    for (;;) {
      Command what;
      MPI_Bcast(&what, sizeof what, MPI_BYTE, 0, ctx_.world);
      if (what.task == Task::end) return;
      execute(what);
    }
  }

  void execute(const Command& what) {
    scenario_->select(static_cast<std::size_t>(what.index));
    if (!timed()) return scenario_->background();
    scenario_->begin_visit();
    CaseData& data = data_[static_cast<std::size_t>(what.index)];
    const double latency = what.task == Task::measure ? core_latency_ticks() : 0;
    if (what.task == Task::measure && scenario_->stated().empty()) warm_up();
    const double before = ctx_.interference.read();
    for (int i = 0; i < what.repetitions; ++i) {
      if (what.task == Task::measure) measure(data);
      if (what.task == Task::count_events) count_events(data);
      if (what.task == Task::sample_state) sample_states(data);
    }
    const double reading = std::max(before, ctx_.interference.read());
    data.interference.resize(data.samples[0].size(), reading);
    data.visits.resize(data.samples[0].size(), data.visits.empty() ? 0 : data.visits.back() + 1);
    if (what.task == Task::measure) {
      const double visited = latency_of_visit(latency, core_latency_ticks());
      data.latencies.resize(data.samples[0].size(), visited);
      places_.add(visited);
    }
    scenario_->end_visit();
  }

  // Returns the current core-to-core latency between the two ranks in ticks, on rank 0. Returns 0 if the launch has
  // more than two ranks or is oversubscribed.
  double core_latency_ticks() {
    return ctx_.size == 2 && !ctx_.plan.oversubscribed ? ctx_.start->measure_core_latency_ticks() : 0.0;
  }

  // The caches hold data of the previous case. Where prepare() does not establish a cache state, one discarded
  // repetition warms the caches.
  void warm_up() {
    scenario_->prepare();
    ctx_.start->wait();
    scenario_->body(values_);
  }

  void measure(CaseData& data) {
    scenario_->prepare();
    data.starts.push_back(static_cast<double>(ctx_.start->wait()));
    scenario_->body(values_);
    for (std::size_t m = 0; m < spec_.info.metrics.size(); ++m) data.samples[m].push_back(values_[m]);
  }

  void count_events(CaseData& data) {
    scenario_->prepare();
    ctx_.start->wait();
    counters_.start();
    scenario_->body(values_);
    const auto counts = counters_.stop();
    data.events.resize(counts.size());
    for (std::size_t i = 0; i < counts.size(); ++i) data.events[i] += counts[i];
    ++data.counted;
  }

  void sample_states(CaseData& data) {
    scenario_->prepare();
    ctx_.start->wait();
    for (const auto& buffer : scenario_->stated()) {
      data.state = buffer.state;
      data.sampled += sample_lines(buffer.memory, buffer.state, ctx_.line_bytes(), ctx_.latencies);
    }
  }

  // ---- sanity checks
  // The check at the end skips cases whose first check took more than 10 ms.
  void check_sanity(unsigned seed, Seconds limit) {
    constexpr Seconds slow = 0.01;
    for (std::size_t i = 0; i < cases_.size(); ++i) {
      int skip = !wanted_[i] || data_[i].sanity > slow || (ctx_.world_rank == 0 && is_over(limit, 0));
      MPI_Bcast(&skip, 1, MPI_INT, 0, ctx_.world);
      if (skip) continue;
      send_keepalive();
      const Ticks begin = now();
      scenario_->select(i);
      has_states_ = has_states_ || !scenario_->stated().empty();
      std::string problem;
      if (timed()) {
        scenario_->begin_visit();
        scenario_->fill(seed);
        ctx_.start->wait();
        scenario_->body(values_);
        auto arrived = scenario_->arrived();
        if (ctx_.plan.corrupt && !arrived.empty()) arrived[arrived.size() / 2] ^= std::byte{0x40};
        problem = scenario_->problem(seed);
        scenario_->end_visit();
      } else {
        scenario_->background();
      }
      int failed = problem.empty() ? ctx_.world_size : ctx_.world_rank;
      MPI_Allreduce(MPI_IN_PLACE, &failed, 1, MPI_INT, MPI_MIN, ctx_.world);
      if (failed < ctx_.world_size) sanity_failed(i, failed, problem);
      data_[i].sanity = seconds(now() - begin);
      data_[i].checked = true;
    }
  }

  // Broadcasts the error text of the failing rank, since only rank 0 has the output file. Throws Failure("sanity") on
  // all ranks.
  void sanity_failed(std::size_t index, int failed_rank, std::string problem) {
    problem.resize(200, ' ');
    MPI_Bcast(problem.data(), 200, MPI_CHAR, failed_rank, ctx_.world);
    problem.erase(problem.find_last_not_of(' ') + 1);
    throw Failure("sanity", spec_.info.name + " " + describe(cases_[index]) + ": rank " + std::to_string(failed_rank) +
                                ": " + problem);
  }

  void report() {
    Reporter reporter(ctx_, spec_, emit_);
    for (std::size_t i = 0; i < cases_.size(); ++i) {
      int measured = static_cast<int>(data_[i].samples[0].size());
      MPI_Bcast(&measured, 1, MPI_INT, 0, ctx_.world);
      if (measured > 0 && timed()) reporter.report_case(cases_[i], data_[i], counters_.events());
    }
    reporter.report_missing(counters_.events(), scenario_->missing());
    report_end(reporter);
  }

  // Only rank 0 knows which cases were measured. After an interrupt by the user, unmeasured cases are not reported as
  // missing, since a resumed probe measures them.
  void report_end(Reporter& reporter) {
    int missed = 0;
    for (std::size_t i = 0; i < cases_.size() && !interrupted_; ++i) {
      if (!wanted_[i] || !data_[i].samples[0].empty()) continue;
      reporter.report_missed(cases_[i]);
      ++missed;
    }
    JsonObject line;
    line.add("type", "scenario_end").add("scenario", spec_.info.name).add("cut", interrupted_ || missed > 0);
    emit_.line(line.add("missed", missed));
  }
};

}  // namespace

bool stop_requested(const Context& ctx) {
  struct stat unused;
  return !ctx.plan.stop_file.empty() && stat(ctx.plan.stop_file.c_str(), &unused) == 0;
}

void run_scenario(Context& ctx, const Spec& spec, double budget_s, double limit_s, Emitter& emit) {
  try {
    Run(ctx, spec, emit).run(budget_s, limit_s);
  } catch (const Unavailable& reason) {
    emit.line(JsonObject().add("type", "skipped").add("scenario", spec.info.name).add("reason", reason.what()));
  }
}

}  // namespace nearfield::probe
