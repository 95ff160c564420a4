// Are the estimators right? On samples recorded from the engine, on values worked out by hand, and by laws.
// injected_bugs/ holds mistakes that these tests must catch (tests/cpp/test_statistics_bugs.py tries them all).
#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <random>
#include <string>

#include "base/statistics.hpp"
#include "base/sum_words.hpp"
#include "check.hpp"

using namespace nearfield;

namespace {

using Samples = std::vector<double>;

Samples recorded(const std::string& name) {
  std::ifstream in(std::string(SAMPLES) + "/" + name + ".txt");
  Samples samples;
  for (double value; in >> value;) samples.push_back(value);
  CHECK(samples.size() >= 20);
  return samples;
}

bool near(double a, double b, double tolerance = 1e-9) {
  return std::abs(a - b) <= tolerance * std::max(1.0, std::abs(b));
}

Samples upwards(int n) {
  Samples samples;
  for (int i = 1; i <= n; ++i) samples.push_back(i);
  return samples;
}

// Of any length, every byte counts once, in words where a word is whole.
void words_are_summed() {
  std::vector<std::byte> memory(200);
  for (std::size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<std::byte>(37 * i + 11);
  for (std::size_t bytes = 0; bytes <= memory.size(); ++bytes) {
    std::uint64_t expected = 0;
    for (std::size_t i = 0; i < bytes; ++i) {
      const bool in_word = i < bytes / 8 * 8;
      expected += std::to_integer<std::uint64_t>(memory[i]) << (in_word ? 8 * (i % 8) : 0);
    }
    CHECK(sum_words({memory.data(), bytes}) == expected);
  }
}

// Quantiles interpolate between order statistics, whatever the order of the samples.
void quantiles_by_hand() {
  const Samples samples = {40, 10, 30, 20};
  CHECK(near(quantile(samples, 0.0), 10));
  CHECK(near(quantile(samples, 0.5), 25));
  CHECK(near(quantile(samples, 1.0), 40));
  CHECK(near(quantile(samples, 0.25), 17.5));
  CHECK_THROWS(quantile(Samples{}, 0.5));
  CHECK_THROWS(quantile(Samples{1, std::nan("")}, 0.5));
}

// The interval's ranks are those of the binomial tables (e.g. Conover, table A3): n -> ranks from 1.
void intervals_by_table() {
  const struct {
    int n, low, high;
  } table[] = {{6, 1, 6}, {7, 1, 7}, {8, 1, 8}, {9, 2, 8}, {10, 2, 9}, {20, 6, 15}, {50, 18, 33}, {100, 40, 61}};
  for (const auto& row : table) {
    const Estimate e = median_estimate(upwards(row.n));
    CHECK(e.low == row.low);
    CHECK(e.high == row.high);
    CHECK(e.n == static_cast<std::size_t>(row.n));
    CHECK(near(e.value, (row.n + 1) / 2.0));
  }
}

// The interval holds the true median in 95 % of experiments or a little more, for a skewed distribution too.
void interval_covers() {
  std::mt19937 random(7);
  std::lognormal_distribution<double> skewed(0.0, 1.0);
  int covered = 0;
  constexpr int experiments = 4000;
  for (int i = 0; i < experiments; ++i) {
    Samples samples(41);
    for (double& s : samples) s = skewed(random);
    const Estimate e = median_estimate(samples);
    covered += e.low <= 1.0 && 1.0 <= e.high;
  }
  CHECK(covered > 0.945 * experiments);
  CHECK(covered < 0.985 * experiments);
}

// Times are shifted and scaled as a whole: so are estimates.
void estimates_scale() {
  for (const char* name : {"half_round_trip_64", "half_round_trip_4096", "half_round_trip_65536_invalid"}) {
    const Samples samples = recorded(name);
    Samples doubled = samples;
    for (double& s : doubled) s *= 2;
    const Estimate one = median_estimate(samples), two = median_estimate(doubled);
    CHECK(near(two.value, 2 * one.value) && near(two.low, 2 * one.low) && near(two.high, 2 * one.high));
    CHECK(near(one.relative_half_width(), two.relative_half_width()));
    CHECK(one.low <= one.value && one.value <= one.high);
  }
}

// A hundred-fold outlier must not move a median; the share of outliers tells of it.
void outliers_are_retained_and_counted() {
  Samples samples = recorded("half_round_trip_64");
  const Estimate before = median_estimate(samples);
  const double share = outlier_share(samples);
  const std::size_t n = samples.size(), added = n / 50 + 1;
  for (std::size_t i = 0; i < added; ++i) samples.push_back(before.value * 100);
  const Estimate after = median_estimate(samples);
  CHECK(near(after.value, before.value, 0.05));
  CHECK(after.n == n + added);
  CHECK(near(outlier_share(samples),
             (share * static_cast<double>(n) + static_cast<double>(added)) / static_cast<double>(n + added), 0.02));
  CHECK(outlier_share(upwards(9)) == 0);
}

// A clock that steps by 10 shows 200 or 210; the true median lies between, by how often each was read.
void coarse_clock_is_interpolated() {
  Samples samples(50, 200.0);
  samples.insert(samples.end(), 50, 210.0);
  CHECK(near(median_estimate(samples, 10).value, 205, 1e-3));
  samples.insert(samples.end(), 50, 210.0);
  const Estimate more = median_estimate(samples, 10);
  CHECK(more.value > 206 && more.value < 209);
  CHECK(more.low < more.high);
  // Equal readings lie within one step, evenly: ranks 40 and 61 of 100 are 0.21 of a step apart.
  const Estimate equal = median_estimate(Samples(100, 200.0), 10);
  CHECK(near(equal.value, 200, 1e-6) && near(equal.high - equal.low, 2.1, 1e-6));
  // Differences that the clock can resolve are left alone.
  CHECK(near(median_estimate(upwards(101), 1e-6).value, 51, 1e-6));
  const Samples real = recorded("send_8_coarse_clock");
  const double step = 9.8143;
  CHECK(std::abs(median_estimate(real, step).value - median_estimate(real).value) <= step);
}

// Coarse readings of a known continuous distribution: the estimate comes closer to the truth than a step.
void coarse_clock_recovers_the_median() {
  std::mt19937 random(11);
  std::normal_distribution<double> fine(333.0, 12.0);
  Samples coarse;
  for (int i = 0; i < 4001; ++i) coarse.push_back(std::floor(fine(random) / 10 + 0.5) * 10);
  CHECK(std::abs(median_estimate(coarse, 10).value - 333.0) < 1.0);
  CHECK(std::abs(median_estimate(coarse).value - 333.0) > 1.0);
}

// Launches that disagree widen the interval to cover both, however few visits one has; launches that agree do not.
void launches_are_pooled() {
  const Samples a = upwards(101);
  Samples b = a;
  for (double& s : b) s += 1000;
  const Visits many(20, a);
  for (const auto& launches : {std::vector<Visits>{many, {b}, {}}, std::vector<Visits>{{b}, Visits(20, b), {a}}}) {
    const Estimate separate = pooled_estimate(launches);
    CHECK(separate.low <= 51 && separate.high >= 1051);
    CHECK(separate.n == 101 * (launches[0].size() + launches[1].size() + launches[2].size()));
  }
  const Estimate together = pooled_estimate(std::vector<Visits>{{a}, {a}});
  CHECK(together.high - together.low < 30);
  CHECK(near(together.value, 51));
}

// A machine that is at one speed or another, visit by visit: however many samples a visit has, the interval is that of
// the visits, and reaches both speeds when most visits but not nearly all were at one of them.
void visits_are_the_unit() {
  std::mt19937 random(5);
  std::normal_distribution<double> fine(0.0, 1.0);
  for (const int fast_visits : {8, 12}) {
    Visits launch(20);
    Samples all;
    for (int visit = 0; visit < 20; ++visit) {
      for (int i = 0; i < 50; ++i) launch[visit].push_back((visit < fast_visits ? 100 : 130) + fine(random));
      all.insert(all.end(), launch[visit].begin(), launch[visit].end());
    }
    const Estimate estimate = pooled_estimate(std::vector<Visits>{launch});
    CHECK(estimate.low < 105 && estimate.high > 125);
    CHECK(estimate.n == 1000);
    const Estimate one = pooled_estimate(std::vector<Visits>{{all}});
    CHECK(near(one.low, median_estimate(all).low) && near(one.high, median_estimate(all).high));
  }
}

void stability() {
  CHECK(is_stable({100, 99, 101, 20}, 0.02));
  CHECK(!is_stable({100, 95, 105, 20}, 0.02));
  CHECK(!is_stable({100, 100, 100, 5}, 0.02));
  CHECK(near(Estimate{100, 95, 105, 20}.relative_half_width(), 0.05));
  CHECK(std::isinf(Estimate{0, 0, 1, 20}.relative_half_width()));
}

// Pairs cancel what disturbs both: a drift of ten times leaves the ratio alone.
void ratios_are_paired() {
  Samples a, b;
  for (int i = 0; i < 60; ++i) {
    const double drift = 1 + 9.0 * i / 59;
    a.push_back(100 * drift);
    b.push_back(80 * drift);
  }
  const Estimate ratio = paired_ratio(a, b);
  CHECK(near(ratio.value, 0.8) && near(ratio.low, 0.8) && near(ratio.high, 0.8));
  CHECK(near(paired_ratio(b, a).value, 1.25));
  CHECK_THROWS(paired_ratio(a, Samples{1}));
}

// The one jump of this recorded curve beyond its growth is found, and where: Open MPI's eager limit (4016 B).
void steps_of_a_recorded_curve() {
  std::ifstream in(std::string(SAMPLES) + "/curve_openmpi_5.0.11.txt");
  Samples sizes, times;
  for (double size, time; in >> size >> time;) {
    sizes.push_back(size);
    times.push_back(time);
  }
  const auto steps = find_steps(sizes, times, 1.25);
  const auto eager =
      std::find_if(steps.begin(), steps.end(), [&](const CurveStep& s) { return sizes[s.index] == 4016; });
  CHECK(eager != steps.end());
  CHECK(eager == steps.end() || eager->factor > 1.5);
}

// Growth in proportion to size is no step, however steep; a jump is, at every place but the last.
void steps_by_hand() {
  Samples sizes, times;
  for (int i = 0; i < 20; ++i) {
    sizes.push_back(std::pow(2.0, i));
    times.push_back(200 + sizes.back());
  }
  CHECK(find_steps(sizes, times, 1.25).empty());
  // Nor is the size from which on time grows.
  Samples bend = sizes;
  for (double& t : bend) t = std::max(t, 1000.0);
  CHECK(find_steps(sizes, bend, 1.25).empty());
  for (std::size_t i = 9; i < times.size(); ++i) times[i] += 2000;
  const auto steps = find_steps(sizes, times, 1.25);
  CHECK(steps.size() == 1 && steps[0].index == 8);
  CHECK(steps[0].factor > 3);
  CHECK_THROWS(find_steps(sizes, Samples{1}, 1.25));
}

}  // namespace

int main() {
  words_are_summed();
  quantiles_by_hand();
  intervals_by_table();
  interval_covers();
  estimates_scale();
  outliers_are_retained_and_counted();
  coarse_clock_is_interpolated();
  coarse_clock_recovers_the_median();
  launches_are_pooled();
  visits_are_the_unit();
  stability();
  ratios_are_paired();
  steps_of_a_recorded_curve();
  steps_by_hand();
  std::printf("%d checks failed\n", failed_checks);
  return failed_checks != 0;
}
