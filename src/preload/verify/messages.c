// Payloads of messages, and blocking sends and receives. Each message that is sent is added to the digest of its
// stream, which consists of all messages to one rank with one tag. So neither the order of messages of different
// streams nor the division of a stream into messages matters. Received data need no digest of their own: another rank
// has sent them, and the memory that they are written to is checked.
#include <stdlib.h>
#include <string.h>

#include "verify.h"

enum { LOGGED = 10000 };  // a stream's digest is logged after each of its first LOGGED messages, and at the end

typedef struct stream {
  struct stream* next;
  int peer, tag;
  long messages;
  nf_digest digest;
} stream;

static stream* streams NF_STATE;

int nf_is_synchronous(void) { return getenv("NEARFIELD_VERIFY_SYNCHRONOUS") != NULL; }

void* __real_malloc(size_t);
void* __real_calloc(size_t, size_t);
void __real_free(void*);

static stream* stream_of(int peer, int tag) {
  for (stream* at = streams; at; at = at->next)
    if (at->peer == peer && at->tag == tag) return at;
  stream* made = __real_malloc(sizeof *made);
  if (!made) abort();
  *made = (stream){streams, peer, tag, 0, {0, 0, 0}};
  return streams = made;
}

// Returns the rank in MPI_COMM_WORLD of a rank of `comm`; for an intercommunicator `peer` itself.
static int world_rank(int peer, MPI_Comm comm) {
  MPI_Group group, world;
  int is_inter, found;
  PMPI_Comm_test_inter(comm, &is_inter);
  if (is_inter || comm == MPI_COMM_WORLD) return peer;
  PMPI_Comm_group(comm, &group);
  PMPI_Comm_group(MPI_COMM_WORLD, &world);
  PMPI_Group_translate_ranks(group, 1, &peer, world, &found);
  PMPI_Group_free(&group);
  PMPI_Group_free(&world);
  return found;
}

nf_payload nf_payload_of(const void* buffer, int count, MPI_Datatype type) {
  nf_payload made = {NULL, 0, 0, count, 0, type, (void*)buffer};
  MPI_Aint low, extent, true_low, true_extent;
  int size;
  if (count <= 0) return made;
  PMPI_Type_size(type, &size);
  PMPI_Type_get_extent(type, &low, &extent);
  PMPI_Type_get_true_extent(type, &true_low, &true_extent);
  MPI_Aint others = extent * (count - 1);
  made.data = (char*)buffer + true_low + (others < 0 ? others : 0);
  made.span = (size_t)(true_extent + (others < 0 ? -others : others));
  made.bytes = (size_t)size * (size_t)count;
  made.is_packed = made.span != made.bytes;
  return made;
}

static void add_payload(nf_digest* digest, const nf_payload* payload) {
  if (!payload->is_packed) {
    nf_digest_add(digest, payload->data, payload->bytes);
    return;
  }
  int size, at = 0;
  PMPI_Pack_size(payload->count, payload->type, MPI_COMM_SELF, &size);
  char* packed = __real_malloc((size_t)size);
  if (!packed) abort();
  PMPI_Pack(payload->buffer, payload->count, payload->type, packed, size, &at, MPI_COMM_SELF);
  nf_digest_add(digest, packed, (size_t)at);
  __real_free(packed);
}

uint64_t nf_payload_hash(const nf_payload* payload) {
  nf_digest digest = {0, 0, 0};
  add_payload(&digest, payload);
  return nf_digest_hash(&digest);
}

void nf_add_message(const nf_payload* payload, int peer, int is_receive) {
  void (*add_access)(const void*, size_t) = is_receive ? nf_add_write : nf_add_read;
  if (peer == MPI_PROC_NULL || payload->bytes == 0) return;
  if (!payload->is_packed) {
    add_access(payload->data, payload->bytes);
    return;
  }
  // The bytes that belong to the type are those that MPI_Unpack writes.
  int size, at = 0;
  PMPI_Pack_size(payload->count, payload->type, MPI_COMM_SELF, &size);
  char *packed = __real_malloc((size_t)size), *mask = __real_calloc(1, payload->span);
  if (!packed || !mask) abort();
  memset(packed, -1, (size_t)size);
  char* begin = mask + ((char*)payload->buffer - payload->data);
  PMPI_Unpack(packed, size, &at, begin, payload->count, payload->type, MPI_COMM_SELF);
  for (size_t i = 0, end; i < payload->span; i = end + 1) {
    for (end = i; end < payload->span && mask[end]; ++end);
    add_access(payload->data + i, end - i);
  }
  __real_free(packed);
  __real_free(mask);
}

static void log_stream(const stream* of) {
  nf_log("sent %d %d %lu %016lx", of->peer, of->tag, of->digest.bytes, nf_digest_hash(&of->digest));
}

void nf_record_send(const void* buffer, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm) {
  if (peer == MPI_PROC_NULL) return;
  nf_payload payload = nf_payload_of(buffer, count, type);
  stream* found = stream_of(world_rank(peer, comm), tag);
  add_payload(&found->digest, &payload);
  nf_add_message(&payload, peer, 0);
  if (++found->messages <= LOGGED) log_stream(found);
}

static void log_streams(void) {
  for (const stream* at = streams; at; at = at->next) log_stream(at);
}

static int begin_log(int result) {
  int rank;
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  nf_open_log(rank);
  return result;
}

int MPI_Init(int* argc, char*** argv) { return begin_log(PMPI_Init(argc, argv)); }

int MPI_Init_thread(int* argc, char*** argv, int required, int* provided) {
  return begin_log(PMPI_Init_thread(argc, argv, required, provided));
}

int MPI_Finalize(void) {
  nf_check_memory("MPI_Finalize");
  nf_check_requests();
  log_streams();
  nf_log("end");
  nf_close_log();
  return PMPI_Finalize();
}

typedef int (*sending)(const void*, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request*);

// Logs a message, sends it by the nonblocking function `how`, and waits for the end of the send.
static int send_and_wait(sending how, const void* buffer, int count, MPI_Datatype type, int peer, int tag,
                         MPI_Comm comm) {
  MPI_Request request;
  nf_record_send(buffer, count, type, peer, tag, comm);
  int result = how(buffer, count, type, peer, tag, comm, &request);
  return result == MPI_SUCCESS ? nf_wait(&request, MPI_STATUS_IGNORE) : result;
}

#define NF_SEND(name, really)                                                                          \
  int MPI_##name(const void* buffer, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm) { \
    return send_and_wait(really, buffer, count, type, peer, tag, comm);                                \
  }
NF_SEND(Send, nf_is_synchronous() ? PMPI_Issend : PMPI_Isend)
NF_SEND(Ssend, PMPI_Issend)
NF_SEND(Rsend, PMPI_Irsend)
NF_SEND(Bsend, PMPI_Ibsend)

int MPI_Recv(void* buffer, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm, MPI_Status* status) {
  MPI_Request request;
  nf_payload payload = nf_payload_of(buffer, count, type);
  nf_add_message(&payload, peer, 1);
  int result = PMPI_Irecv(buffer, count, type, peer, tag, comm, &request);
  return result == MPI_SUCCESS ? nf_wait(&request, status) : result;
}

int MPI_Sendrecv(const void* send_buffer, int send_count, MPI_Datatype send_type, int to, int send_tag, void* buffer,
                 int count, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Status* status) {
  MPI_Request send, receive;
  nf_payload payload = nf_payload_of(buffer, count, type);
  nf_record_send(send_buffer, send_count, send_type, to, send_tag, comm);
  nf_add_message(&payload, from, 1);
  PMPI_Isend(send_buffer, send_count, send_type, to, send_tag, comm, &send);
  PMPI_Irecv(buffer, count, type, from, tag, comm, &receive);
  nf_wait(&send, MPI_STATUS_IGNORE);
  return nf_wait(&receive, status);
}

int MPI_Sendrecv_replace(void* buffer, int count, MPI_Datatype type, int to, int send_tag, int from, int tag,
                         MPI_Comm comm, MPI_Status* status) {
  nf_payload payload = nf_payload_of(buffer, count, type);
  nf_record_send(buffer, count, type, to, send_tag, comm);
  nf_add_message(&payload, from, 1);
  return PMPI_Sendrecv_replace(buffer, count, type, to, send_tag, from, tag, comm, status);
}
