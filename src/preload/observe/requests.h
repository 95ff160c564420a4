/* Requests of a process's recorder to Valgrind's tool (valgrind/). Under the tool, which sees the accesses, the tool
   writes the stream. They are Valgrind client requests: instructions that have no effect outside of Valgrind. Except
   for the first one, only the recorded thread makes them. x86-64 only. */
#ifndef NEARFIELD_OBSERVE_REQUESTS_H
#define NEARFIELD_OBSERVE_REQUESTS_H

enum nearfield_request {
  NEARFIELD_PRESENT = 'N' << 24 | 'F' << 16, /* Returns 1. */
  NEARFIELD_BEGIN,  /* (file descriptor, struct nearfield_region*): begins the stream; this thread is recorded. */
  NEARFIELD_STATE,  /* (on, in MPI): turns recording on or off; threads created in MPI are not the program's. */
  NEARFIELD_EVENT,  /* (bytes, size): appends an event. Returns 1 if the program has had other threads. */
  NEARFIELD_PLACE,   /* (code, unsigned long* offset): returns the number of the object. */
  NEARFIELD_CALLERS, /* (call, const void** addresses, most): as nearfield_observe_callers. */
  NEARFIELD_FLUSH,  /* Writes what has been recorded so far to the file. */
  NEARFIELD_END,  /* Completes the stream, except for its last chunk. */
};

/* The function to which recording is restricted; `size` is 0 if there is none. */
struct nearfield_region {
  unsigned long begin, size;
  const char* name;
};

static inline unsigned long nearfield_request_tool(enum nearfield_request request, unsigned long a, unsigned long b,
                                          unsigned long c) {
  unsigned long answer = 0;
#ifdef __x86_64__
  volatile unsigned long words[6] = {request, a, b, c, 0, 0};
  __asm__ volatile(
      "rolq $3, %%rdi; rolq $13, %%rdi; rolq $61, %%rdi; rolq $51, %%rdi; xchgq %%rbx, %%rbx"
      : "=d"(answer)
      : "a"(&words[0]), "0"(answer)
      : "cc", "memory");
#endif
  return answer;
}

#endif
