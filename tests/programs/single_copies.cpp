// Which messages does the kernel copy from process to process? Rank 0 sends one message at a time to each other rank,
// in every way and size; the receiver counts its own calls of process_vm_readv meanwhile, which MPICH's CMA makes, and
// prints `<way> <size> <to> <calls>`, with `to` a rank of MPI_COMM_WORLD.
//
// argv: `multiple` for MPI_THREAD_MULTIPLE.
#include <mpi.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <vector>

static int calls = 0;

// Stands before the C library's. With -rdynamic the MPI library finds this one.
extern "C" __attribute__((visibility("default"))) ssize_t process_vm_readv(pid_t pid, const iovec* local,
                                                                           unsigned long n_local, const iovec* remote,
                                                                           unsigned long n_remote,
                                                                           unsigned long flags) noexcept {
  ++calls;
  return syscall(SYS_process_vm_readv, pid, local, n_local, remote, n_remote, flags);
}

namespace {

const int sizes[] = {1000, 12000, 20000, 50000, 200000};

struct Way {
  const char* name;
  MPI_Comm comm;
  void (*send)(char* memory, int size, int to, MPI_Comm comm);
};

void finish(MPI_Request request) { MPI_Wait(&request, MPI_STATUS_IGNORE); }

void send(char* memory, int size, int to, MPI_Comm comm) { MPI_Send(memory, size, MPI_CHAR, to, 1, comm); }

void ssend(char* memory, int size, int to, MPI_Comm comm) { MPI_Ssend(memory, size, MPI_CHAR, to, 1, comm); }

void isend(char* memory, int size, int to, MPI_Comm comm) {
  MPI_Request request;
  MPI_Isend(memory, size, MPI_CHAR, to, 1, comm, &request);
  finish(request);
}

void persistent(char* memory, int size, int to, MPI_Comm comm) {
  MPI_Request request;
  MPI_Send_init(memory, size, MPI_CHAR, to, 1, comm, &request);
  MPI_Start(&request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_Request_free(&request);
}

void sendrecv(char* memory, int size, int to, MPI_Comm comm) {
  MPI_Sendrecv(memory, size, MPI_CHAR, to, 1, nullptr, 0, MPI_CHAR, MPI_PROC_NULL, 1, comm, MPI_STATUS_IGNORE);
}

void sendrecv_replace(char* memory, int size, int to, MPI_Comm comm) {
  MPI_Sendrecv_replace(memory, size, MPI_CHAR, to, 1, MPI_PROC_NULL, 1, comm, MPI_STATUS_IGNORE);
}

int world_rank(MPI_Comm comm, int rank) {
  MPI_Group theirs, world;
  int found = 0;
  MPI_Comm_group(comm, &theirs);
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  MPI_Group_translate_ranks(theirs, 1, &rank, world, &found);
  MPI_Group_free(&theirs);
  MPI_Group_free(&world);
  return found;
}

void receive(const char* way, char* memory, int size, int from, int own_world_rank, MPI_Comm comm) {
  calls = 0;
  MPI_Recv(memory, size, MPI_CHAR, from, 1, comm, MPI_STATUS_IGNORE);
  std::printf("%s %d %d %d\n", way, size, own_world_rank, calls);
}

// The sender is rank 0 of the world, whatever it is in the communicator.
void each_alone(const Way& way, int own, std::vector<char>& memory) {
  int size = 0, rank = 0, sender = 0;
  MPI_Comm_size(way.comm, &size);
  MPI_Comm_rank(way.comm, &rank);
  for (int r = 0; r < size; ++r)
    if (world_rank(way.comm, r) == 0) sender = r;
  for (int bytes : sizes) {
    for (int to = 0; to < size; ++to) {
      if (to == sender) continue;
      if (rank == sender) way.send(memory.data(), bytes, to, way.comm);
      if (rank == to) receive(way.name, memory.data(), bytes, sender, own, way.comm);
      MPI_Barrier(way.comm);
    }
  }
}

// All started at once by MPI_Startall, twice, with a receive from nobody among them.
void started_together(int own, int ranks, std::vector<char>& memory) {
  for (int bytes : sizes) {
    std::vector<MPI_Request> requests(static_cast<std::size_t>(ranks));
    if (own == 0) {
      MPI_Recv_init(memory.data(), 1, MPI_CHAR, MPI_PROC_NULL, 1, MPI_COMM_WORLD, &requests[0]);
      for (int to = 1; to < ranks; ++to)
        MPI_Send_init(memory.data(), bytes, MPI_CHAR, to, 1, MPI_COMM_WORLD, &requests[static_cast<std::size_t>(to)]);
    }
    for (int turn = 0; turn < 2; ++turn) {
      if (own == 0) {
        MPI_Startall(ranks, requests.data());
        MPI_Waitall(ranks, requests.data(), MPI_STATUSES_IGNORE);
      } else {
        receive("startall", memory.data(), bytes, 0, own, MPI_COMM_WORLD);
      }
      MPI_Barrier(MPI_COMM_WORLD);
    }
    if (own == 0)
      for (MPI_Request& request : requests) MPI_Request_free(&request);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const bool multiple = argc > 1 && std::strcmp(argv[1], "multiple") == 0;
  int provided = 0, own = 0, ranks = 0;
  if (multiple)
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  else
    MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &own);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  std::vector<char> memory(1 << 20);
  const Way ways[] = {{"send", MPI_COMM_WORLD, send},         {"ssend", MPI_COMM_WORLD, ssend},
                      {"isend", MPI_COMM_WORLD, isend},       {"persistent", MPI_COMM_WORLD, persistent},
                      {"sendrecv", MPI_COMM_WORLD, sendrecv}, {"replace", MPI_COMM_WORLD, sendrecv_replace}};
  for (const Way& way : ways) each_alone(way, own, memory);
  started_together(own, ranks, memory);

  // The handle of a freed communicator comes back for the next one, with other members.
  for (const char* name : {"reversed", "rotated"}) {
    MPI_Comm other;
    MPI_Comm_split(MPI_COMM_WORLD, 0, name[1] == 'e' ? -own : (own + 1) % ranks, &other);
    each_alone({name, other, isend}, own, memory);
    MPI_Comm_free(&other);
  }
  // Between communicators: rank 0 alone on one side.
  MPI_Comm side, across;
  MPI_Comm_split(MPI_COMM_WORLD, own == 0, -own, &side);
  MPI_Intercomm_create(side, 0, MPI_COMM_WORLD, own == 0 ? ranks - 1 : 0, 7, &across);
  for (int bytes : sizes) {
    for (int to = 0; to < ranks - 1; ++to) {
      if (own == 0) send(memory.data(), bytes, to, across);
      if (own == ranks - 1 - to) receive("inter", memory.data(), bytes, 0, own, across);
      MPI_Barrier(MPI_COMM_WORLD);
    }
  }
  MPI_Comm_free(&across);
  MPI_Comm_free(&side);
  MPI_Finalize();
}
