// A job for tests of a site's rules: prints a variable as MPI_Init found it, on each rank, and sends long messages both
// ways. With "fork" each rank also makes a child process that ends normally.
#include <mpi.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0, size = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const char* value = argc > 1 ? std::getenv(argv[1]) : nullptr;
  if (argc > 2 && std::strcmp(argv[2], "fork") == 0) {
    const pid_t child = fork();
    if (child == 0) std::exit(0);
    waitpid(child, nullptr, 0);
  }
  std::vector<char> sent(1 << 20, static_cast<char>(rank + 1)), received(1 << 20);
  const int peer = rank ^ 1;
  bool right = true;
  for (int i = 0; i < 8 && size > 1; ++i) {
    MPI_Sendrecv(sent.data(), 1 << 20, MPI_CHAR, peer, 0, received.data(), 1 << 20, MPI_CHAR, peer, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    right = right && received.front() == peer + 1 && received.back() == peer + 1;
  }
  std::printf("rank %d value %s data %s\n", rank, value ? value : "-", right ? "right" : "WRONG");
  std::fflush(stdout);
  MPI_Finalize();
  return right ? 0 : 1;
}
