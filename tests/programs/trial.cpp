// A small MPI program, for tests of building and launching. Without arguments: exchange, say who and where, end.
// `spin`: say the process id, then never end.
#include <mpi.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <vector>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0, size = 0, length = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  std::vector<char> memory(1 << 20, static_cast<char>(rank));
  if (rank < 2 && size > 1)
    MPI_Sendrecv_replace(memory.data(), 1 << 20, MPI_CHAR, 1 - rank, 0, 1 - rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  char host[256] = "", version[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  gethostname(host, sizeof host);
  MPI_Get_library_version(version, &length);
  version[std::strcspn(version, "\r\n")] = '\0';
  if (argc > 1) {
    std::printf("pid %d\n", static_cast<int>(getpid()));
    std::fflush(stdout);
    for (;;) MPI_Barrier(MPI_COMM_WORLD);
  }
  std::printf("rank %d of %d on %s got %d by %.80s\n", rank, size, host, memory[0], version);
  MPI_Finalize();
}
