// Rank 0 sends messages of the given sizes to every other rank, one by one, and says of each what the pair's limits
// made of it:  peer <rank> size <bytes> early <0|1> copies <n>
//   early   MPI_Send returned while the receiver, who was away, had not posted its receive: the message was sent
// eagerly
//   copies  how often the kernel copied between the two processes for it
// and at the end, per peer:  peer <rank> eager_up_to <bytes>   the largest size that was early (-1: none).
// Every byte is checked.
// Link with -rdynamic: the MPI library's calls of process_vm_readv must come here.
#define _GNU_SOURCE
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { TAG_GO, TAG_DATA, TAG_RETURNED, TAG_SEEN, LOOKS = 25, LOOK_EVERY_US = 2000, TRIES = 2 };

static long copies;

ssize_t process_vm_readv(pid_t pid, const struct iovec* local, unsigned long n_local, const struct iovec* remote,
                         unsigned long n_remote, unsigned long flags) {
  ++copies;
  return syscall(SYS_process_vm_readv, pid, local, n_local, remote, n_remote, flags);
}

ssize_t process_vm_writev(pid_t pid, const struct iovec* local, unsigned long n_local, const struct iovec* remote,
                          unsigned long n_remote, unsigned long flags) {
  ++copies;
  return syscall(SYS_process_vm_writev, pid, local, n_local, remote, n_remote, flags);
}

static unsigned char byte_at(long i, long size) { return (unsigned char)(i * 131 + (i >> 8) + size); }

struct seen {
  long early, copies, wrong;
};

// This says whether the sender's MPI_Send has returned. The shared-memory transport gives a fragment back only when the
// receiver has taken it in, so the receiver must look into MPI now and then; but it posts nothing.
static int stay_away(void) {
  int returned = 0;
  for (int i = 0; i < LOOKS && !returned; ++i) {
    usleep(LOOK_EVERY_US);
    MPI_Iprobe(0, TAG_RETURNED, MPI_COMM_WORLD, &returned, MPI_STATUS_IGNORE);
  }
  return returned;
}

static void receive(unsigned char* bytes, long size) {
  struct seen seen = {0, 0, 0};
  MPI_Send(NULL, 0, MPI_BYTE, 0, TAG_GO, MPI_COMM_WORLD);
  const long before = copies;
  for (long i = 0; i < size; ++i) bytes[i] = 0;
  seen.early = stay_away();
  MPI_Recv(bytes, (int)size, MPI_BYTE, 0, TAG_DATA, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Recv(NULL, 0, MPI_BYTE, 0, TAG_RETURNED, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  seen.copies = copies - before;
  for (long i = 0; i < size; ++i) seen.wrong += bytes[i] != byte_at(i, size);
  MPI_Send(&seen, sizeof seen, MPI_BYTE, 0, TAG_SEEN, MPI_COMM_WORLD);
}

static int send_once(unsigned char* bytes, long size, int peer, long* copied) {
  struct seen seen;
  MPI_Recv(NULL, 0, MPI_BYTE, peer, TAG_GO, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  for (long i = 0; i < size; ++i) bytes[i] = byte_at(i, size);
  const long before = copies;
  MPI_Send(bytes, (int)size, MPI_BYTE, peer, TAG_DATA, MPI_COMM_WORLD);
  *copied = copies - before;
  MPI_Send(NULL, 0, MPI_BYTE, peer, TAG_RETURNED, MPI_COMM_WORLD);
  MPI_Recv(&seen, sizeof seen, MPI_BYTE, peer, TAG_SEEN, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  if (seen.wrong) {
    printf("peer %d size %ld: %ld bytes are wrong\n", peer, size, seen.wrong);
    MPI_Abort(MPI_COMM_WORLD, 3);
  }
  *copied += seen.copies;
  return seen.early != 0;
}

// A sender that lost its core may be late without need, but never early: the better of two tries.
static int send_size(unsigned char* bytes, long size, int peer) {
  long copied = 0;
  int early = 0;
  for (int again = 1, tries = 1; again; ++tries) {
    early = send_once(bytes, size, peer, &copied);
    again = !early && tries < TRIES;
    MPI_Send(&again, 1, MPI_INT, peer, TAG_GO, MPI_COMM_WORLD);
  }
  printf("peer %d size %ld early %d copies %ld\n", peer, size, early, copied);
  return early;
}

static void follow(unsigned char* bytes, long size) {
  for (int again = 1; again;) {
    receive(bytes, size);
    MPI_Recv(&again, 1, MPI_INT, 0, TAG_GO, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
}

int main(int argc, char** argv) {
  int rank, n;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &n);
  for (int peer = 1; peer < n; ++peer) {
    long eager = -1;
    for (int i = 1; i < argc && (rank == 0 || rank == peer); ++i) {
      const long size = atol(argv[i]);
      unsigned char* bytes = malloc((size_t)size + 1);
      if (rank == peer) follow(bytes, size);
      if (rank == 0 && send_size(bytes, size, peer) && size > eager) eager = size;
      free(bytes);
    }
    if (rank == 0) printf("peer %d eager_up_to %ld\n", peer, eager);
  }
  MPI_Finalize();
  return 0;
}
