// Long messages from all kinds of memory, two ranks: each word of argv is one message of 1 MiB from rank 1 to rank 0.
//   heap    from a block of the heap      static  from static data
//   fork    from a block that was there before rank 1 forked
#include <mpi.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <vector>

namespace {

constexpr int bytes = 1 << 20;
char in_data[bytes];

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  std::vector<char> block(bytes, 1), received(bytes);
  for (int i = 1; i < argc; ++i) {
    const std::string how = argv[i];
    if (how == "fork" && rank == 1) {
      const pid_t child = fork();
      if (child == 0) _exit(0);
      waitpid(child, nullptr, 0);
    }
    char* from = how == "static" ? in_data : block.data();
    if (rank == 1) MPI_Send(from, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
    if (rank == 0) MPI_Recv(received.data(), bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
  MPI_Finalize();
}
