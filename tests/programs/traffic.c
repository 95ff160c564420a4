// Many messages of random sizes between all ranks, sent in every way there is, received from anyone; prints one digest
// of all that arrived:  digest <hex>. It depends on the arguments (seed, rounds) and the number of ranks only.
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PER_ROUND = 48, LARGEST = 300000, WAYS = 5 };
enum { ISEND, ISSEND, IBSEND, PERSISTENT, STRIDED };

struct message {
  int from, to, size, way, tag;
};

static uint64_t state;
static uint32_t next(uint32_t below) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)((state >> 33) % below);
}

static void plan(struct message* m, int n_ranks) {
  for (int i = 0; i < PER_ROUND; ++i) {
    m[i].from = (int)next((uint32_t)n_ranks);
    m[i].to = (int)((unsigned)m[i].from + 1 + next((uint32_t)n_ranks - 1)) % n_ranks;
    m[i].size = (int)next(1u << (1 + next(18))) & ~1;
    if (m[i].size > LARGEST) m[i].size = LARGEST;
    m[i].way = (int)next(WAYS);
    m[i].tag = i;
  }
}

static uint64_t hash(const unsigned char* bytes, int size, uint64_t h) {
  for (int i = 0; i < size; ++i) h = (h ^ bytes[i]) * 1099511628211u;
  return h;
}

static void fill(unsigned char* bytes, int size, uint32_t key) {
  for (int i = 0; i < size; ++i) bytes[i] = (unsigned char)((key += 0x9E3779B9u * (uint32_t)(i | 1)) >> 24);
}

// Every second byte of twice the room.
static MPI_Datatype strided(int size) {
  MPI_Datatype type;
  MPI_Type_vector(size, 1, 2, MPI_BYTE, &type);
  MPI_Type_commit(&type);
  return type;
}

static unsigned char* start_send(const struct message* m, uint32_t key, MPI_Request* request) {
  unsigned char* bytes = calloc(2 * (size_t)m->size + 1, 1);
  fill(bytes, m->size, key);
  switch (m->way) {
    case ISEND:
      MPI_Isend(bytes, m->size, MPI_BYTE, m->to, m->tag, MPI_COMM_WORLD, request);
      break;
    case ISSEND:
      MPI_Issend(bytes, m->size, MPI_BYTE, m->to, m->tag, MPI_COMM_WORLD, request);
      break;
    case IBSEND:
      MPI_Ibsend(bytes, m->size, MPI_BYTE, m->to, m->tag, MPI_COMM_WORLD, request);
      break;
    case PERSISTENT:
      MPI_Send_init(bytes, m->size, MPI_BYTE, m->to, m->tag, MPI_COMM_WORLD, request);
      MPI_Start(request);
      break;
    default: {
      for (int i = m->size - 1; i >= 0; --i) bytes[2 * i] = bytes[i];
      MPI_Datatype type = strided(m->size);
      MPI_Isend(bytes, 1, type, m->to, m->tag, MPI_COMM_WORLD, request);
      MPI_Type_free(&type);
    }
  }
  return bytes;
}

// One in three is received into strided memory; the digest is of the bytes of the message.
static uint64_t digest_of(unsigned char* bytes, int is_strided, const MPI_Status* status) {
  int size;
  MPI_Get_count(status, MPI_BYTE, &size);
  for (int i = 0; is_strided && i < size; ++i) bytes[i] = bytes[2 * i];
  return hash(bytes, size, (uint64_t)status->MPI_SOURCE * 1000 + (uint64_t)status->MPI_TAG + 14695981039346656037u);
}

static uint64_t one_round(int round, int rank, int n_ranks) {
  struct message m[PER_ROUND];
  MPI_Request sends[PER_ROUND], receives[PER_ROUND];
  unsigned char *sent[PER_ROUND], *received[PER_ROUND];
  int n_sends = 0, n_receives = 0, into_strided[PER_ROUND], persistent[PER_ROUND];
  uint64_t digest = 0;
  MPI_Status statuses[PER_ROUND];
  plan(m, n_ranks);
  for (int i = 0; i < PER_ROUND; ++i) {
    if (m[i].to == rank) {
      const int n = n_receives++;
      received[n] = malloc(2 * LARGEST + 1);
      into_strided[n] = m[i].tag % 3 == 0 && round % 2 == 0;
      // Odd rounds: anything from anyone. Even rounds: this tag, from anyone.
      MPI_Datatype type = into_strided[n] ? strided(m[i].size) : MPI_BYTE;
      MPI_Irecv(received[n], into_strided[n] ? 1 : LARGEST, type, MPI_ANY_SOURCE, round % 2 ? MPI_ANY_TAG : m[i].tag,
                MPI_COMM_WORLD, &receives[n]);
      if (into_strided[n]) MPI_Type_free(&type);
    }
    if (m[i].from == rank) {
      persistent[n_sends] = m[i].way == PERSISTENT;
      sent[n_sends] = start_send(&m[i], (uint32_t)(round * 1000 + i), &sends[n_sends]);
      ++n_sends;
    }
  }
  MPI_Waitall(n_receives, receives, statuses);
  for (int i = 0; i < n_receives; ++i) {
    digest ^= digest_of(received[i], into_strided[i], &statuses[i]);
    free(received[i]);
  }
  MPI_Waitall(n_sends, sends, MPI_STATUSES_IGNORE);
  for (int i = 0; i < n_sends; ++i) {
    if (persistent[i]) MPI_Request_free(&sends[i]);
    free(sent[i]);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  return digest * (uint64_t)(2 * round + 1);
}

int main(int argc, char** argv) {
  int rank, n_ranks, size = PER_ROUND * (LARGEST + MPI_BSEND_OVERHEAD);
  uint64_t mine = 0, all = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &n_ranks);
  state = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
  const int rounds = argc > 2 ? atoi(argv[2]) : 20;
  void* buffer = malloc((size_t)size);
  MPI_Buffer_attach(buffer, size);
  for (int round = 0; round < rounds; ++round) mine += one_round(round, rank, n_ranks);
  MPI_Buffer_detach(&buffer, &size);
  free(buffer);
  MPI_Reduce(&mine, &all, 1, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
  if (rank == 0) printf("digest %016llx\n", (unsigned long long)all);
  MPI_Finalize();
  return 0;
}
