// The halo library in trouble: halo_faults WHAT [PROTOCOL]. Rank 0 says what came of it in one line.
//   late    rank 1 stays away longer than the limit        die     rank 1 kills itself
//   hold    all wait to be killed, "ready" once they have   huge    a field larger than any memory
//   endless all exchange until they are killed, "ready" once they have
//   compute all exchange, say "ready", compute for 6 s, and exchange again
//   order   start twice                                     early   a neighbour's cell between start and finish
//   touch   says which pages at the borders of parts their ranks have touched
//   write   a field of 64 MiB is made, filled, read        explain prints what the grid says of itself
//   arrays  prints how arrays of 8 KiB rows are exchanged, and what the grid says of itself
#define NEARFIELD_HALO_CHECK
#include <mpi.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "nearfield/halo.hpp"

// Returns whether this process has a page, of 4 KiB, mapped.
bool has(const void* address) {
  std::FILE* map = std::fopen("/proc/self/pagemap", "rb");
  std::uint64_t entry = 0;
  std::fseek(map, static_cast<long>(reinterpret_cast<std::uintptr_t>(address) / 4096 * 8), SEEK_SET);
  if (std::fread(&entry, sizeof entry, 1, map) != 1) entry = 0;
  std::fclose(map);
  return entry >> 63;
}

// Fields on small pages, cut into slabs at many places of a page: who has the page across the border, before any use?
// A line for each case: border, the bytes of that page before it, and whether each of the two ranks has it.
void touch(int rank, const char* protocol) {
  for (int rows = 20; rows < 60; rows += 2) {
    nearfield::Grid<2> grid(MPI_COMM_WORLD, {.extents = {rows, 100}, .dims = {2, 1}, .protocol = protocol});
    const auto field = grid.field<double>();
    const auto cells = field.view();
    const auto* border = cells.row(rank == 0 ? cells.extent(0) : 0);
    int had[2] = {has(border), 0};
    MPI_Gather(rank ? had : MPI_IN_PLACE, 1, MPI_INT, had, 1, MPI_INT, 0, MPI_COMM_WORLD);
    if (rank == 0)
      std::printf("border %d %d %d\n", static_cast<int>(reinterpret_cast<std::uintptr_t>(border) % 4096), had[0],
                  had[1]);
  }
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const std::string what = argc > 1 ? argv[1] : "explain";
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const std::int64_t rows = what == "huge" ? std::int64_t{1} << 40 : what == "write" ? 8192 : 1024;
  int result = 0;
  if (rank != 0) unsetenv("NEARFIELD_HALO_COSTS");  // the variables of rank 0 hold for all
  try {
    if (what == "touch") {
      touch(rank, argc > 2 ? argv[2] : "auto");
      MPI_Finalize();
      return 0;
    }
    nearfield::Grid<2> grid(MPI_COMM_WORLD, {.extents = {rows, 1024},
                                             .dims = {0, 1},
                                             .protocol = argc > 2 ? argv[2] : "auto",
                                             .limit_s = what == "late" ? 0.5 : 0.0});
    if (what == "arrays") {
      std::vector<double> cells(1026 * 1026);
      const nf_array array{cells.data() + 1027, {1026 * 8, 8, 0}, NF_F64, 1};
      const auto exchange = grid.exchange_of({array});
      if (rank == 0) std::printf("arrays go by %s\n%s", exchange.protocol().c_str(), grid.explain().c_str());
      std::fflush(stdout);
      MPI_Finalize();
      return 0;
    }
    auto field = grid.field<double>();
    const auto cells = field.view();
    nearfield::for_each_cell(grid.all(), [&](auto i, auto j) { cells(i, j) = rank; });
    if (what == "late" && rank == 1) sleep(3);
    if (what == "die" && rank == 1) raise(SIGKILL);
    if (what == "order") grid.start(field);
    if (what == "early") {
      grid.start(field);
      std::fprintf(stderr, "read %g\n", cells(rank == 0 ? cells.extent(0) : -1, 0));
    }
    grid.exchange(field);
    if (what == "hold") {
      MPI_Barrier(MPI_COMM_WORLD);
      if (rank == 0) std::puts("ready");
      std::fflush(stdout);
      for (;;) pause();
    }
    if (what == "endless" || what == "compute") {
      if (rank == 0) std::puts("ready");
      std::fflush(stdout);
      while (what == "endless") grid.exchange(field);
      for (const double end = MPI_Wtime() + 6; MPI_Wtime() < end;) continue;
      grid.exchange(field);
    }
    const int other = rank == 0 ? 1 : rank - 1;
    const double read = cells(rank == 0 ? cells.extent(0) : -1, 0);
    if (rank == 0) std::printf("read %g of %d\n%s", read, other, grid.explain().c_str());
  } catch (const nearfield::HaloError& error) {
    if (rank == 0) std::printf("code %d: %s\n", error.code, error.what());
    std::fflush(stdout);
    result = 3;
    if (what == "late" || what == "die") _exit(result);
  }
  std::fflush(stdout);
  if (what != "late" && what != "die") MPI_Finalize();
  return result;
}
