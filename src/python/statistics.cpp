// Binds the estimators of base/statistics.hpp, which the measuring engine uses, too.
#include "base/statistics.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/stl/vector.h>

#include "python/members.hpp"

namespace nb = nanobind;
using namespace nearfield;

void bind_statistics(nb::module_& module) {
  using Samples = std::vector<double>;
  nb::class_<Estimate>(module, "Estimate", "A median with its 95 % interval, in the unit of the samples.")
      .def_ro("value", &Estimate::value)
      .def_ro("low", &Estimate::low)
      .def_ro("high", &Estimate::high)
      .def_ro("n", &Estimate::n)
      .def_prop_ro("relative_half_width", &Estimate::relative_half_width);
  bind_readable(nb::class_<CurveStep>(module, "Step", "A jump of a curve between points index and index + 1."),
                field("index", &CurveStep::index), field("factor", &CurveStep::factor));
  module.def("quantile", [](const Samples& s, double q) { return quantile(s, q); });
  module.def(
      "median_estimate", [](const Samples& s, double resolution) { return median_estimate(s, resolution); },
      nb::arg("samples"), nb::arg("resolution") = 0.0);
  module.def(
      "pooled_estimate",
      [](const std::vector<Visits>& launches, double resolution) { return pooled_estimate(launches, resolution); },
      nb::arg("launches"), nb::arg("resolution") = 0.0);
  module.def("is_stable", &is_stable);
  module.def("outlier_share", [](const Samples& s) { return outlier_share(s); });
  module.def("paired_ratio", [](const Samples& a, const Samples& b) { return paired_ratio(a, b); });
  module.def("find_steps", [](const Samples& sizes, const Samples& times, double threshold) {
    return find_steps(sizes, times, threshold);
  });
}
