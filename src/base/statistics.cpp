#include "base/statistics.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

namespace nearfield {
namespace {

std::vector<double> sorted_copy(std::span<const double> samples) {
  std::vector<double> copy(samples.begin(), samples.end());
  if (std::any_of(copy.begin(), copy.end(), [](double v) { return std::isnan(v); }))
    throw std::invalid_argument("a sample is not a number");
  std::sort(copy.begin(), copy.end());
  return copy;
}

double quantile_of_sorted(std::span<const double> sorted, double q) {
  const double position = q * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(std::floor(position));
  const auto above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (position - std::floor(position)) * (sorted[above] - sorted[below]);
}

// Returns the rank (from 0), in sorted order, of the sample that is the lower end of a 95 % confidence interval of the
// median: the largest k with P(Binomial(n, 1/2) <= k - 1) <= 2.5 %. The upper end has rank n - 1 - k.
std::size_t lower_rank_of_median_interval(std::size_t n) {
  const double log_half_n = static_cast<double>(n) * std::log(0.5);
  double below = 0.0;
  std::size_t k = 0;
  for (; k < n / 2; ++k) {
    const double log_choose = std::lgamma(static_cast<double>(n) + 1) - std::lgamma(static_cast<double>(k) + 1) -
                              std::lgamma(static_cast<double>(n - k) + 1);
    below += std::exp(log_choose + log_half_n);
    if (below > 0.025) break;
  }
  return k == 0 ? 0 : k - 1;
}

// Spreads values that the clock cannot distinguish: a run of values that exceed its first value by at most half of
// `resolution` becomes evenly spaced over one `resolution`, around the middle of the run.
void spread_steps(std::vector<double>& sorted, double resolution) {
  for (std::size_t begin = 0; begin < sorted.size();) {
    std::size_t end = begin;
    while (end < sorted.size() && sorted[end] - sorted[begin] <= resolution / 2) ++end;
    const double middle = (sorted[begin] + sorted[end - 1]) / 2;
    const auto count = static_cast<double>(end - begin);
    for (std::size_t i = begin; i < end; ++i)
      sorted[i] = middle + resolution * ((static_cast<double>(i - begin) + 0.5) / count - 0.5);
    begin = end;
  }
  std::sort(sorted.begin(), sorted.end());
}

void require_samples(std::size_t n) {
  if (n == 0) throw std::invalid_argument("no samples");
}

}  // namespace

double Estimate::relative_half_width() const {
  const double half = (high - low) / 2;
  if (half == 0.0) return 0.0;
  return value == 0.0 ? std::numeric_limits<double>::infinity() : std::abs(half / value);
}

double quantile(std::span<const double> samples, double q) {
  require_samples(samples.size());
  return quantile_of_sorted(sorted_copy(samples), q);
}

Estimate median_estimate(std::span<const double> samples, double resolution) {
  require_samples(samples.size());
  auto sorted = sorted_copy(samples);
  if (resolution > 0) spread_steps(sorted, resolution);
  const std::size_t rank = lower_rank_of_median_interval(sorted.size());
  return {quantile_of_sorted(sorted, 0.5), sorted[rank], sorted[sorted.size() - 1 - rank], sorted.size()};
}

Estimate pooled_estimate(std::span<const Visits> launches, double resolution) {
  std::vector<double> all_samples, visit_medians, launch_medians;
  for (const Visits& launch : launches) {
    const std::size_t begin = all_samples.size();
    for (const auto& visit : launch) {
      if (visit.empty()) continue;
      all_samples.insert(all_samples.end(), visit.begin(), visit.end());
      visit_medians.push_back(median_estimate(visit, resolution).value);
    }
    const std::span<const double> launch_samples(all_samples.begin() + static_cast<std::ptrdiff_t>(begin),
                                                 all_samples.end());
    if (!launch_samples.empty()) launch_medians.push_back(median_estimate(launch_samples, resolution).value);
  }
  Estimate pooled = median_estimate(all_samples, resolution);
  const Estimate visits = median_estimate(visit_medians);
  const auto [lowest, highest] = std::minmax_element(launch_medians.begin(), launch_medians.end());
  pooled.low = std::min({pooled.low, visits.low, *lowest});
  pooled.high = std::max({pooled.high, visits.high, *highest});
  return pooled;
}

bool is_stable(const Estimate& estimate, double tolerance) {
  return estimate.n >= 6 && estimate.relative_half_width() <= tolerance;
}

double outlier_share(std::span<const double> samples) {
  require_samples(samples.size());
  const auto sorted = sorted_copy(samples);
  const double median = quantile_of_sorted(sorted, 0.5);
  const double limit = median + 5 * (median - quantile_of_sorted(sorted, 0.25));
  const auto above = sorted.end() - std::upper_bound(sorted.begin(), sorted.end(), limit);
  return static_cast<double>(above) / static_cast<double>(sorted.size());
}

Estimate paired_ratio(std::span<const double> a, std::span<const double> b) {
  if (a.size() != b.size()) throw std::invalid_argument("paired samples differ in number");
  std::vector<double> ratios;
  ratios.reserve(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) ratios.push_back(b[i] / a[i]);
  return median_estimate(ratios);
}

std::vector<CurveStep> find_steps(std::span<const double> sizes, std::span<const double> times, double min_factor) {
  if (sizes.size() != times.size()) throw std::invalid_argument("sizes and times differ in number");
  const auto slope = [&](std::size_t i) { return (times[i + 1] - times[i]) / (sizes[i + 1] - sizes[i]); };
  std::vector<CurveStep> steps;
  for (std::size_t i = 0; i + 1 < sizes.size(); ++i) {
    double growth = i > 0 ? std::max(0.0, slope(i - 1)) : 0.0;
    if (i + 2 < sizes.size()) growth = std::max(growth, slope(i + 1));
    const double extrapolated_time = times[i] + growth * (sizes[i + 1] - sizes[i]);
    const double factor = times[i + 1] / extrapolated_time;
    if (factor >= min_factor) steps.push_back({i, factor});
  }
  return steps;
}

}  // namespace nearfield
