// The measurements of one case, and the class that writes them as lines of the output. Rank 0 collects the samples of
// all ranks.
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
  std::vector<double> start_ticks;           // clock reading of this rank at the start of each repetition, in ticks
  std::vector<double> interference_ticks;    // duration of the CpuInterference loop at each repetition, in ticks
  std::vector<std::size_t> visit_numbers;    // visit number of each repetition
  std::vector<double> core_latency_ticks;  // core-to-core latency at each repetition, in ticks (places.hpp); on rank 0
  std::vector<std::int64_t> event_counts;  // summed over `counted` repetitions
  int num_counted_repetitions = 0;
  LineSamples line_samples;              // sampled lines of the buffers for which the scenario states a cache state
  std::string expected_cache_state;      // stated cache state of these lines
  Seconds measuring_s = 0;               // measuring time, on rank 0
  Seconds sanity_check_s = 0;            // duration of the last sanity check
  bool has_passed_sanity_check = false;  // the sanity check has passed
  bool is_precise = false;
};

/// Returns the parameters of a case as human-readable text, such as "size_bytes=8 state=invalid".
std::string format_parameters(const Parameters& parameters);
/// Returns the parameters of a case as a JSON object, such as {"size_bytes": 8, "state": "invalid"}.
JsonObject parameters_to_json(const Parameters& parameters);

/// Writes the results of a scenario as lines of the output. Its functions are collective over ctx.timed; only rank 0
/// writes.
class Reporter {
 public:
  Reporter(Context& ctx, const Spec& spec, Emitter& emit) : ctx_(ctx), spec_(spec), emit_(emit) {}

  /// Reports every metric of the case, the skew between the starts of the ranks, whether the cache states of buffers
  /// were verified, and event counts.
  void report_case(const Parameters& parameters, const CaseData& data, const std::vector<EventCounters::Event>& events);
  /// Reports a case that was not measured for lack of time.
  void report_unmeasured_case(const Parameters& parameters);
  /// Reports the events and cases that this machine does not support, with reasons.
  void report_unsupported(const std::vector<EventCounters::Event>& events, const std::vector<UnsupportedCase>& cases);

 private:
  JsonObject line_header(const char* type, const std::string& metric, const std::string& unit,
                         const Parameters& parameters) const;
  std::vector<double> convert_ticks_to_unit(std::vector<double> samples, const std::string& unit) const;
  std::vector<double> fetch_receiver_samples(std::vector<double> own_samples) const;
  void emit_samples(const MetricInfo& metric, std::string side, const std::vector<double>& samples);
  void gather_slowdowns();
  void report_metric(std::size_t metric_index);
  void report_skew();
  void report_cache_state_verdicts();
  void report_events(const std::vector<EventCounters::Event>& events);
  void emit_missing_record(const std::string& metric, const std::string& unit, const Parameters& parameters,
                           const std::string& reason);

  Context& ctx_;
  const Spec& spec_;
  Emitter& emit_;
  const Parameters* parameters_ = nullptr;  // parameters of the reported case
  const CaseData* data_ = nullptr;
  std::vector<double>
      slowdown_by_repetition_;  // by repetition: the largest slowdown by CPU interference of any rank; on rank 0
};

}  // namespace nearfield::probe
