// Holds the measurements of one case and writes them as lines of the output. Rank 0 collects the samples of all ranks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "probe/context.hpp"
#include "probe/counters.hpp"
#include "probe/emit.hpp"
#include "probe/scenario.hpp"

namespace nearfield::probe {

using Seconds = double;

// Measurements of one case on this rank.
struct CaseData {
  std::vector<std::vector<double>> samples;  // [metric], in ticks or counts
  std::vector<double> starts;                // clock reading of this rank at the start of each repetition, in ticks
  std::vector<double> interference;          // CpuInterference reading of each repetition, in ticks
  std::vector<std::size_t> visits;           // visit number of each repetition
  std::vector<double> latencies;     // core-to-core latency at each repetition, in ticks (places.hpp); on rank 0
  std::vector<std::int64_t> events;  // summed over `counted` repetitions
  int counted = 0;
  LineSamples sampled;   // sampled lines of the buffers for which the scenario states a cache state
  std::string state;     // stated cache state of these lines
  Seconds spent = 0;     // measuring time, on rank 0
  Seconds sanity = 0;    // duration of the last sanity check
  bool checked = false;  // the sanity check has passed
  bool done = false;
};

/// Returns the parameters of a case as text for people, such as "size_bytes=8 state=invalid".
std::string parameters_text(const Parameters& parameters);
/// Returns the parameters of a case as a JSON object, such as {"size_bytes": 8, "state": "invalid"}.
JsonObject parameters_json(const Parameters& parameters);

/// Writes the results of a scenario as lines of the output. Its functions are collective over ctx.timed; only rank 0
/// writes.
class Reporter {
 public:
  Reporter(Context& ctx, const Spec& spec, Emitter& emit) : ctx_(ctx), spec_(spec), emit_(emit) {}

  /// Reports every metric of the case, the skew between the starts of the ranks, verdicts on the cache states of
  /// buffers, and event counts.
  void report_case(const Parameters& parameters, const CaseData& data, const std::vector<EventCounters::Event>& events);
  /// Reports a case that was not measured for lack of time.
  void report_unmeasured(const Parameters& parameters);
  /// Reports the events and cases that this machine does not support, with reasons.
  void report_unsupported(const std::vector<EventCounters::Event>& events, const std::vector<MissingCase>& cases);

 private:
  JsonObject line_header(const char* type, const std::string& metric, const std::string& unit,
                         const Parameters& parameters) const;
  std::vector<double> to_unit(std::vector<double> samples, const std::string& unit) const;
  std::vector<double> fetch_receiver_samples(std::vector<double> mine) const;
  void emit_samples(const MetricInfo& metric, std::string side, const std::vector<double>& samples);
  void gather_slowdowns();
  void report_metric(std::size_t m);
  void report_skew();
  void report_verdicts();
  void report_events(const std::vector<EventCounters::Event>& events);
  void emit_missing(const std::string& metric, const std::string& unit, const Parameters& parameters,
                    const std::string& reason);

  Context& ctx_;
  const Spec& spec_;
  Emitter& emit_;
  const Parameters* parameters_ = nullptr;  // parameters of the reported case
  const CaseData* data_ = nullptr;
  std::vector<double> slowdown_;  // by repetition: the largest slowdown by CPU interference of any rank; on rank 0
};

}  // namespace nearfield::probe
