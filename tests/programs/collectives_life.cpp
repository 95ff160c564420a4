// Lives of communicators and ranks under the collectives of a node. argv[1]: what to do.
//   churn   duplicates and frees MPI_COMM_WORLD 1500 times, or as often as the next argument says; prints "flat" if
//           memory and descriptors do not grow
//   killed  rank 1 ends by SIGKILL while the others wait for it in a collective
//   exits   rank 1 leaves by _exit(7) in the same way
//   sums    does 1000 short collectives, or as many as the next argument says
//   endless does short collectives until it is killed; prints "ready" after 100
//   busy    does collectives during 3 s while each rank shares its core with a busy process; prints their number
#include <mpi.h>
#include <sched.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace {

int rank = 0, ranks = 0;

void sum(MPI_Comm comm, std::vector<int>& values) {
  std::vector<int> sums(values.size());
  MPI_Allreduce(values.data(), sums.data(), static_cast<int>(values.size()), MPI_INT, MPI_SUM, comm);
  for (std::size_t i = 0; i < sums.size(); ++i)
    if (sums[i] != ranks * values[i]) MPI_Abort(MPI_COMM_WORLD, 3);
}

// Returns a number of this process from a file of /proc, such as VmRSS of status, in KiB.
long read_number(const char* file, const char* name) {
  char line[256];
  long value = -1;
  std::FILE* const status = std::fopen(file, "r");
  while (std::fgets(line, sizeof line, status))
    if (std::strncmp(line, name, std::strlen(name)) == 0) value = std::atol(line + std::strlen(name));
  std::fclose(status);
  return value;
}

void use_communicators(int count) {
  std::vector<int> few(2, 5), many(100'000, 3);
  for (int i = 0; i < count; ++i) {
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    for (int step = 0; step < 4; ++step) sum(comm, few);
    if (i % 100 == 0) sum(comm, many);
    MPI_Comm_free(&comm);
  }
}

// A communicator may leave 5 KiB in the mean, besides what the process as a whole may grow by.
void churn(int count) {
  use_communicators(300);
  const long memory = read_number("/proc/self/status", "VmRSS:"),
             shared = read_number("/proc/self/status", "RssShmem:");
  use_communicators(count);
  const long more = read_number("/proc/self/status", "VmRSS:") - memory;
  const long more_shared = read_number("/proc/self/status", "RssShmem:") - shared;
  const int file = dup(0);  // the lowest free descriptor
  if (rank == 0)
    std::printf(more < 5 * count + 700 && more_shared < 2048 && file < 100 ? "flat\n" : "grows by %ld KiB\n", more);
}

// Binds this process to the core on which it is, and starts a process there that never waits. Returns its ID.
pid_t start_busy_process() {
  cpu_set_t core;
  CPU_ZERO(&core);
  CPU_SET(sched_getcpu(), &core);
  sched_setaffinity(0, sizeof core, &core);
  const pid_t process = fork();
  if (process < 0) std::abort();  // kill(-1) at the end would reach every process of this user
  if (process == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (volatile unsigned turns = 0;; turns = turns + 1) continue;
  }
  return process;
}

void compute(unsigned turns) {
  for (volatile unsigned turn = 0; turn < turns; turn = turn + 1) continue;
}

// Returns how many collectives the ranks did in 3 s, before each of which one of them computes for longer.
long count_collectives() {
  std::vector<int> few(2, 5);
  const double begin = MPI_Wtime();
  long count = 0;
  for (int is_over = 0; !is_over; count += 11) {
    for (int step = 0; step < 10; ++step) {
      compute(step % ranks == rank ? 100'000 : 10'000);
      sum(MPI_COMM_WORLD, few);
    }
    is_over = rank == 0 && MPI_Wtime() - begin > 3;
    MPI_Bcast(&is_over, 1, MPI_INT, 0, MPI_COMM_WORLD);
  }
  return count;
}

}  // namespace

int main(int argc, char** argv) {
  const pid_t busy = std::strcmp(argv[1], "busy") == 0 ? start_busy_process() : 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (std::strcmp(argv[1], "churn") == 0) {
    churn(argc > 2 ? std::atoi(argv[2]) : 1500);
  } else if (std::strcmp(argv[1], "sums") == 0) {
    const int count = argc > 2 ? std::atoi(argv[2]) : 1000;
    std::vector<int> few(2, 5);
    for (int i = 0; i < count; ++i) sum(MPI_COMM_WORLD, few);
  } else if (std::strcmp(argv[1], "endless") == 0) {
    std::vector<int> few(2, 5);
    for (int i = 0;; ++i) {
      if (i == 100 && rank == 0) std::puts("ready");
      if (i == 100) std::fflush(stdout);
      sum(MPI_COMM_WORLD, few);
    }
  } else if (busy) {
    const long count = count_collectives();
    if (rank == 0) std::printf("%ld collectives\n", count);
    kill(busy, SIGKILL);
  } else {
    std::vector<int> values(1, 2);
    for (int step = 0; step < 100; ++step) sum(MPI_COMM_WORLD, values);
    if (rank == 1) {
      usleep(200'000);
      if (std::strcmp(argv[1], "killed") == 0) raise(SIGKILL);
      _exit(7);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    std::printf("not reached\n");
  }
  MPI_Finalize();
}
