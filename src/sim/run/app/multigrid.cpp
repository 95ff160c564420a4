#include "sim/run/app/multigrid.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

namespace nearfield::sim::multigrid {
namespace {

constexpr double strength_threshold = 0.25;
constexpr double tolerance = 1e-6;
constexpr int max_levels = 25, coarsest_rows = 9, max_iterations = 500;

using Vector = std::vector<double>;
using Graph = std::vector<std::vector<int>>;

template <class Function>
void for_each_entry(const Matrix& a, int row, Function&& function) {
  for (int k = a.begin[row]; k < a.begin[row + 1]; ++k) function(a.column[k], a.value[k]);
}

// ---- coarsening

// Returns the strong dependences of each row: the columns of negative entries whose magnitude is at least the fraction
// `strength_threshold` of the largest in the row.
Graph strong_dependences(const Matrix& a) {
  Graph graph(a.rows);
  for (int i = 0; i < a.rows; ++i) {
    double largest = 0;
    for_each_entry(a, i, [&](int j, double v) { largest = std::max(largest, j == i ? 0 : -v); });
    for_each_entry(a, i, [&](int j, double v) {
      if (j != i && largest > 0 && -v >= strength_threshold * largest) graph[i].push_back(j);
    });
  }
  return graph;
}

Graph reversed_graph(const Graph& graph) {
  Graph result(graph.size());
  for (int i = 0; i < static_cast<int>(graph.size()); ++i)
    for (const int j : graph[i]) result[j].push_back(i);
  return result;
}

// Returns a pseudo-random number below 1, the same on every host.
double pseudo_random_number(int i) {
  auto x = static_cast<std::uint32_t>(i) * 2654435761U;
  x = (x ^ (x >> 15)) * 2246822519U;
  return static_cast<double>((x ^ (x >> 13)) >> 8) / (1 << 24);
}

enum UnknownState : char { undecided, coarse, fine, outside };

// PMIS (De Sterck, Yang, Heys 2006): an unknown with more dependents than any neighbor becomes coarse, and its
// dependents fine, until all unknowns are decided. An unknown without dependents becomes fine; if it does not depend on
// other unknowns either, its state becomes `isolated_state`.
void choose_coarse_unknowns(const Graph& depends, std::vector<UnknownState>& state, UnknownState isolated_state) {
  const Graph dependents = reversed_graph(depends);
  Vector measure(depends.size());
  std::vector<int> remaining;
  for (int i = 0; i < static_cast<int>(depends.size()); ++i) {
    if (state[i] != undecided) continue;
    measure[i] = static_cast<double>(dependents[i].size()) + pseudo_random_number(i);
    if (dependents[i].empty())
      state[i] = depends[i].empty() ? isolated_state : fine;
    else
      remaining.push_back(i);
  }
  const auto beaten_by = [&](int i) {
    return [&, i](int j) { return state[j] == undecided && measure[j] > measure[i]; };
  };
  while (!remaining.empty()) {
    std::vector<int> chosen;
    for (const int i : remaining)
      if (std::none_of(depends[i].begin(), depends[i].end(), beaten_by(i)) &&
          std::none_of(dependents[i].begin(), dependents[i].end(), beaten_by(i)))
        chosen.push_back(i);
    for (const int i : chosen) state[i] = coarse;
    for (const int i : chosen)
      for (const int j : dependents[i])
        if (state[j] == undecided) state[j] = fine;
    std::erase_if(remaining, [&](int i) { return state[i] != undecided; });
  }
}

// Returns, for each coarse unknown, the coarse unknowns that it reaches by one or two strong dependences.
Graph dependences_over_two_edges(const Graph& depends, const std::vector<UnknownState>& state) {
  Graph result(depends.size());
  for (int i = 0; i < static_cast<int>(depends.size()); ++i) {
    if (state[i] != coarse) continue;
    for (const int j : depends[i]) {
      if (state[j] == coarse) result[i].push_back(j);
      for (const int k : depends[j])
        if (state[k] == coarse && k != i) result[i].push_back(k);
    }
    std::sort(result[i].begin(), result[i].end());
    result[i].erase(std::unique(result[i].begin(), result[i].end()), result[i].end());
  }
  return result;
}

std::vector<UnknownState> coarsen(const Graph& depends, bool aggressive) {
  std::vector<UnknownState> state(depends.size(), undecided);
  choose_coarse_unknowns(depends, state, fine);
  if (!aggressive) return state;
  std::vector<UnknownState> second_state(depends.size(), outside);
  std::replace_copy_if(
      state.begin(), state.end(), second_state.begin(), [](UnknownState s) { return s == coarse; }, undecided);
  for (auto& s : second_state) s = s == fine ? outside : s;
  choose_coarse_unknowns(dependences_over_two_edges(depends, state), second_state, coarse);
  return second_state;
}

// ---- interpolation

// Computes the interpolation weights of one fine unknown from its strong neighbors `from`, whose weights are already
// known.
void interpolate_row(const Matrix& a, int i, const std::vector<int>& from,
                     std::vector<std::vector<std::pair<int, double>>>& p) {
  double diagonal = 0, row_sum = 0, used_sum = 0;
  std::vector<std::pair<int, double>> row;
  for_each_entry(a, i, [&](int j, double v) {
    (j == i ? diagonal : row_sum) += v;
    if (std::find(from.begin(), from.end(), j) == from.end()) return;
    used_sum += v;
    for (const auto& [column, weight] : p[j]) {
      const auto entry_of_column =
          std::find_if(row.begin(), row.end(), [&](const auto& entry) { return entry.first == column; });
      if (entry_of_column == row.end())
        row.emplace_back(column, -v * weight);
      else
        entry_of_column->second -= v * weight;
    }
  });
  for (auto& [column, weight] : row) weight *= used_sum == 0 ? 0 : row_sum / used_sum / diagonal;
  p[i] = std::move(row);
}

// Multipass interpolation: first interpolates the fine unknowns that strongly depend on coarse ones, then those that
// depend on already interpolated ones, and so on, until a pass interpolates no further unknown.
Matrix multipass_interpolation(const Matrix& a, const Graph& depends, const std::vector<UnknownState>& state) {
  std::vector<std::vector<std::pair<int, double>>> p(a.rows);
  std::vector<char> is_interpolated(a.rows, 0);
  std::vector<int> remaining;
  Matrix result;
  for (int i = 0; i < a.rows; ++i) {
    is_interpolated[i] = state[i] == coarse;
    if (is_interpolated[i])
      p[i].emplace_back(result.columns++, 1);
    else
      remaining.push_back(i);
  }
  for (std::size_t num_before = 0; num_before != remaining.size();) {
    num_before = remaining.size();
    std::vector<int> interpolated_now;
    for (const int i : remaining) {
      std::vector<int> from;
      std::copy_if(depends[i].begin(), depends[i].end(), std::back_inserter(from),
                   [&](int j) { return is_interpolated[j]; });
      if (from.empty()) continue;
      interpolate_row(a, i, from, p);
      interpolated_now.push_back(i);
    }
    for (const int i : interpolated_now) is_interpolated[i] = 1;
    std::erase_if(remaining, [&](int i) { return is_interpolated[i]; });
  }
  for (const auto& row : p) {
    for (const auto& [column, weight] : row) result.add_entry(column, weight);
    result.end_row();
  }
  return result;
}

Matrix transposed_matrix(const Matrix& a) {
  std::vector<std::vector<std::pair<int, double>>> rows(a.columns);
  for (int i = 0; i < a.rows; ++i) for_each_entry(a, i, [&](int j, double v) { rows[j].emplace_back(i, v); });
  Matrix result;
  result.columns = a.rows;
  for (const auto& row : rows) {
    for (const auto& [column, v] : row) result.add_entry(column, v);
    result.end_row();
  }
  return result;
}

Matrix matrix_product(const Matrix& a, const Matrix& b) {
  Matrix result;
  result.columns = b.columns;
  std::vector<int> place(b.columns, -1);
  for (int i = 0; i < a.rows; ++i) {
    const int begin = result.begin.back();
    for_each_entry(a, i, [&](int j, double v) {
      for_each_entry(b, j, [&](int k, double w) {
        if (place[k] < begin) {
          place[k] = static_cast<int>(result.column.size());
          result.add_entry(k, 0);
        }
        result.value[place[k]] += v * w;
      });
    });
    result.end_row();
  }
  return result;
}

// ---- solving

Vector matrix_vector_product(const Matrix& a, const Vector& x) {
  Vector y(a.rows, 0);
  for (int i = 0; i < a.rows; ++i) for_each_entry(a, i, [&](int j, double v) { y[i] += v * x[j]; });
  return y;
}

double dot_product(const Vector& x, const Vector& y) {
  double sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) sum += x[i] * y[i];
  return sum;
}

void axpy(double factor, const Vector& x, Vector& y) {
  for (std::size_t i = 0; i < x.size(); ++i) y[i] += factor * x[i];
}

// Sweeps forward and backward inside each rank (symmetric Gauss-Seidel). Unknowns of other ranks keep the values from
// before the sweep, and the magnitudes of their matrix entries are added to the diagonal.
void relax_level(const MultigridLevel& level, const Vector& f, Vector& u) {
  const Vector old_u = u;
  for (std::size_t r = 0; r + 1 < level.first_row_by_rank.size(); ++r) {
    const int begin = level.first_row_by_rank[r], end = level.first_row_by_rank[r + 1];
    const auto relax_unknown = [&](int i) {
      double residual = f[i], weight = 0;
      for_each_entry(level.matrix, i, [&](int j, double v) {
        const bool is_own = begin <= j && j < end;
        residual -= v * (is_own ? u[j] : old_u[j]);
        weight += j == i ? v : is_own ? 0 : std::abs(v);
      });
      if (weight != 0) u[i] += residual / weight;
    };
    for (int i = begin; i < end; ++i) relax_unknown(i);
    for (int i = end; i-- > begin;) relax_unknown(i);
  }
}

Vector run_v_cycle(const std::vector<MultigridLevel>& levels, const std::vector<Matrix>& restrictions, std::size_t l,
                   const Vector& f) {
  Vector u(f.size(), 0);
  relax_level(levels[l], f, u);
  if (l + 1 == levels.size()) return u;
  Vector residual = f;
  axpy(-1, matrix_vector_product(levels[l].matrix, u), residual);
  axpy(1,
       matrix_vector_product(levels[l].interpolation, run_v_cycle(levels, restrictions, l + 1,
                                                                  matrix_vector_product(restrictions[l], residual))),
       u);
  relax_level(levels[l], f, u);
  return u;
}

std::vector<int> coarse_rows_of_ranks(const std::vector<UnknownState>& state, const std::vector<int>& first) {
  std::vector<int> result{0};
  for (std::size_t r = 0; r + 1 < first.size(); ++r)
    result.push_back(result.back() +
                     static_cast<int>(std::count(state.begin() + first[r], state.begin() + first[r + 1], coarse)));
  return result;
}

}  // namespace

std::vector<MultigridLevel> build_hierarchy(Matrix finest, std::vector<int> first) {
  std::vector<MultigridLevel> levels;
  levels.push_back({std::move(finest), {}, std::move(first)});
  while (levels.back().matrix.rows > coarsest_rows && levels.size() < max_levels) {
    MultigridLevel& level = levels.back();
    const Graph depends = strong_dependences(level.matrix);
    const auto state = coarsen(depends, levels.size() == 1);
    auto next_first = coarse_rows_of_ranks(state, level.first_row_by_rank);
    if (next_first.back() == 0 || next_first.back() == level.matrix.rows) break;
    level.interpolation = multipass_interpolation(level.matrix, depends, state);
    const Matrix& p = level.interpolation;
    levels.push_back(
        {matrix_product(transposed_matrix(p), matrix_product(level.matrix, p)), {}, std::move(next_first)});
  }
  return levels;
}

int count_pcg_iterations(const std::vector<MultigridLevel>& levels) {
  const Matrix& a = levels.front().matrix;
  std::vector<Matrix> restrictions;
  for (const auto& level : levels) restrictions.push_back(transposed_matrix(level.interpolation));
  Vector solution(a.rows);
  for (int i = 0; i < a.rows; ++i) solution[i] = std::cos(i / 10.0);
  Vector r = matrix_vector_product(a, solution), p = run_v_cycle(levels, restrictions, 0, r);
  const double squared_tolerance = tolerance * tolerance * dot_product(r, r);
  double gamma = dot_product(r, p);
  int is_interpolated = 0;
  while (is_interpolated < max_iterations) {
    const Vector s = matrix_vector_product(a, p);
    axpy(-gamma / dot_product(s, p), s, r);
    ++is_interpolated;
    if (dot_product(r, r) <= squared_tolerance) break;
    Vector z = run_v_cycle(levels, restrictions, 0, r);
    const double old_u = std::exchange(gamma, dot_product(r, z));
    axpy(gamma / old_u, p, z);
    p = std::move(z);
  }
  return is_interpolated;
}

}  // namespace nearfield::sim::multigrid
