// Holds the measurements of one case and formats them as output lines. Rank 0 gathers the samples of all ranks.
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

// One case's measurements on this rank.
struct CaseData {
  std::vector<std::vector<double>> samples;  // [metric], in ticks or counts
  std::vector<double> starts;                // when this rank started, in ticks
  std::vector<double> interference;          // interference readings around each repetition, in ticks
  std::vector<std::size_t> visits;           // the visit of each repetition
  std::vector<double> latencies;     // core-to-core latency beside each repetition, in ticks (places.hpp); on rank 0
  std::vector<std::int64_t> events;  // summed over counted repetitions
  int counted = 0;
  Sampled sampled;       // lines of the buffers with a stated cache state
  std::string state;     // the cache state that these lines should be in
  Seconds spent = 0;     // measuring time, on rank 0
  Seconds sanity = 0;    // duration of the first check
  bool checked = false;  // the check has passed
  bool done = false;
};

/// Returns text like "size_bytes=8 state=invalid".
std::string describe(const Parameters& parameters);
/// Returns text like {"size_bytes": 8, "state": "invalid"}.
JsonObject as_json(const Parameters& parameters);

/// Collective over ctx.timed; only rank 0's emitter writes.
class Reporter {
 public:
  Reporter(Context& ctx, const Spec& spec, Emitter& emit) : ctx_(ctx), spec_(spec), emit_(emit) {}

  /// Reports every metric of the case, the start skew, verdicts on its buffers, and event counts.
  void report_case(const Parameters& parameters, const CaseData& data, const std::vector<Counters::Event>& events);
  /// Reports a case that was not measured for lack of time.
  void report_missed(const Parameters& parameters);
  /// Reports what this machine does not support, with reasons.
  void report_missing(const std::vector<Counters::Event>& events, const std::vector<MissingCase>& cases);

 private:
  JsonObject header(const char* type, const std::string& metric, const std::string& unit,
                    const Parameters& parameters) const;
  std::vector<double> in_unit(std::vector<double> samples, const std::string& unit) const;
  std::vector<double> of_receiver(std::vector<double> mine) const;
  void emit_samples(const MetricInfo& metric, std::string side, const std::vector<double>& samples);
  void find_disturbed();
  void report_metric(std::size_t m);
  void report_skew();
  void report_verdicts();
  void report_events(const std::vector<Counters::Event>& events);
  void emit_missing(const std::string& metric, const std::string& unit, const Parameters& parameters,
                    const std::string& reason);

  Context& ctx_;
  const Spec& spec_;
  Emitter& emit_;
  const Parameters* parameters_ = nullptr;  // of the case being reported
  const CaseData* data_ = nullptr;
  std::vector<double> slowdown_;  // rank 0: the largest slowdown by interference over the ranks, by repetition
};

}  // namespace nearfield::probe
