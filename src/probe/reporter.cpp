#include "probe/reporter.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <span>

namespace nearfield::probe {

std::string parameters_text(const Parameters& parameters) {
  std::string text;
  for (const auto& [name, value] : parameters) {
    text += (text.empty() ? "" : " ") + name + "=";
    text += std::holds_alternative<std::string>(value) ? std::get<std::string>(value)
                                                       : std::to_string(std::get<std::int64_t>(value));
  }
  return text;
}

JsonObject parameters_json(const Parameters& parameters) {
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
  report_verdicts();
  report_events(events);
}

JsonObject Reporter::line_header(const char* type, const std::string& metric, const std::string& unit,
                                 const Parameters& parameters) const {
  JsonObject line;
  line.add("type", type).add("scenario", spec_.info.name).add("metric", metric).add("unit", unit);
  return line.add_raw("parameters", parameters_json(parameters).str());
}

std::vector<double> Reporter::to_unit(std::vector<double> samples, const std::string& unit) const {
  if (unit == "ns")
    for (double& value : samples) value /= ctx_.ticks_per_ns;
  return samples;
}

void Reporter::gather_slowdowns() {
  slowdown_.clear();
  for (const double reading : data_->interference) slowdown_.push_back(ctx_.interference.slowdown(reading));
  auto mine = slowdown_;
  MPI_Reduce(mine.data(), slowdown_.data(), static_cast<int>(mine.size()), MPI_DOUBLE, MPI_MAX, 0, ctx_.timed);
}

void Reporter::report_metric(std::size_t m) {
  const MetricInfo& metric = spec_.info.metrics[m];
  auto mine = to_unit(data_->samples[m], metric.unit);
  const int n = static_cast<int>(mine.size());
  if (metric.combine == Combine::slowest) {
    MPI_Reduce(ctx_.rank == 0 ? MPI_IN_PLACE : mine.data(), mine.data(), n, MPI_DOUBLE, MPI_MAX, 0, ctx_.timed);
  }
  emit_samples(metric, "", mine);
  if (metric.combine == Combine::sides) emit_samples(metric, "receiver", fetch_receiver_samples(mine));
}

std::vector<double> Reporter::fetch_receiver_samples(std::vector<double> mine) const {
  const int n = static_cast<int>(mine.size());
  if (ctx_.rank == 1) MPI_Send(mine.data(), n, MPI_DOUBLE, 0, 1, ctx_.timed);
  if (ctx_.rank == 0) MPI_Recv(mine.data(), n, MPI_DOUBLE, 1, 1, ctx_.timed, MPI_STATUS_IGNORE);
  return mine;
}

void Reporter::emit_samples(const MetricInfo& metric, std::string side, const std::vector<double>& samples) {
  if (side.empty() && metric.combine == Combine::sides) side = "sender";
  if (std::all_of(samples.begin(), samples.end(), [](double v) { return std::isnan(v); })) return;
  // Repetitions under CPU interference go into a list of their own.
  std::vector<double> undisturbed, disturbed, visits, latencies;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const bool calm = slowdown_[i] <= CpuInterference::max_slowdown;
    (calm ? undisturbed : disturbed).push_back(samples[i]);
    if (!calm) continue;
    visits.push_back(static_cast<double>(data_->visits[i]));
    latencies.push_back(data_->latencies[i] / ctx_.ticks_per_ns);
  }
  JsonObject line = line_header("samples", metric.name, metric.unit, *parameters_);
  if (!side.empty()) line.add("side", side);
  line.add("samples", std::span<const double>(undisturbed)).add("visits", std::span<const double>(visits));
  const bool has_latencies = std::any_of(latencies.begin(), latencies.end(), [](double one) { return one != 0; });
  if (has_latencies) line.add("c2c_latencies", std::span<const double>(latencies));
  emit_.write_line(line.add("disturbed", std::span<const double>(disturbed)));
}

// Reports for each repetition how far apart the ranks started, in ns.
void Reporter::report_skew() {
  if (ctx_.size < 2 || !ctx_.start->has_shared_memory()) return;
  auto starts = data_->starts;
  for (double& start : starts) start -= ctx_.start->clock_offset_ticks();
  auto last = starts;
  const int n = static_cast<int>(starts.size());
  MPI_Reduce(starts.data(), last.data(), n, MPI_DOUBLE, MPI_MAX, 0, ctx_.timed);
  auto first = starts;
  MPI_Reduce(starts.data(), first.data(), n, MPI_DOUBLE, MPI_MIN, 0, ctx_.timed);
  for (std::size_t i = 0; i < last.size(); ++i) last[i] -= first[i];
  const MetricInfo skew{"start_skew", "ns", Combine::root, ""};
  emit_samples(skew, "", to_unit(last, "ns"));
}

// Each rank judges its buffers by its own calibrated latencies; rank 0 writes the verdicts of ranks 0 and 1.
void Reporter::report_verdicts() {
  const CaseData& data = *data_;
  if (data.state.empty()) return;
  const LineSamples& found = data.sampled;
  const double lines = std::max(found.lines, 1.0), flushed = found.flushed > 0 ? found.flushed : std::nan("");
  struct {
    char verdict[16];
    double cached, dirty, latency_ns;
  } mine{"", found.cached / lines, found.dirty / flushed, found.latency_ticks / lines / ctx_.ticks_per_ns};
  std::snprintf(mine.verdict, sizeof mine.verdict, "%s", judge_state(found, data.state, ctx_.latencies));
  std::vector<decltype(mine)> all(static_cast<std::size_t>(ctx_.size));
  MPI_Gather(&mine, sizeof mine, MPI_BYTE, all.data(), sizeof mine, MPI_BYTE, 0, ctx_.timed);
  if (ctx_.rank != 0) return;
  for (std::size_t r = 0; r < std::min<std::size_t>(all.size(), 2); ++r) {
    JsonObject line = line_header("state", "verdict", "", *parameters_);
    line.add("side", r == 0 ? "sender" : "receiver").add("verdict", all[r].verdict);
    emit_.write_line(line.add("cached", all[r].cached).add("dirty", all[r].dirty).add("latency_ns", all[r].latency_ns));
  }
}

void Reporter::report_events(const std::vector<EventCounters::Event>& events) {
  const CaseData& data = *data_;
  if (data.counted == 0 || ctx_.rank != 0) return;
  for (std::size_t e = 0; e < data.events.size(); ++e) {
    const auto& event = events[e];
    if (!event.missing.empty()) continue;
    const double each = static_cast<double>(data.events[e]) / data.counted;
    emit_.write_line(line_header("samples", event.name, "count", *parameters_)
                         .add("side", "sender")
                         .add("samples", std::span(&each, 1)));
  }
}

void Reporter::report_unmeasured(const Parameters& parameters) {
  for (const auto& metric : spec_.info.metrics)
    emit_missing(metric.name, metric.unit, parameters, "not measured: the time was over");
}

void Reporter::report_unsupported(const std::vector<EventCounters::Event>& events,
                                  const std::vector<MissingCase>& cases) {
  for (const auto& event : events)
    if (!event.missing.empty()) emit_missing(event.name, "count", {}, event.missing);
  for (const auto& missing : cases) {
    const auto same_name = [&](const MetricInfo& metric) { return metric.name == missing.metric; };
    const auto metric = std::find_if(spec_.info.metrics.begin(), spec_.info.metrics.end(), same_name);
    emit_missing(missing.metric, metric->unit, missing.parameters, missing.reason);
  }
}

void Reporter::emit_missing(const std::string& metric, const std::string& unit, const Parameters& parameters,
                            const std::string& reason) {
  JsonObject line = line_header("missing", metric, unit, parameters);
  emit_.write_line(line.add("reason", reason));
}

}  // namespace nearfield::probe
