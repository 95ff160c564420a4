// Nonblocking sends and receives. Makes forbidden accesses before completion visible in every run: a receive goes to a
// separate buffer, which is copied into the program's buffer only when the program has waited for the receive, so that
// a program which reads too early reads old data; and a write to a buffer that is being sent is logged.
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "verify.h"

// A nonblocking operation, from its call to the end of the program's wait for it.
typedef struct pending_operation {
  struct pending_operation* next;
  MPI_Request request;
  // the program's, because handles are not unique: MPICH has one for all completed sends
  const MPI_Request* program_handle;
  nf_payload payload;
  char* received_data;     // of a receive: the separate buffer, as long as the payload's span; NULL for a send
  uint64_t hash_at_start;  // hash of the payload when the operation started
  int is_persistent, is_started, peer, tag;
  MPI_Comm comm;
} pending_operation;

static pending_operation* pending_operations NF_STATE;  // oldest first

void* __real_malloc(size_t);
void __real_free(void*);

static pending_operation* add_operation(const pending_operation* operation) {
  pending_operation** end = &pending_operations;
  while (*end) end = &(*end)->next;
  *end = __real_malloc(sizeof **end);
  if (!*end) abort();
  **end = *operation;
  (*end)->next = NULL;
  // the program may free it
  if (operation->payload.is_packed) PMPI_Type_dup(operation->payload.type, &(*end)->payload.type);
  return *end;
}

static void remove_operation(pending_operation* operation) {
  for (pending_operation** at = &pending_operations; *at; at = &(*at)->next) {
    if (*at != operation) continue;
    *at = operation->next;
    if (operation->payload.is_packed) PMPI_Type_free(&operation->payload.type);
    if (operation->received_data) __real_free(operation->received_data);
    __real_free(operation);
    return;
  }
}

void nf_log_unfinished_requests(void) {
  while (pending_operations) {
    if (pending_operations->is_started)
      nf_log("wrong the program never waited for %s with tag %d",
             pending_operations->received_data ? "a receive" : "a send", pending_operations->tag);
    remove_operation(pending_operations);
  }
}

static pending_operation* find_operation(const MPI_Request* program_handle) {
  pending_operation* found = NULL;
  if (*program_handle == MPI_REQUEST_NULL) return NULL;
  for (pending_operation* at = pending_operations; at; at = at->next) {
    if (at->request != *program_handle) continue;
    if (at->program_handle == program_handle) return at;
    if (!found) found = at;
  }
  return found;
}

// Returns the buffer to pass to MPI for a receive.
static void* buffer_for_mpi(const pending_operation* receive) {
  return receive->received_data ? receive->received_data + ((char*)receive->payload.buffer - receive->payload.data)
                                : receive->payload.buffer;
}

static void start_operation(pending_operation* operation) {
  operation->is_started = 1;
  operation->hash_at_start = nf_payload_hash(&operation->payload);
  if (operation->received_data) {
    memcpy(operation->received_data, operation->payload.data, operation->payload.span_bytes);
  } else {
    nf_record_send(operation->payload.buffer, operation->payload.count, operation->payload.type, operation->peer,
                   operation->tag, operation->comm);
  }
}

// Copies the data of a receive from the separate buffer into the program's buffer.
static void deliver_receive(const pending_operation* operation) {
  const nf_payload* to = &operation->payload;
  nf_add_message_access(to, operation->peer, 1);
  if (!to->is_packed) {
    memcpy(to->data, operation->received_data, to->span_bytes);
    return;
  }
  int size, at = 0;
  PMPI_Pack_size(to->count, to->type, MPI_COMM_SELF, &size);
  char* packed = __real_malloc((size_t)size);
  if (!packed) abort();
  PMPI_Pack(buffer_for_mpi(operation), to->count, to->type, packed, size, &at, MPI_COMM_SELF);
  at = 0;
  PMPI_Unpack(packed, size, &at, to->buffer, to->count, to->type, MPI_COMM_SELF);
  __real_free(packed);
}

static void complete_operation(pending_operation* operation) {
  if (!operation || !operation->is_started) return;
  operation->is_started = 0;
  if (nf_payload_hash(&operation->payload) != operation->hash_at_start)
    nf_log("wrong the program wrote to the buffer of %s with tag %d before it was done",
           operation->received_data ? "a receive" : "a send", operation->tag);
  if (operation->received_data) deliver_receive(operation);
  if (!operation->is_persistent) remove_operation(operation);
}

static pending_operation make_operation(const void* buffer, int count, MPI_Datatype type, int peer, int tag,
                                        MPI_Comm comm) {
  return (pending_operation){NULL, MPI_REQUEST_NULL, NULL, nf_payload_of(buffer, count, type), NULL, 0, 0, 0, peer, tag,
                             comm};
}

static pending_operation* add_receive(void* buffer, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm) {
  pending_operation operation = make_operation(buffer, count, type, peer, tag, comm);
  operation.received_data = __real_malloc(operation.payload.span_bytes + 1);
  if (!operation.received_data) abort();
  return add_operation(&operation);
}

static int set_request(pending_operation* operation, MPI_Request* request, int result) {
  pending_operation* abandoned = find_operation(request);  // an earlier send for which the program has never waited
  if (abandoned && abandoned->program_handle == request && !abandoned->received_data) remove_operation(abandoned);
  operation->request = *request;
  operation->program_handle = request;
  if (result != MPI_SUCCESS) remove_operation(operation);
  return result;
}

typedef int (*send_function)(const void*, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request*);

static int add_send(send_function start_send, int is_persistent, const void* buffer, int count, MPI_Datatype type,
                    int peer, int tag, MPI_Comm comm, MPI_Request* request) {
  pending_operation description = make_operation(buffer, count, type, peer, tag, comm);
  description.is_persistent = is_persistent;
  pending_operation* operation = add_operation(&description);
  if (!is_persistent) start_operation(operation);
  return set_request(operation, request, start_send(buffer, count, type, peer, tag, comm, request));
}

#define NF_SEND(name, send_function_name, is_persistent)                                               \
  int MPI_##name(const void* buffer, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm,   \
                 MPI_Request* request) {                                                               \
    return add_send(send_function_name, is_persistent, buffer, count, type, peer, tag, comm, request); \
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
  pending_operation* operation = add_receive(buffer, count, type, peer, tag, comm);
  start_operation(operation);
  return set_request(operation, request, PMPI_Irecv(buffer_for_mpi(operation), count, type, peer, tag, comm, request));
}

int MPI_Recv_init(void* buffer, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm, MPI_Request* request) {
  pending_operation* operation = add_receive(buffer, count, type, peer, tag, comm);
  operation->is_persistent = 1;
  return set_request(operation, request,
                     PMPI_Recv_init(buffer_for_mpi(operation), count, type, peer, tag, comm, request));
}

int MPI_Start(MPI_Request* request) {
  pending_operation* operation = find_operation(request);
  if (operation) start_operation(operation);
  return PMPI_Start(request);
}

int MPI_Startall(int count, MPI_Request requests[]) {
  for (int i = 0; i < count; ++i) {
    pending_operation* operation = find_operation(&requests[i]);
    if (operation) start_operation(operation);
  }
  return PMPI_Startall(count, requests);
}

int MPI_Request_free(MPI_Request* request) {
  pending_operation* operation = find_operation(request);
  if (operation && !operation->is_started) {
    remove_operation(operation);
  } else if (operation) {
    operation->request = MPI_REQUEST_NULL;  // MPI still uses the operation's buffer
  }
  return PMPI_Request_free(request);
}

// Repeats `call` until `is_done`. Between calls, yields the processor, since ranks may outnumber processors.
#define NF_REPEAT_UNTIL(call, is_done) \
  int result = call;                   \
  while (result == MPI_SUCCESS && !(is_done)) sched_yield(), result = call

int nf_wait(MPI_Request* request, MPI_Status* status) {
  int flag = 0;
  NF_REPEAT_UNTIL(PMPI_Test(request, &flag, status), flag);
  return result;
}

int MPI_Wait(MPI_Request* request, MPI_Status* status) {
  pending_operation* operation = find_operation(request);
  int result = nf_wait(request, status);
  complete_operation(operation);
  return result;
}

int MPI_Test(MPI_Request* request, int* flag, MPI_Status* status) {
  pending_operation* operation = find_operation(request);
  int result = PMPI_Test(request, flag, status);
  if (*flag) complete_operation(operation);
  return result;
}

// Returns the pending operations of an array of requests. The caller frees the result.
static pending_operation** find_operations(int count, MPI_Request requests[]) {
  pending_operation** operations = __real_malloc(sizeof *operations * (size_t)(count + 1));
  if (!operations) abort();
  for (int i = 0; i < count; ++i) operations[i] = find_operation(&requests[i]);
  return operations;
}

// Completes `count` elements of `operations`, those with the indices in `which`, or the first ones if `which` is null.
// Frees `operations`.
static void complete_operations(pending_operation** operations, int count, const int* which) {
  for (int i = 0; i < count; ++i) complete_operation(operations[which ? which[i] : i]);
  __real_free(operations);
}

int MPI_Waitall(int count, MPI_Request requests[], MPI_Status statuses[]) {
  pending_operation** operations = find_operations(count, requests);
  int flag = 0;
  NF_REPEAT_UNTIL(PMPI_Testall(count, requests, &flag, statuses), flag);
  complete_operations(operations, count, NULL);
  return result;
}

int MPI_Testall(int count, MPI_Request requests[], int* flag, MPI_Status statuses[]) {
  pending_operation** operations = find_operations(count, requests);
  int result = PMPI_Testall(count, requests, flag, statuses);
  complete_operations(operations, *flag ? count : 0, NULL);
  return result;
}

int MPI_Waitany(int count, MPI_Request requests[], int* index, MPI_Status* status) {
  pending_operation** operations = find_operations(count, requests);
  int flag = 0;
  NF_REPEAT_UNTIL(PMPI_Testany(count, requests, index, &flag, status), flag);
  complete_operations(operations, *index != MPI_UNDEFINED, index);
  return result;
}

int MPI_Testany(int count, MPI_Request requests[], int* index, int* flag, MPI_Status* status) {
  pending_operation** operations = find_operations(count, requests);
  int result = PMPI_Testany(count, requests, index, flag, status);
  complete_operations(operations, *flag && *index != MPI_UNDEFINED, index);
  return result;
}

int MPI_Waitsome(int count, MPI_Request requests[], int* done, int indices[], MPI_Status statuses[]) {
  pending_operation** operations = find_operations(count, requests);
  NF_REPEAT_UNTIL(PMPI_Testsome(count, requests, done, indices, statuses), *done);
  complete_operations(operations, *done == MPI_UNDEFINED ? 0 : *done, indices);
  return result;
}

int MPI_Testsome(int count, MPI_Request requests[], int* done, int indices[], MPI_Status statuses[]) {
  pending_operation** operations = find_operations(count, requests);
  int result = PMPI_Testsome(count, requests, done, indices, statuses);
  complete_operations(operations, *done == MPI_UNDEFINED ? 0 : *done, indices);
  return result;
}
