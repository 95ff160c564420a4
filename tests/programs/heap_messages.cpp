// Long messages between blocks of the heap, two ranks: argv says how. Every byte is checked; rank 0 prints "all right".
//
//   messages   both ways at once, of 4 KiB to 4 MiB, to blocks of all alignments, which come and go
//   windows    MPI_Put, MPI_Get and MPI_Accumulate, to memory of the program and of MPI
//   threads    under MPI_THREAD_MULTIPLE, three threads in each rank
//   spawn      with a process that is started later, over and over
//   fork       each rank forks between messages, and both generations keep their bytes
//   freed      a message whose request is freed arrives during MPI_Finalize; nobody can look at its bytes
#include <mpi.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

namespace {

using Byte = unsigned char;
constexpr int longest = 4 << 20;
int own = 0;

Byte content(int i, int seed) { return static_cast<Byte>((i + 1) * (2 * seed + 0x9e3779b9u) >> 13); }

void check(bool holds, const char* what) {
  if (holds) return;
  std::printf("rank %d: wrong %s\n", own, what);
  std::fflush(stdout);
  MPI_Abort(MPI_COMM_WORLD, 3);
}

struct Block {
  Block(int bytes, std::size_t alignment) : bytes(bytes) {
    check(posix_memalign(&memory, alignment, static_cast<std::size_t>(bytes)) == 0, "posix_memalign");
  }
  ~Block() { std::free(memory); }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  Byte& operator[](int i) { return static_cast<Byte*>(memory)[i]; }
  void fill(int seed) {
    for (int i = 0; i < bytes; ++i) (*this)[i] = content(i, seed);
  }
  void verify(int seed, const char* what) {
    for (int i = 0; i < bytes; ++i)
      if ((*this)[i] != content(i, seed)) check(false, what);
  }

  int bytes;
  void* memory = nullptr;
};

// One message there and one back, at once. What was sent must not change either.
void exchange(MPI_Comm comm, int with, Block& out, Block& in, int tag) {
  int rank = 0;
  MPI_Comm_rank(comm, &rank);
  out.fill(tag * 10 + rank);
  in.fill(77);
  MPI_Request requests[2];
  MPI_Irecv(in.memory, in.bytes, MPI_BYTE, with, tag, comm, &requests[0]);
  MPI_Isend(out.memory, out.bytes, MPI_BYTE, with, tag, comm, &requests[1]);
  MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  in.verify(tag * 10 + with, "message");
  out.verify(tag * 10 + rank, "after sending");
}

void exchange(MPI_Comm comm, int with, int bytes, std::size_t alignment, int tag) {
  Block out(bytes, alignment), in(bytes, alignment);
  exchange(comm, with, out, in, tag);
}

void messages() {
  int tag = 0;
  for (int bytes = 4096; bytes <= longest; bytes *= 2)
    for (const int off : {0, 1, -1, 1000}) exchange(MPI_COMM_WORLD, 1 - own, bytes + off, 8u << ++tag % 14, tag);
  // Sends the same blocks again and again, one way, while the sender waits and may help.
  for (const int bytes : {8192, 300000, longest}) {
    Block block(bytes, 4096);
    for (int round = 0; round < (bytes == 300000 ? 100 : 10); ++round) {
      if (own == 0) block.fill(round);
      if (own == 0) MPI_Send(block.memory, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
      if (own == 1) MPI_Recv(block.memory, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      block.verify(round, "message of a row");
    }
  }
}

void use_window(MPI_Win win, Byte* memory, int bytes) {
  Block mine(bytes, 64), theirs(bytes, 64);
  for (int round = 0; round < 4; ++round) {
    mine.fill(10 * round + own);
    MPI_Win_fence(0, win);
    MPI_Put(mine.memory, bytes, MPI_BYTE, 1 - own, 0, bytes, MPI_BYTE, win);
    MPI_Win_fence(0, win);
    for (int i = 0; i < bytes; ++i)
      if (memory[i] != content(i, 10 * round + 1 - own)) check(false, "after MPI_Put");
    MPI_Win_fence(0, win);
    MPI_Get(theirs.memory, bytes, MPI_BYTE, 1 - own, 0, bytes, MPI_BYTE, win);
    MPI_Win_fence(0, win);
    theirs.verify(10 * round + own, "after MPI_Get");
  }
  MPI_Win_fence(0, win);
  MPI_Accumulate(mine.memory, bytes, MPI_BYTE, 1 - own, 0, bytes, MPI_BYTE, MPI_BXOR, win);
  MPI_Win_fence(0, win);
  for (int i = 0; i < bytes; ++i) check(memory[i] == 0, "after MPI_Accumulate");
}

void windows() {
  for (const int bytes : {5000, 300000, longest}) {
    MPI_Win win;
    Block block(bytes, 64);
    MPI_Win_create(block.memory, bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    use_window(win, &block[0], bytes);
    MPI_Win_free(&win);
    Byte* memory = nullptr;
    MPI_Win_allocate(bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
    use_window(win, memory, bytes);
    MPI_Win_free(&win);
  }
}

void threads() {
  std::vector<std::thread> all;
  for (int thread = 1; thread <= 3; ++thread)
    all.emplace_back([=] {
      for (int round = 0; round < 12; ++round)
        exchange(MPI_COMM_WORLD, 1 - own, 5000 + round * round * 6000 + thread, 64, thread * 100 + round);
      Block out(1 << 20, 64), in(1 << 20, 64);
      for (int round = 0; round < 30; ++round) exchange(MPI_COMM_WORLD, 1 - own, out, in, thread * 100 + round);
    });
  for (std::thread& thread : all) thread.join();
}

void with_parent(MPI_Comm between, bool is_child) {
  MPI_Comm all;
  MPI_Intercomm_merge(between, is_child, &all);
  int rank = 0;
  MPI_Comm_rank(all, &rank);
  for (const int bytes : {5000, 100000, longest}) {
    if (rank == 0) exchange(all, 2, bytes, 64, 1);
    if (rank == 2) exchange(all, 0, bytes, 64, 1);
    if (rank == 1) exchange(all, 2, bytes, 64, 2);
    if (rank == 2) exchange(all, 1, bytes, 64, 2);
  }
  MPI_Comm_free(&all);
  MPI_Comm_disconnect(&between);
}

void spawn(char* program) {
  char word[] = "spawn";
  char* arguments[] = {word, nullptr};
  for (int round = 0; round < 2; ++round) {
    MPI_Comm between;
    MPI_Comm_spawn(program, arguments, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &between, MPI_ERRCODES_IGNORE);
    with_parent(between, false);
    exchange(MPI_COMM_WORLD, 1 - own, longest, 64, round);
  }
}

void fork_between() {
  Block inherited(longest, 64);
  for (int round = 0; round < 5; ++round) {
    inherited.fill(round);
    const pid_t child = fork();
    if (child == 0) {
      inherited.verify(round, "in a child");
      inherited.fill(50);
      _exit(0);
    }
    // It overlaps with the child's writing.
    Block in(longest, 64);
    for (int again = 0; again < 3; ++again) {
      MPI_Sendrecv(inherited.memory, longest, MPI_BYTE, 1 - own, 0, in.memory, longest, MPI_BYTE, 1 - own, 0,
                   MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      in.verify(round, "message after a fork");
    }
    int status = 1;
    check(waitpid(child, &status, 0) == child && status == 0, "end of a child");
    inherited.verify(round, "after a fork");
    exchange(MPI_COMM_WORLD, 1 - own, 300000, 64, round);
  }
}

// Rank 0 sends only after rank 1 has freed its request, so that MPI_Finalize of rank 1 receives.
void freed() {
  auto* block = new Block(300000, 64);  // for good: MPI_Finalize writes to it
  block->fill(own);
  MPI_Request request;
  if (own == 1) {
    MPI_Irecv(block->memory, block->bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD, &request);
    MPI_Request_free(&request);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (own == 0) std::puts("all right");
  if (own == 0) MPI_Send(block->memory, block->bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string how = argc > 1 ? argv[1] : "messages";
  int provided = 0;
  MPI_Init_thread(&argc, &argv, how == "threads" ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &own);
  MPI_Comm parent;
  MPI_Comm_get_parent(&parent);
  if (parent != MPI_COMM_NULL) {
    with_parent(parent, true);
    MPI_Finalize();
    return 0;
  }
  if (how == "messages") messages();
  if (how == "windows") windows();
  if (how == "threads" && provided == MPI_THREAD_MULTIPLE) threads();
  if (how == "spawn") spawn(argv[0]);
  if (how == "fork") fork_between();
  if (how == "freed") {
    freed();
  } else {
    MPI_Barrier(MPI_COMM_WORLD);
    if (own == 0) std::puts("all right");
  }
  MPI_Finalize();
}
