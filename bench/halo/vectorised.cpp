// S1, section IV.A: the examples' loops on views of fields that neighbours share, with and without the information that
// what is written does not overlap what is read, and not vectorised: vectorised ROUNDS CELLS_PER_ROW...
#include "common.hpp"
#include "loops.hpp"

int main(int argc, char** argv) {
  bench::begin(argc, argv);
  int ranks = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const int rounds = std::atoi(argv[1]);
  constexpr std::int64_t cells = 16384, rows = 4;  // of each rank: both fields fit into its second-level cache
  for (int a = 2; a < argc; ++a) {
    const std::int64_t row = std::atoll(argv[a]), planes = std::max<std::int64_t>(1, cells / rows / row);
    nearfield::Grid<3> grid(MPI_COMM_WORLD, {.extents = {planes * ranks, rows, row}, .dims = {ranks, 1, 1}});
    const auto from = grid.field<double>(), to = grid.field<double>();
    const auto part = [](const auto& field) {
      const auto view = field.view();
      return bench::Cells{view.data(), view.strides(), view.extents()};
    };
    const auto source = part(from), target = part(to);
    nearfield::for_each_cell(grid.all(), [&, view = from.view()](auto i, auto j, auto k) {
      view(i, j, k) = 1.0 + 1e-3 * static_cast<double>((i + j * k) % 7);
    });
    grid.exchange(from);
    const char* names[] = {"5 points", "7 points", "27 points"};
    std::vector<bench::Way> ways;
    for (int kernel = 0; kernel < 3; ++kernel) {
      const auto add = [&](const char* build, bench::Sweep sweep) {
        ways.push_back({std::string(names[kernel]) + build, [=] { sweep(source, target); }});
      };
      add(" restricted", bench::restricted::sweeps[kernel]);
      add(" unrestricted", bench::unrestricted::sweeps[kernel]);
      add(" scalar", bench::scalar::sweeps[kernel]);
    }
    const auto times = bench::in_turns(ways, rounds, 1e-3);
    bench::report("vectorised", {{"row_cells", static_cast<double>(row)}}, ways, times);
  }
  MPI_Finalize();
}
