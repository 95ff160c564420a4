// Estimators over timing samples. Pure functions: no clock, no I/O, no state; tested on recorded samples.
// Timings are skewed with a hard floor and a long tail, so everything here is based on order statistics.
// All throw std::invalid_argument for a sample that is NaN.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace nearfield {

/// A median with a distribution-free confidence interval. Unit: that of the samples.
struct Estimate {
  double value = 0.0;
  double low = 0.0;   ///< lower end of the 95 % interval
  double high = 0.0;  ///< upper end of the 95 % interval
  std::size_t n = 0;

  /// Half the interval over the value; infinity when the value is 0 and the interval is not.
  double relative_half_width() const;
};

/// Returns the sample quantile at q in [0, 1], interpolated between neighbours. Throws std::invalid_argument if empty.
double quantile(std::span<const double> samples, double q);

/// Returns the median and its 95 % interval from binomial order statistics. With fewer than 6 samples no such interval
/// exists, and the whole range is returned. `resolution` is the clock's step; samples that it cannot distinguish are
/// spread evenly over one step (the median of grouped data), because a coarse clock would otherwise make medians jump
/// by whole steps. Throws std::invalid_argument if empty.
Estimate median_estimate(std::span<const double> samples, double resolution = 0);

/// The samples of one launch, by visit, that is, by uninterrupted series.
using Visits = std::vector<std::vector<double>>;

/// Returns the median over several launches of one program. Samples of one visit are not independent (a machine's speed
/// varies over time), nor are those of one launch (they share page placement). So the interval covers the interval of
/// the visits' medians and the medians of the launches as well as that of all samples.
Estimate pooled_estimate(std::span<const Visits> launches, double resolution = 0);

/// Returns whether the interval's half width is within `tolerance` of the value (0.05 = 5 %) and n >= 6.
bool is_stable(const Estimate& estimate, double tolerance);

/// Returns the share of samples above median + 5 x (median - lower quartile). They are disturbed, but not dropped.
double outlier_share(std::span<const double> samples);

/// Returns the ratio of medians of b over a for paired samples (a[i] and b[i] adjacent in time), with a 95 % interval
/// from order statistics of the pairwise ratios. Throws std::invalid_argument if sizes differ or are 0.
Estimate paired_ratio(std::span<const double> a, std::span<const double> b);

/// A step in a curve of time over size, between size[index] and size[index + 1].
struct Step {
  std::size_t index = 0;
  double factor = 1.0;  ///< time after the step relative to the extrapolated trend before it
};

/// Returns the steps of at least `threshold` (1.25 = 25 %) in time over size, sizes strictly increasing and times
/// positive. The trend from the point before is t + slope x (s2 - s1), where slope is the larger of the two
/// neighbouring slopes, so that ordinary growth with size is no step.
std::vector<Step> find_steps(std::span<const double> sizes, std::span<const double> times, double threshold);

}  // namespace nearfield
