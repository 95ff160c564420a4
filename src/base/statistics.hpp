// Estimators over timing samples. Pure functions: no clock, no I/O, no state; tested on recorded samples. Timings are
// skewed, with a hard lower bound and a long tail, so all estimators use order statistics. All functions throw
// std::invalid_argument for a sample that is NaN.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace nearfield {

/// A median with a distribution-free 95 % confidence interval, in the unit of the samples.
struct Estimate {
  double value = 0.0;
  double low = 0.0;   ///< lower end of the 95 % interval
  double high = 0.0;  ///< upper end of the 95 % interval
  std::size_t n = 0;  ///< number of samples

  /// Returns half the width of the interval divided by the value; infinity if the value is 0 and the width is not.
  double relative_half_width() const;
};

/// Returns the sample quantile at q in [0, 1], interpolated between neighbours. Throws std::invalid_argument if empty.
double quantile(std::span<const double> samples, double q);

/// Returns the median and its 95 % interval from binomial order statistics. With fewer than 6 samples no such interval
/// exists, and the whole range is returned. `resolution` is the step of the clock: samples that the clock cannot
/// distinguish are spread evenly over one step (the median of grouped data), because medians would otherwise jump by
/// whole steps. Throws std::invalid_argument if there are no samples.
Estimate median_estimate(std::span<const double> samples, double resolution = 0);

/// The samples of one launch, grouped by visit (an uninterrupted series of repetitions).
using Visits = std::vector<std::vector<double>>;

/// Returns the median over several launches of one program. Samples of one visit are not independent (the speed of a
/// machine varies over time), nor are samples of one launch (they share page placement). So the returned interval
/// covers the interval of all samples, the interval of the medians of the visits, and the medians of all launches.
Estimate pooled_estimate(std::span<const Visits> launches, double resolution = 0);

/// Returns whether half the width of the interval is at most `tolerance` times the value (0.05 = 5 %), and n >= 6.
bool is_stable(const Estimate& estimate, double tolerance);

/// Returns the share (0 to 1) of samples above median + 5 x (median - lower quartile). Estimates keep these samples,
/// although they were probably disturbed.
double outlier_share(std::span<const double> samples);

/// Returns the median of the ratios b[i] / a[i] of paired samples (a[i] and b[i] adjacent in time), with a 95 %
/// interval from order statistics. Throws std::invalid_argument if the numbers of samples differ or are 0.
Estimate paired_ratio(std::span<const double> a, std::span<const double> b);

/// A jump in a curve of time over size, between sizes[index] and sizes[index + 1].
struct CurveStep {
  std::size_t index = 0;
  double factor = 1.0;  ///< time after the step, relative to the trend extrapolated from before it
};

/// Returns the steps of at least `min_factor` (1.25 = 25 %) in a curve of time over size. Sizes must be strictly
/// increasing, times positive. The trend from size s1 to s2 is t1 + slope x (s2 - s1), where slope is the larger of the
/// slopes before and after this interval, so that ordinary growth with size is not a step.
std::vector<CurveStep> find_steps(std::span<const double> sizes, std::span<const double> times, double min_factor);

}  // namespace nearfield
