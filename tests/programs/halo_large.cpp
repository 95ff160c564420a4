// Two ranks; the second one reads a row of the first, more than 2 GiB: halo_large PROTOCOL. "ok" from rank 1 if all of
// it has come. Memory is that of the row at rank 1 (rank 0 writes few pages of its own), and what the MPI takes.
#include <mpi.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstdio>
#include <string>

#include "nearfield/halo.hpp"

constexpr std::int64_t cells = (std::int64_t{1} << 31) + 12345, step = 1 << 24;

unsigned char value(std::int64_t cell) { return static_cast<unsigned char>(1 + cell / step % 251); }

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const char* protocol = argc > 1 ? argv[1] : "persistent";
  const bool shared = std::string(protocol) == "single-copy";
  int result = 0;
  try {
    nearfield::Grid<2> grid(
        MPI_COMM_WORLD,
        {.extents = {2, cells}, .halo = {{1, 0}, {0, 0}}, .dims = {2, 1}, .protocol = shared ? "auto" : protocol});
    void* memory = mmap(nullptr, 2 * cells, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    auto* ghosts = static_cast<unsigned char*>(memory);
    for (std::int64_t i = 0; rank == 0 && i < cells; i += step) ghosts[cells + i] = value(i);
    if (rank == 0) ghosts[2 * cells - 1] = 7;
    auto exchange = grid.exchange_of({{ghosts + cells, {cells, 1, 0}, NF_U8, 1}}, protocol);
    exchange();
    if (rank == 1) {
      result = ghosts[cells - 1] != 7;
      for (std::int64_t i = 0; i < cells; i += step) result |= ghosts[i] != value(i);
      std::puts(result ? "wrong" : "ok");
    }
  } catch (const nearfield::HaloError& error) {
    if (rank == 1) std::printf("code %d: %s\n", error.code, error.what());
    result = 3;
  }
  std::fflush(stdout);
  MPI_Finalize();
  return result;
}
