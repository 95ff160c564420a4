// Nonblocking sends and receives. Makes forbidden accesses before completion visible in every run: a receive goes to a
// separate buffer, which is copied into the program's buffer only when the program has waited for the receive, so that
// a program which reads too early reads old data; and a write to a buffer that is being sent is logged.
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "verify.h"

// A nonblocking operation, from its call to the end of the program's wait for it.
typedef struct pending {
  struct pending* next;
  MPI_Request request;
  const MPI_Request* variable;  // the program's, because handles are not unique: MPICH has one for all completed sends
  nf_payload payload;
  char* arrived;    // of a receive: the separate buffer, as long as the payload's span; NULL for a send
  uint64_t before;  // hash of the payload when the operation started
  int is_persistent, is_started, peer, tag;
  MPI_Comm comm;
} pending;

static pending* all_pending NF_STATE;  // oldest first

void* __real_malloc(size_t);
void __real_free(void*);

static pending* add_pending(const pending* what) {
  pending** end = &all_pending;
  while (*end) end = &(*end)->next;
  *end = __real_malloc(sizeof **end);
  if (!*end) abort();
  **end = *what;
  (*end)->next = NULL;
  if (what->payload.is_packed) PMPI_Type_dup(what->payload.type, &(*end)->payload.type);  // the program may free it
  return *end;
}

static void remove_pending(pending* what) {
  for (pending** at = &all_pending; *at; at = &(*at)->next) {
    if (*at != what) continue;
    *at = what->next;
    if (what->payload.is_packed) PMPI_Type_free(&what->payload.type);
    if (what->arrived) __real_free(what->arrived);
    __real_free(what);
    return;
  }
}

void nf_check_requests(void) {
  while (all_pending) {
    if (all_pending->is_started)
      nf_log("wrong the program never waited for %s with tag %d", all_pending->arrived ? "a receive" : "a send",
             all_pending->tag);
    remove_pending(all_pending);
  }
}

static pending* find_pending(const MPI_Request* variable) {
  pending* found = NULL;
  if (*variable == MPI_REQUEST_NULL) return NULL;
  for (pending* at = all_pending; at; at = at->next) {
    if (at->request != *variable) continue;
    if (at->variable == variable) return at;
    if (!found) found = at;
  }
  return found;
}

// Returns the buffer to pass to MPI for a receive.
static void* receive_buffer(const pending* of) {
  return of->arrived ? of->arrived + ((char*)of->payload.buffer - of->payload.data) : of->payload.buffer;
}

static void start_pending(pending* what) {
  what->is_started = 1;
  what->before = nf_payload_hash(&what->payload);
  if (what->arrived) {
    memcpy(what->arrived, what->payload.data, what->payload.span);
  } else {
    nf_record_send(what->payload.buffer, what->payload.count, what->payload.type, what->peer, what->tag, what->comm);
  }
}

// Copies what a receive has written to the separate buffer into the program's buffer.
static void deliver_receive(const pending* what) {
  const nf_payload* to = &what->payload;
  nf_add_message(to, what->peer, 1);
  if (!to->is_packed) {
    memcpy(to->data, what->arrived, to->span);
    return;
  }
  int size, at = 0;
  PMPI_Pack_size(to->count, to->type, MPI_COMM_SELF, &size);
  char* packed = __real_malloc((size_t)size);
  if (!packed) abort();
  PMPI_Pack(receive_buffer(what), to->count, to->type, packed, size, &at, MPI_COMM_SELF);
  at = 0;
  PMPI_Unpack(packed, size, &at, to->buffer, to->count, to->type, MPI_COMM_SELF);
  __real_free(packed);
}

static void complete_pending(pending* what) {
  if (!what || !what->is_started) return;
  what->is_started = 0;
  if (nf_payload_hash(&what->payload) != what->before)
    nf_log("wrong the program wrote to the buffer of %s with tag %d before it was done",
           what->arrived ? "a receive" : "a send", what->tag);
  if (what->arrived) deliver_receive(what);
  if (!what->is_persistent) remove_pending(what);
}

static pending new_pending(const void* buffer, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm) {
  return (pending){NULL, MPI_REQUEST_NULL, NULL, nf_payload_of(buffer, count, type), NULL, 0, 0, 0, peer, tag, comm};
}

static pending* new_receive(void* buffer, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm) {
  pending made = new_pending(buffer, count, type, peer, tag, comm);
  made.arrived = __real_malloc(made.payload.span + 1);
  if (!made.arrived) abort();
  return add_pending(&made);
}

static int set_request(pending* what, MPI_Request* request, int result) {
  pending* lost = find_pending(request);  // an earlier send for which the program has never waited
  if (lost && lost->variable == request && !lost->arrived) remove_pending(lost);
  what->request = *request;
  what->variable = request;
  if (result != MPI_SUCCESS) remove_pending(what);
  return result;
}

typedef int (*sending)(const void*, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request*);

static int send(sending how, int is_persistent, const void* buffer, int count, MPI_Datatype type, int peer, int tag,
                MPI_Comm comm, MPI_Request* request) {
  pending made = new_pending(buffer, count, type, peer, tag, comm);
  made.is_persistent = is_persistent;
  pending* what = add_pending(&made);
  if (!is_persistent) start_pending(what);
  return set_request(what, request, how(buffer, count, type, peer, tag, comm, request));
}

#define NF_SEND(name, really, is_persistent)                                                         \
  int MPI_##name(const void* buffer, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm, \
                 MPI_Request* request) {                                                             \
    return send(really, is_persistent, buffer, count, type, peer, tag, comm, request);               \
  }
NF_SEND(Isend, nf_is_synchronous() ? PMPI_Issend : PMPI_Isend, 0)
NF_SEND(Issend, PMPI_Issend, 0)
NF_SEND(Irsend, PMPI_Irsend, 0)
NF_SEND(Ibsend, PMPI_Ibsend, 0)
NF_SEND(Send_init, nf_is_synchronous() ? PMPI_Ssend_init : PMPI_Send_init, 1)
NF_SEND(Ssend_init, PMPI_Ssend_init, 1)
NF_SEND(Rsend_init, PMPI_Rsend_init, 1)
NF_SEND(Bsend_init, PMPI_Bsend_init, 1)

int MPI_Irecv(void* buffer, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm, MPI_Request* request) {
  pending* what = new_receive(buffer, count, type, peer, tag, comm);
  start_pending(what);
  return set_request(what, request, PMPI_Irecv(receive_buffer(what), count, type, peer, tag, comm, request));
}

int MPI_Recv_init(void* buffer, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm, MPI_Request* request) {
  pending* what = new_receive(buffer, count, type, peer, tag, comm);
  what->is_persistent = 1;
  return set_request(what, request, PMPI_Recv_init(receive_buffer(what), count, type, peer, tag, comm, request));
}

int MPI_Start(MPI_Request* request) {
  pending* what = find_pending(request);
  if (what) start_pending(what);
  return PMPI_Start(request);
}

int MPI_Startall(int count, MPI_Request requests[]) {
  for (int i = 0; i < count; ++i) {
    pending* what = find_pending(&requests[i]);
    if (what) start_pending(what);
  }
  return PMPI_Startall(count, requests);
}

int MPI_Request_free(MPI_Request* request) {
  pending* what = find_pending(request);
  if (what && !what->is_started) {
    remove_pending(what);
  } else if (what) {
    what->request = MPI_REQUEST_NULL;  // MPI still uses the operation's buffer
  }
  return PMPI_Request_free(request);
}

// Repeats `call` until `is_done`. Between calls, yields the processor, since ranks may outnumber processors.
#define NF_REPEAT(call, is_done) \
  int result = call;             \
  while (result == MPI_SUCCESS && !(is_done)) sched_yield(), result = call

int nf_wait(MPI_Request* request, MPI_Status* status) {
  int flag = 0;
  NF_REPEAT(PMPI_Test(request, &flag, status), flag);
  return result;
}

int MPI_Wait(MPI_Request* request, MPI_Status* status) {
  pending* what = find_pending(request);
  int result = nf_wait(request, status);
  complete_pending(what);
  return result;
}

int MPI_Test(MPI_Request* request, int* flag, MPI_Status* status) {
  pending* what = find_pending(request);
  int result = PMPI_Test(request, flag, status);
  if (*flag) complete_pending(what);
  return result;
}

// Returns the pending operations of an array of requests. The caller frees the result.
static pending** find_all(int count, MPI_Request requests[]) {
  pending** found = __real_malloc(sizeof *found * (size_t)(count + 1));
  if (!found) abort();
  for (int i = 0; i < count; ++i) found[i] = find_pending(&requests[i]);
  return found;
}

// Completes `count` elements of `found`, those with the indices in `which`, or the first ones if `which` is null. Frees
// `found`.
static void complete_all(pending** found, int count, const int* which) {
  for (int i = 0; i < count; ++i) complete_pending(found[which ? which[i] : i]);
  __real_free(found);
}

int MPI_Waitall(int count, MPI_Request requests[], MPI_Status statuses[]) {
  pending** found = find_all(count, requests);
  int flag = 0;
  NF_REPEAT(PMPI_Testall(count, requests, &flag, statuses), flag);
  complete_all(found, count, NULL);
  return result;
}

int MPI_Testall(int count, MPI_Request requests[], int* flag, MPI_Status statuses[]) {
  pending** found = find_all(count, requests);
  int result = PMPI_Testall(count, requests, flag, statuses);
  complete_all(found, *flag ? count : 0, NULL);
  return result;
}

int MPI_Waitany(int count, MPI_Request requests[], int* index, MPI_Status* status) {
  pending** found = find_all(count, requests);
  int flag = 0;
  NF_REPEAT(PMPI_Testany(count, requests, index, &flag, status), flag);
  complete_all(found, *index != MPI_UNDEFINED, index);
  return result;
}

int MPI_Testany(int count, MPI_Request requests[], int* index, int* flag, MPI_Status* status) {
  pending** found = find_all(count, requests);
  int result = PMPI_Testany(count, requests, index, flag, status);
  complete_all(found, *flag && *index != MPI_UNDEFINED, index);
  return result;
}

int MPI_Waitsome(int count, MPI_Request requests[], int* done, int indices[], MPI_Status statuses[]) {
  pending** found = find_all(count, requests);
  NF_REPEAT(PMPI_Testsome(count, requests, done, indices, statuses), *done);
  complete_all(found, *done == MPI_UNDEFINED ? 0 : *done, indices);
  return result;
}

int MPI_Testsome(int count, MPI_Request requests[], int* done, int indices[], MPI_Status statuses[]) {
  pending** found = find_all(count, requests);
  int result = PMPI_Testsome(count, requests, done, indices, statuses);
  complete_all(found, *done == MPI_UNDEFINED ? 0 : *done, indices);
  return result;
}
