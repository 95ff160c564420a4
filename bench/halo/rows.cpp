// S1's five-point stencil with its heat sum, cut into rows, by every way of reaching the neighbours' rows:
// rows ROUNDS ROWS_PER_RANK BYTES_PER_ROW...
#include "common.hpp"

namespace {

using nearfield::Field;
using nearfield::Grid;
using nearfield::View;

double sink = 0;

// anew = anew/2 + (north + south + west + east)/8; heat += anew (S1, algorithm 1). Rows [from, to).
inline double sweep(const View<double, 2>& old, const View<double, 2>& next, std::int64_t from, std::int64_t to) {
  const auto columns = old.extent(1);
  double heat = 0;
  for (auto i = from; i < to; ++i) {
    const double *north = old.row(i - 1), *south = old.row(i + 1), *here = old.row(i);
    double* NEARFIELD_RESTRICT out = next.row(i);
#pragma omp simd reduction(+ : heat)
    for (std::int64_t j = 0; j < columns; ++j) {
      out[j] = out[j] / 2.0 + (north[j] + south[j] + here[j - 1] + here[j + 1]) / 8.0;
      heat += out[j];
    }
  }
  return heat;
}

struct Stencil {
  Stencil(const std::string& protocol, MPI_Comm comm, std::int64_t rows, std::int64_t columns)
      : grid(comm, {.extents = {rows, columns}, .halo = 1, .corners = false, .dims = {0, 1}, .protocol = protocol}),
        fields{grid.field<double>(), grid.field<double>()} {
    for (auto& field : fields) {
      auto view = field.view();
      for (std::int64_t i = 0; i < view.extent(0); ++i)
        for (std::int64_t j = 0; j < view.extent(1); ++j) view(i, j) = 1.0 + 1e-3 * static_cast<double>((i * j) % 7);
    }
    grid.exchange(fields[0], fields[1]);
    for (int i = 0; i < 2; ++i) views.push_back(fields[i].view());
  }

  void step() {
    sink += sweep(views[now], views[1 - now], 0, views[0].extent(0));
    now = 1 - now;
    grid.exchange(fields[now]);
  }

  // The rows that neighbours read first, then, while the signal travels, the others.
  void step_overlapped() {
    const auto rows = views[0].extent(0);
    if (started) grid.finish();
    started = true;
    const auto &old = views[now], &next = views[1 - now];
    sink += sweep(old, next, 0, 1) + sweep(old, next, rows - 1, rows);
    now = 1 - now;
    grid.start(fields[now]);
    sink += sweep(old, next, 1, rows - 1);
  }

  Grid<2> grid;
  Field<double, 2> fields[2];
  std::vector<View<double, 2>> views;
  int now = 0;
  bool started = false;
};

// Does the same without neighbours, on memory of this process alone.
struct Alone {
  Alone(const Stencil& like) {
    const auto& view = like.views[0];
    const std::array<std::int64_t, 2> strides = view.strides(), extents = view.extents();
    const auto bytes = static_cast<std::size_t>((extents[0] + 2) * strides[0]) * 8 + 4096;
    for (int i = 0; i < 2; ++i) {
      memory.push_back(std::make_unique<bench::Private>(bytes));
      auto* first = reinterpret_cast<double*>(memory.back()->data() + i * 320 + 64) + strides[0];
      for (std::int64_t r = -1; r <= extents[0]; ++r)
        for (std::int64_t c = 0; c < extents[1]; ++c)
          first[r * strides[0] + c] = 1.0 + 1e-3 * static_cast<double>((r * c) % 7);
      views.emplace_back(first, strides, extents, std::array<std::array<int, 2>, 2>{{{1, 1}, {1, 1}}}, &never);
    }
  }
  void step() {
    sink += sweep(views[now], views[1 - now], 0, views[0].extent(0));
    now = 1 - now;
  }
  std::vector<std::unique_ptr<bench::Private>> memory;
  std::vector<View<double, 2>> views;
  bool never = false;
  int now = 0;
};

}  // namespace

int main(int argc, char** argv) {
  bench::begin(argc, argv);
  int ranks = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const int rounds = std::atoi(argv[1]);
  const auto rows = std::atoll(argv[2]);
  for (int a = 3; a < argc; ++a) {
    const auto bytes = std::atoll(argv[a]);
    std::vector<std::unique_ptr<Stencil>> stencils;
    std::vector<bench::Way> ways;
    const auto add = [&](const std::string& name, const std::string& protocol, bool overlapped) {
      stencils.push_back(std::make_unique<Stencil>(protocol, MPI_COMM_WORLD, rows * ranks, bytes / 8));
      auto* stencil = stencils.back().get();
      ways.push_back({name, [stencil, overlapped] { overlapped ? stencil->step_overlapped() : stencil->step(); }});
    };
    add("in-place", "in-place", false);
    add("in-place overlapped", "in-place", true);
    for (const char* other : {"direct", "sendrecv", "persistent", "neighborhood"}) add(other, other, false);
    Alone alone(*stencils[0]);
    ways.push_back({"alone", [&] { alone.step(); }});
    ways.push_back({"flag", [&] { stencils[0]->grid.exchange(); }});
    const auto times = bench::in_turns(ways, rounds, 2e-3);
    if (stencils[1]->started) stencils[1]->grid.finish();
    bench::report("rows", {{"rows", static_cast<double>(rows)}, {"row_bytes", static_cast<double>(bytes)}}, ways,
                  times);
  }
  if (sink == 0.123) std::puts("");
  MPI_Finalize();
}
