#include "probe/reporter.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <span>

namespace nearfield::probe {

std::string format_parameters(const Parameters& parameters) {
  std::string text;
  for (const auto& [name, value] : parameters) {
    text += (text.empty() ? "" : " ") + name + "=";
    text += std::holds_alternative<std::string>(value) ? std::get<std::string>(value)
                                                       : std::to_string(std::get<std::int64_t>(value));
  }
  return text;
}

JsonObject parameters_to_json(const Parameters& parameters) {
  JsonObject object;
  for (const auto& [name, value] : parameters) {
    if (const auto* text = std::get_if<std::string>(&value))
      object.add(name, *text);
    else
      object.add(name, std::get<std::int64_t>(value));
  }
  return object;
}

void Reporter::report_case(const Parameters& parameters, const CaseData& data,
                           const std::vector<EventCounters::Event>& events) {
  parameters_ = &parameters;
  data_ = &data;
  gather_slowdowns();
  for (std::size_t m = 0; m < spec_.info.metrics.size(); ++m) report_metric(m);
  report_skew();
  report_cache_state_verdicts();
  report_events(events);
}

JsonObject Reporter::line_header(const char* type, const std::string& metric, const std::string& unit,
                                 const Parameters& parameters) const {
  JsonObject line;
  line.add("type", type).add("scenario", spec_.info.name).add("metric", metric).add("unit", unit);
  return line.add_raw("parameters", parameters_to_json(parameters).str());
}

std::vector<double> Reporter::convert_ticks_to_unit(std::vector<double> samples, const std::string& unit) const {
  if (unit == "ns")
    for (double& value : samples) value /= ctx_.ticks_per_ns;
  return samples;
}

void Reporter::gather_slowdowns() {
  slowdown_by_repetition_.clear();
  for (const double reading : data_->interference_ticks)
    slowdown_by_repetition_.push_back(ctx_.interference.slowdown(reading));
  auto own_samples = slowdown_by_repetition_;
  MPI_Reduce(own_samples.data(), slowdown_by_repetition_.data(), static_cast<int>(own_samples.size()), MPI_DOUBLE,
             MPI_MAX, 0, ctx_.timed_comm);
}

void Reporter::report_metric(std::size_t metric_index) {
  const MetricInfo& metric = spec_.info.metrics[metric_index];
  auto own_samples = convert_ticks_to_unit(data_->samples[metric_index], metric.unit);
  const int n = static_cast<int>(own_samples.size());
  if (metric.combine == Combine::slowest) {
    MPI_Reduce(ctx_.rank == 0 ? MPI_IN_PLACE : own_samples.data(), own_samples.data(), n, MPI_DOUBLE, MPI_MAX, 0,
               ctx_.timed_comm);
  }
  emit_samples(metric, "", own_samples);
  if (metric.combine == Combine::sides) emit_samples(metric, "receiver", fetch_receiver_samples(own_samples));
}

std::vector<double> Reporter::fetch_receiver_samples(std::vector<double> own_samples) const {
  const int n = static_cast<int>(own_samples.size());
  if (ctx_.rank == 1) MPI_Send(own_samples.data(), n, MPI_DOUBLE, 0, 1, ctx_.timed_comm);
  if (ctx_.rank == 0) MPI_Recv(own_samples.data(), n, MPI_DOUBLE, 1, 1, ctx_.timed_comm, MPI_STATUS_IGNORE);
  return own_samples;
}

void Reporter::emit_samples(const MetricInfo& metric, std::string side, const std::vector<double>& samples) {
  if (side.empty() && metric.combine == Combine::sides) side = "sender";
  if (std::all_of(samples.begin(), samples.end(), [](double v) { return std::isnan(v); })) return;
  // Repetitions under CPU interference are listed separately.
  std::vector<double> undisturbed, disturbed, visits, latencies;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const bool is_undisturbed = slowdown_by_repetition_[i] <= CpuInterference::max_undisturbed_slowdown;
    (is_undisturbed ? undisturbed : disturbed).push_back(samples[i]);
    if (!is_undisturbed) continue;
    visits.push_back(static_cast<double>(data_->visit_numbers[i]));
    latencies.push_back(data_->core_latency_ticks[i] / ctx_.ticks_per_ns);
  }
  JsonObject line = line_header("samples", metric.name, metric.unit, *parameters_);
  if (!side.empty()) line.add("side", side);
  line.add("samples", std::span<const double>(undisturbed)).add("visits", std::span<const double>(visits));
  const bool has_latencies = std::any_of(latencies.begin(), latencies.end(), [](double one) { return one != 0; });
  if (has_latencies) line.add("c2c_latencies", std::span<const double>(latencies));
  emit_.write_line(line.add("disturbed", std::span<const double>(disturbed)));
}

// Reports, for each repetition, the time between the starts of the first and the last rank in ns.
void Reporter::report_skew() {
  if (ctx_.num_ranks < 2 || !ctx_.synchronized_start->has_shared_memory()) return;
  auto starts = data_->start_ticks;
  for (double& start : starts) start -= ctx_.synchronized_start->clock_offset_ticks();
  auto last = starts;
  const int n = static_cast<int>(starts.size());
  MPI_Reduce(starts.data(), last.data(), n, MPI_DOUBLE, MPI_MAX, 0, ctx_.timed_comm);
  auto first = starts;
  MPI_Reduce(starts.data(), first.data(), n, MPI_DOUBLE, MPI_MIN, 0, ctx_.timed_comm);
  for (std::size_t i = 0; i < last.size(); ++i) last[i] -= first[i];
  const MetricInfo skew{"start_skew", "ns", Combine::root, ""};
  emit_samples(skew, "", convert_ticks_to_unit(last, "ns"));
}

// Each rank verifies the cache states of its buffers by its own calibrated latencies; rank 0 writes the verdicts of
// ranks 0 and 1.
void Reporter::report_cache_state_verdicts() {
  const CaseData& data = *data_;
  if (data.expected_cache_state.empty()) return;
  const LineSamples& samples = data.line_samples;
  const double num_loads = std::max(samples.num_timed_loads, 1.0),
               num_flushes = samples.num_timed_flushes > 0 ? samples.num_timed_flushes : std::nan("");
  struct {
    char verdict[16];
    double cached, dirty, latency_ns;
  } own_verdict{"", samples.num_cached / num_loads, samples.num_dirty / num_flushes,
                samples.latency_ticks / num_loads / ctx_.ticks_per_ns};
  std::snprintf(own_verdict.verdict, sizeof own_verdict.verdict, "%s",
                judge_cache_state(samples, data.expected_cache_state, ctx_.line_latencies));
  std::vector<decltype(own_verdict)> verdicts(static_cast<std::size_t>(ctx_.num_ranks));
  MPI_Gather(&own_verdict, sizeof own_verdict, MPI_BYTE, verdicts.data(), sizeof own_verdict, MPI_BYTE, 0,
             ctx_.timed_comm);
  if (ctx_.rank != 0) return;
  for (std::size_t r = 0; r < std::min<std::size_t>(verdicts.size(), 2); ++r) {
    JsonObject line = line_header("state", "verdict", "", *parameters_);
    line.add("side", r == 0 ? "sender" : "receiver").add("verdict", verdicts[r].verdict);
    emit_.write_line(line.add("cached", verdicts[r].cached)
                         .add("dirty", verdicts[r].dirty)
                         .add("latency_ns", verdicts[r].latency_ns));
  }
}

void Reporter::report_events(const std::vector<EventCounters::Event>& events) {
  const CaseData& data = *data_;
  if (data.num_counted_repetitions == 0 || ctx_.rank != 0) return;
  for (std::size_t e = 0; e < data.event_counts.size(); ++e) {
    const auto& event = events[e];
    if (!event.unsupported_reason.empty()) continue;
    const double events_per_repetition = static_cast<double>(data.event_counts[e]) / data.num_counted_repetitions;
    emit_.write_line(line_header("samples", event.name, "count", *parameters_)
                         .add("side", "sender")
                         .add("samples", std::span(&events_per_repetition, 1)));
  }
}

void Reporter::report_unmeasured_case(const Parameters& parameters) {
  for (const auto& metric : spec_.info.metrics)
    emit_missing_record(metric.name, metric.unit, parameters, "not measured: the time was over");
}

void Reporter::report_unsupported(const std::vector<EventCounters::Event>& events,
                                  const std::vector<UnsupportedCase>& cases) {
  for (const auto& event : events)
    if (!event.unsupported_reason.empty()) emit_missing_record(event.name, "count", {}, event.unsupported_reason);
  for (const auto& unsupported_reason : cases) {
    const auto same_name = [&](const MetricInfo& metric) { return metric.name == unsupported_reason.metric; };
    const auto metric = std::find_if(spec_.info.metrics.begin(), spec_.info.metrics.end(), same_name);
    emit_missing_record(unsupported_reason.metric, metric->unit, unsupported_reason.parameters,
                        unsupported_reason.reason);
  }
}

void Reporter::emit_missing_record(const std::string& metric, const std::string& unit, const Parameters& parameters,
                                   const std::string& reason) {
  JsonObject line = line_header("missing", metric, unit, parameters);
  emit_.write_line(line.add("reason", reason));
}

}  // namespace nearfield::probe
