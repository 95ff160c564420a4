// Linked to a program by `nearfield rewrite --verify`, so that runs of two versions of the program can be compared bit
// by bit: every block of the program's heap has the same address in each run and is initially zero (heap.c); the
// program's clocks count how often they are read (clocks.c); each rank logs digests of the messages that it sends
// (messages.c, requests.c), of the contents of its memory (log.c, collectives.c) and of the history of each byte
// (accesses.c). Only the program's own calls are affected, not those of its libraries.
//
// Limits: one thread calls MPI and malloc; no one-sided communication, no matched probes, no Fortran.
#pragma once

#include <mpi.h>
#include <stddef.h>
#include <stdint.h>

#include "accesses.h"

// Marks a variable of this layer. The comparison of the program's memory leaves out such variables.
#define NF_STATE __attribute__((section("nf_state")))

// The state of a hash of a stream of bytes, which does not depend on how the stream is split into pieces. Initialise
// with zeros.
typedef struct {
  uint64_t hash, bytes, partial_word;  // `partial_word`: the last bytes % 8 bytes
} nf_digest;
// Adds bytes to the stream.
void nf_digest_add(nf_digest* digest, const void* data, size_t bytes);
// Returns the hash of the stream so far.
uint64_t nf_digest_hash(const nf_digest* digest);
// Adds bytes to the stream, with zeros in place of words that are addresses outside of the program's heap, since these
// addresses differ between runs.
void nf_digest_add_memory(nf_digest* digest, const void* data, size_t bytes);
// Returns whether a word may be an address outside of the program's heap.
int nf_may_be_address(uint64_t word);

// Switches the recording of this thread's memory accesses on or off.
void nf_set_access_recording(int is_on);
// Returns a hash of the access histories of these bytes (accesses.h); 0 if none of them has been written to.
uint64_t nf_hash_histories(const void* data, size_t bytes);
// Clears the access histories of these bytes, which become part of another object.
void nf_clear_histories(const void* data, size_t bytes);

// Calls `visit` for each live block of the heap.
void nf_for_each_block(void (*visit)(const void* data, size_t bytes, unsigned serial));

// The rank's log. Lines before MPI_Init and after MPI_Finalize are dropped.
void nf_open_log(int rank);
void nf_close_log(void);
void nf_log(const char* format, ...) __attribute__((format(printf, 1, 2)));

// Logs the digests of all memory of the program. `where`: a name for the position in the program. `nearfield
// rewrite` inserts calls of this function into the program's source.
void nf_check_memory(const char* where);
// Logs the digest of a block that is being freed, unless it is short.
void nf_log_freed_block(const void* data, size_t bytes, unsigned serial);
// A stack array, whose digest nf_check_memory() logs while it is registered. The calls that register and unregister it
// are inserted into the program's source; an array without an initializer is set to zeros.
struct nf_array {
  void* data;
  size_t bytes;
  const char* name;
};
struct nf_array nf_register_array(void* data, size_t bytes, const char* name, int is_uninitialised);
void nf_unregister_array(struct nf_array* array);

// The payload of a message: a buffer, a count and a datatype.
typedef struct {
  char* data;                // first byte that belongs to the type
  size_t span_bytes, bytes;  // from the first to the last byte; only bytes that belong to the type
  int count, is_packed;      // `is_packed`: the payload is not contiguous, so MPI_Pack is used
  MPI_Datatype type;
  void* buffer;
} nf_payload;
nf_payload nf_payload_of(const void* buffer, int count, MPI_Datatype type);
// Returns a hash of the bytes that belong to the type.
uint64_t nf_payload_hash(const nf_payload* payload);
// Records in the access histories that a message to `peer` reads the bytes of its buffer that belong to its type or,
// for a receive, that a message from `peer` is about to write them.
void nf_add_message_access(const nf_payload* payload, int peer, int is_receive);
// Called when a message is sent: adds its payload to the digest of all messages to this peer (a rank of `comm`) with
// this tag, and logs the digest.
void nf_record_send(const void* buffer, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm);
// Waits for a request as MPI_Wait does, but yields the processor.
int nf_wait(MPI_Request* request, MPI_Status* status);
// Logs the requests that have started and for which the program has not waited. Removes all requests.
void nf_log_unfinished_requests(void);
// Returns whether every standard send waits for the matching receive, as MPI permits.
int nf_is_synchronous(void);
