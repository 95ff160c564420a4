// S1, section IV.C: a sweep over a field of shared memory against the same over private memory, by size, and the page
// faults of either from its first touch on. pages ROUNDS MIB...
#include <sys/resource.h>

#include "common.hpp"

namespace {

double sink = 0;

long faults() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt + usage.ru_majflt;
}

// S1's stride of two, so that each line is used and no vector unit hides the memory.
void sweep(double* NEARFIELD_RESTRICT cells, std::int64_t count) {
  double sum = 0;
  for (std::int64_t i = 0; i < count; i += 2) {
    cells[i] = cells[i] * 0.5 + 1.0;
    sum += cells[i];
  }
  sink += sum;
}

}  // namespace

int main(int argc, char** argv) {
  bench::begin(argc, argv);
  int rank = 0, ranks = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const int rounds = std::atoi(argv[1]);
  for (int a = 2; a < argc; ++a) {
    const auto count = static_cast<std::int64_t>(std::atof(argv[a]) * (1 << 17));  // doubles of each rank
    std::vector<std::pair<std::string, double>> facts{{"mib", std::atof(argv[a])}};
    std::vector<bench::Way> ways;
    long before = faults();
    nearfield::Grid<1> ours(MPI_COMM_WORLD, {.extents = {ranks * count}, .halo = 0});
    auto field = ours.field<double>();
    sweep(field.data(), count);
    facts.push_back({"faults_in_place", static_cast<double>(faults() - before)});
    before = faults();
    bench::Private memory(static_cast<std::size_t>(count) * 8);
    auto* own = reinterpret_cast<double*>(memory.data());
    sweep(own, count);
    facts.push_back({"faults_private", static_cast<double>(faults() - before)});
    before = faults();
    nearfield::Grid<1> windows(MPI_COMM_WORLD, {.extents = {ranks * count}, .halo = 0, .protocol = "window"});
    auto window = windows.field<double>();
    sweep(window.data(), count);
    facts.push_back({"faults_window", static_cast<double>(faults() - before)});
    ways.push_back({"in-place", [&] { sweep(field.data(), count); }});
    ways.push_back({"private", [&] { sweep(own, count); }});
    ways.push_back({"window", [&] { sweep(window.data(), count); }});
    const auto times = bench::in_turns(ways, rounds, 4e-3);
    bench::report("pages", facts, ways, times);
  }
  if (sink == 0.123) std::puts("");
  MPI_Finalize();
}
