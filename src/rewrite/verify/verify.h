// What `nearfield rewrite --verify` links to a program, so that two versions of it can be compared bit by bit: every
// block of the program's heap lies at the same address in each run and begins as zeros (heap.c), its clocks count their
// own readings (clocks.c), and each rank writes what it sent and what it held in memory to a log (log.c, messages.c,
// requests.c, collectives.c). Only the program's own calls are concerned, not those of the libraries that it uses.
//
// Limits: one thread calls MPI and malloc; no one-sided communication, no matched probes, no Fortran.
#pragma once

#include <mpi.h>
#include <stddef.h>
#include <stdint.h>

// Marks a variable of these files: it is none of the program's, whose variables are compared.
#define NF_STATE __attribute__((section("nf_state")))

// The hash of a stream of bytes, which does not depend on the pieces in which they come. Start with zeros.
typedef struct {
  uint64_t hash, bytes, unread;  // `unread`: the last bytes % 8 bytes
} nf_digest;
void nf_add(nf_digest* digest, const void* data, size_t bytes);
uint64_t nf_hash_of(const nf_digest* digest);
// Adds memory, but zeros in place of words that are addresses outside of the program's heap: these differ between runs.
void nf_add_memory(nf_digest* digest, const void* data, size_t bytes);

// Calls `visit` for each live block of the heap.
void nf_each_block(void (*visit)(const void* data, size_t bytes, unsigned serial));

// The rank's log: lines from MPI_Init to MPI_Finalize, others are dropped.
void nf_open_log(int rank);
void nf_close_log(void);
void nf_log(const char* format, ...) __attribute__((format(printf, 1, 2)));

// Writes the digests of all memory; `where` says where the program is.
void nf_check_memory(const char* where);
void nf_check_freed(const void* data, size_t bytes, unsigned serial);
// What is inserted into the program's text: an array on the stack begins and ends to exist, and a place is reached.
struct nf_array {
  void* data;
  size_t bytes;
  const char* name;
};
struct nf_array nf_keep(void* data, size_t bytes, const char* name, int is_uninitialised);
void nf_forget(struct nf_array* array);

// The data of a message.
typedef struct {
  char* data;  // where the bytes are, without the type's lower bound
  size_t span, bytes;
  int count, is_packed;  // `is_packed`: not contiguous, so that bytes are taken by MPI_Pack
  MPI_Datatype type;
  void* buffer;
} nf_payload;
nf_payload nf_payload_of(const void* buffer, int count, MPI_Datatype type);
uint64_t nf_payload_hash(const nf_payload* payload);
// Adds a message to the digest of what goes to that peer (a rank of `comm`) with that tag, and logs it.
void nf_sent(const void* buffer, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm);
int nf_wait(MPI_Request* request, MPI_Status* status);
// Logs the requests for which the program has not waited, and forgets all.
void nf_check_requests(void);
int nf_is_synchronous(void);  // sends wait for their receive, as MPI allows any to do
