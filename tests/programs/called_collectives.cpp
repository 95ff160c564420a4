// Calls a known number of collectives, which tests/mpi/test_learn.py counts. "fail": ends with exit code 3. "lone": all
// ranks but the first one end without MPI_Finalize.
#include <mpi.h>
#include <unistd.h>

#include <cstring>
#include <vector>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0, ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const char* const what = argc > 1 ? argv[1] : "";
  std::vector<char> bytes(100000);
  double numbers[4] = {1, 2, 3, 4}, sums[4];
  for (int i = 0; i < 30; ++i) MPI_Allreduce(numbers, sums, 4, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  for (int i = 0; i < 10; ++i) MPI_Bcast(bytes.data(), 17, MPI_BYTE, 0, MPI_COMM_WORLD);
  for (int i = 0; i < 3; ++i) MPI_Bcast(bytes.data(), 100000, MPI_BYTE, ranks - 1, MPI_COMM_WORLD);
  for (int i = 0; i < 5; ++i) MPI_Barrier(MPI_COMM_WORLD);
  MPI_Bcast(bytes.data(), 0, MPI_BYTE, 0, MPI_COMM_WORLD);  // moves nothing

  MPI_Comm pairs;  // of two ranks each
  MPI_Comm_split(MPI_COMM_WORLD, rank / 2, rank, &pairs);
  for (int i = 0; i < 20; ++i) MPI_Allreduce(MPI_IN_PLACE, numbers, 1, MPI_DOUBLE, MPI_MAX, pairs);
  MPI_Comm_free(&pairs);

  if (std::strcmp(what, "lone") == 0) {
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank > 0) _exit(0);
  }
  MPI_Finalize();
  return std::strcmp(what, "fail") == 0 ? 3 : 0;
}
