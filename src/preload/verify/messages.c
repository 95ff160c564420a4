// Payloads of messages, and blocking sends and receives. Each message that is sent is added to the digest of its
// stream, which consists of all messages to one rank with one tag. So neither the order of messages of different
// streams nor the division of a stream into messages matters. Received data need no digest, since another rank has sent
// them and the memory to which they are written is checked.
#include <stdlib.h>
#include <string.h>

#include "verify.h"

// a stream's digest is logged after each of its first MAX_LOGGED_MESSAGES messages, and at the end
enum { MAX_LOGGED_MESSAGES = 10000 };

typedef struct message_stream {
  struct message_stream* next;
  int peer, tag;
  long num_messages;
  nf_digest digest;
} message_stream;

static message_stream* streams NF_STATE;

int nf_is_synchronous(void) { return getenv("NEARFIELD_VERIFY_SYNCHRONOUS") != NULL; }

void* __real_malloc(size_t);
void* __real_calloc(size_t, size_t);
void __real_free(void*);

static message_stream* find_or_add_stream(int peer, int tag) {
  for (message_stream* at = streams; at; at = at->next)
    if (at->peer == peer && at->tag == tag) return at;
  message_stream* added = __real_malloc(sizeof *added);
  if (!added) abort();
  *added = (message_stream){streams, peer, tag, 0, {0, 0, 0}};
  return streams = added;
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
  nf_payload payload = {NULL, 0, 0, count, 0, type, (void*)buffer};
  MPI_Aint low, extent, true_low, true_extent;
  int size;
  if (count <= 0) return payload;
  PMPI_Type_size(type, &size);
  PMPI_Type_get_extent(type, &low, &extent);
  PMPI_Type_get_true_extent(type, &true_low, &true_extent);
  MPI_Aint span_of_other_elements = extent * (count - 1);
  payload.data = (char*)buffer + true_low + (span_of_other_elements < 0 ? span_of_other_elements : 0);
  payload.span_bytes =
      (size_t)(true_extent + (span_of_other_elements < 0 ? -span_of_other_elements : span_of_other_elements));
  payload.bytes = (size_t)size * (size_t)count;
  payload.is_packed = payload.span_bytes != payload.bytes;
  return payload;
}

static void add_payload(nf_digest* digest, const nf_payload* payload) {
  if (!payload->is_packed) {
    nf_digest_add(digest, payload->data, payload->bytes);
    return;
  }
  int size, position = 0;
  PMPI_Pack_size(payload->count, payload->type, MPI_COMM_SELF, &size);
  char* packed = __real_malloc((size_t)size);
  if (!packed) abort();
  PMPI_Pack(payload->buffer, payload->count, payload->type, packed, size, &position, MPI_COMM_SELF);
  nf_digest_add(digest, packed, (size_t)position);
  __real_free(packed);
}

uint64_t nf_payload_hash(const nf_payload* payload) {
  nf_digest digest = {0, 0, 0};
  add_payload(&digest, payload);
  return nf_digest_hash(&digest);
}

void nf_add_message_access(const nf_payload* payload, int peer, int is_receive) {
  void (*add_access)(const void*, size_t) = is_receive ? nf_add_write : nf_add_read;
  if (peer == MPI_PROC_NULL || payload->bytes == 0) return;
  if (!payload->is_packed) {
    add_access(payload->data, payload->bytes);
    return;
  }
  // The bytes that belong to the type are those that MPI_Unpack writes.
  int size, position = 0;
  PMPI_Pack_size(payload->count, payload->type, MPI_COMM_SELF, &size);
  char *packed = __real_malloc((size_t)size), *mask = __real_calloc(1, payload->span_bytes);
  if (!packed || !mask) abort();
  memset(packed, -1, (size_t)size);
  char* begin = mask + ((char*)payload->buffer - payload->data);
  PMPI_Unpack(packed, size, &position, begin, payload->count, payload->type, MPI_COMM_SELF);
  for (size_t i = 0, end; i < payload->span_bytes; i = end + 1) {
    for (end = i; end < payload->span_bytes && mask[end]; ++end);
    add_access(payload->data + i, end - i);
  }
  __real_free(packed);
  __real_free(mask);
}

static void log_stream_digest(const message_stream* stream) {
  nf_log("sent %d %d %lu %016lx", stream->peer, stream->tag, stream->digest.bytes, nf_digest_hash(&stream->digest));
}

void nf_record_send(const void* buffer, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm) {
  if (peer == MPI_PROC_NULL) return;
  nf_payload payload = nf_payload_of(buffer, count, type);
  message_stream* stream = find_or_add_stream(world_rank(peer, comm), tag);
  add_payload(&stream->digest, &payload);
  nf_add_message_access(&payload, peer, 0);
  if (++stream->num_messages <= MAX_LOGGED_MESSAGES) log_stream_digest(stream);
}

static void log_all_stream_digests(void) {
  for (const message_stream* at = streams; at; at = at->next) log_stream_digest(at);
}

static int open_log_after_init(int result) {
  int rank;
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  nf_open_log(rank);
  return result;
}

int MPI_Init(int* argc, char*** argv) { return open_log_after_init(PMPI_Init(argc, argv)); }

int MPI_Init_thread(int* argc, char*** argv, int required, int* provided) {
  return open_log_after_init(PMPI_Init_thread(argc, argv, required, provided));
}

int MPI_Finalize(void) {
  nf_check_memory("MPI_Finalize");
  nf_log_unfinished_requests();
  log_all_stream_digests();
  nf_log("end");
  nf_close_log();
  return PMPI_Finalize();
}

typedef int (*isend_function)(const void*, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request*);

// Logs a message, sends it by the nonblocking function `isend`, and waits for the end of the send.
static int send_and_wait(isend_function isend, const void* buffer, int count, MPI_Datatype type, int peer, int tag,
                         MPI_Comm comm) {
  MPI_Request request;
  nf_record_send(buffer, count, type, peer, tag, comm);
  int result = isend(buffer, count, type, peer, tag, comm, &request);
  return result == MPI_SUCCESS ? nf_wait(&request, MPI_STATUS_IGNORE) : result;
}

#define NF_SEND(name, isend_expression)                                                                \
  int MPI_##name(const void* buffer, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm) { \
    return send_and_wait(isend_expression, buffer, count, type, peer, tag, comm);                      \
  }
NF_SEND(Send, nf_is_synchronous() ? PMPI_Issend : PMPI_Isend)
NF_SEND(Ssend, PMPI_Issend)
NF_SEND(Rsend, PMPI_Irsend)
NF_SEND(Bsend, PMPI_Ibsend)

int MPI_Recv(void* buffer, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm, MPI_Status* status) {
  MPI_Request request;
  nf_payload payload = nf_payload_of(buffer, count, type);
  nf_add_message_access(&payload, peer, 1);
  int result = PMPI_Irecv(buffer, count, type, peer, tag, comm, &request);
  return result == MPI_SUCCESS ? nf_wait(&request, status) : result;
}

int MPI_Sendrecv(const void* send_buffer, int send_count, MPI_Datatype send_type, int to, int send_tag, void* buffer,
                 int count, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Status* status) {
  MPI_Request send, receive;
  nf_payload payload = nf_payload_of(buffer, count, type);
  nf_record_send(send_buffer, send_count, send_type, to, send_tag, comm);
  nf_add_message_access(&payload, from, 1);
  PMPI_Isend(send_buffer, send_count, send_type, to, send_tag, comm, &send);
  PMPI_Irecv(buffer, count, type, from, tag, comm, &receive);
  nf_wait(&send, MPI_STATUS_IGNORE);
  return nf_wait(&receive, status);
}

int MPI_Sendrecv_replace(void* buffer, int count, MPI_Datatype type, int to, int send_tag, int from, int tag,
                         MPI_Comm comm, MPI_Status* status) {
  nf_payload payload = nf_payload_of(buffer, count, type);
  nf_record_send(buffer, count, type, to, send_tag, comm);
  nf_add_message_access(&payload, from, 1);
  return PMPI_Sendrecv_replace(buffer, count, type, to, send_tag, from, tag, comm, status);
}
