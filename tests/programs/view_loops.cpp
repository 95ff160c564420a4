// Loops over views in the three ways that come to mind, so that a compiler reports on each of them.
#include "nearfield/halo.hpp"

using nearfield::View;

void by_parameter(const View<double, 2>& u, const View<double, 2>& v) {
  const auto relax = [](const double* north, const double* here, const double* south, double* NEARFIELD_RESTRICT out,
                        std::int64_t cells) {
    for (std::int64_t j = 0; j < cells; ++j) out[j] = (north[j] + south[j] + here[j - 1] + here[j + 1]) / 4;
  };
  for (std::int64_t i = 0; i < u.extent(0); ++i) relax(u.row(i - 1), u.row(i), u.row(i + 1), v.row(i), u.extent(1));
}

void by_pragma(const View<double, 2>& u, const View<double, 2>& v) {
  for (std::int64_t i = 0; i < u.extent(0); ++i) {
    const double *north = u.row(i - 1), *here = u.row(i), *south = u.row(i + 1);
    double* out = v.row(i);
    NEARFIELD_VECTORISE
    for (std::int64_t j = 0; j < u.extent(1); ++j) out[j] = (north[j] + south[j] + here[j - 1] + here[j + 1]) / 4;
  }
}

void by_index(const View<double, 2>& u, const View<double, 2>& v) {
  for (std::int64_t i = 0; i < u.extent(0); ++i)
    for (std::int64_t j = 0; j < u.extent(1); ++j)
      v(i, j) = (u(i - 1, j) + u(i + 1, j) + u(i, j - 1) + u(i, j + 1)) / 4;
}

void by_local_alias(const View<double, 2>& u, const View<double, 2>& v) {
  for (std::int64_t i = 0; i < u.extent(0); ++i) {
    const double *north = u.row(i - 1), *here = u.row(i), *south = u.row(i + 1);
    double* NEARFIELD_RESTRICT out = v.row(i);
    for (std::int64_t j = 0; j < u.extent(1); ++j) out[j] = (north[j] + south[j] + here[j - 1] + here[j + 1]) / 4;
  }
}
