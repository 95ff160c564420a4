// Linked to a program by `nearfield rewrite --verify`, so that two versions of it can be compared bit by bit: every
// block of the program's heap has the same address in each run and is initially zero (heap.c), its clocks count their
// own readings (clocks.c), and each rank logs what it sent and the contents of its memory (log.c, messages.c,
// requests.c, collectives.c) and the history of each byte (accesses.c). Only the program's own calls are affected, not
// those of its libraries.
//
// Limits: one thread calls MPI and malloc; no one-sided communication, no matched probes, no Fortran.
#pragma once

#include <mpi.h>
#include <stddef.h>
#include <stdint.h>

#include "accesses.h"

// Marks a variable of these files, which is not compared, since it is not the program's.
#define NF_STATE __attribute__((section("nf_state")))

// The hash of a stream of bytes, independent of how it is split into pieces. Initialise with zeros.
typedef struct {
  uint64_t hash, bytes, unread;  // `unread`: the last bytes % 8 bytes
} nf_digest;
void nf_add(nf_digest* digest, const void* data, size_t bytes);
uint64_t nf_hash_of(const nf_digest* digest);
// Adds memory, with zeros in place of words that are addresses outside of the program's heap, since these differ
// between runs.
void nf_add_memory(nf_digest* digest, const void* data, size_t bytes);
// Returns whether a word may be an address outside of the program's heap.
int nf_is_address(uint64_t word);

// Begins or ends to record the accesses of this thread.
void nf_record_accesses(int whether);
// Returns a hash of the histories of these bytes (accesses.h); it is 0 if none of them was written to.
uint64_t nf_hash_histories(const void* data, size_t bytes);
// Clears the histories of these bytes, which become part of another object.
void nf_forget_accesses(const void* data, size_t bytes);

// Calls `visit` for each live block of the heap.
void nf_each_block(void (*visit)(const void* data, size_t bytes, unsigned serial));

// The rank's log: lines between MPI_Init and MPI_Finalize; others are dropped.
void nf_open_log(int rank);
void nf_close_log(void);
void nf_log(const char* format, ...) __attribute__((format(printf, 1, 2)));

// Writes the digests of all memory; `where` is the position in the program.
void nf_check_memory(const char* where);
void nf_check_freed(const void* data, size_t bytes, unsigned serial);
// Inserted into the program's source: a stack array is registered and unregistered, and a position is reached.
struct nf_array {
  void* data;
  size_t bytes;
  const char* name;
};
struct nf_array nf_register_array(void* data, size_t bytes, const char* name, int is_uninitialised);
void nf_unregister_array(struct nf_array* array);

// The data of a message.
typedef struct {
  char* data;  // first byte, excluding the type's lower bound
  size_t span, bytes;
  int count, is_packed;  // `is_packed`: not contiguous, so MPI_Pack is used
  MPI_Datatype type;
  void* buffer;
} nf_payload;
nf_payload nf_payload_of(const void* buffer, int count, MPI_Datatype type);
uint64_t nf_payload_hash(const nf_payload* payload);
// Records that a message to `peer` reads the bytes of its buffer that belong to its type, or that one from `peer` is
// about to write them.
void nf_add_message(const nf_payload* payload, int peer, int is_receive);
// Adds a message to the digest of the messages to that peer (a rank of `comm`) with that tag, and logs it.
void nf_sent(const void* buffer, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm);
int nf_wait(MPI_Request* request, MPI_Status* status);
// Logs the requests for which the program has not waited, and drops all.
void nf_check_requests(void);
int nf_is_synchronous(void);  // sends wait for their receive, which MPI permits for every send
