/* What the recorder of a process asks of Valgrind's tool (valgrind/), if it runs under it: the tool then sees the accesses,
   so it writes the stream. These are Valgrind's client requests, an instruction sequence that does nothing elsewhere. Only
   the thread that is recorded asks, but for the first request. x86-64 alone. */
#ifndef NEARFIELD_OBSERVE_REQUESTS_H
#define NEARFIELD_OBSERVE_REQUESTS_H

enum nearfield_request {
  NEARFIELD_PRESENT = 'N' << 24 | 'F' << 16, /* Returns 1. */
  NEARFIELD_BEGIN,   /* (file descriptor, struct nearfield_region*): the stream begins, and this thread is recorded. */
  NEARFIELD_STATE,   /* (on, in MPI): accesses are recorded from now on, or not; threads made in MPI are not the program's. */
  NEARFIELD_EVENT,   /* (bytes, size): the event comes now. Returns 1 if the program had other threads so far. */
  NEARFIELD_PLACE,   /* (code, unsigned long* offset): returns the number of the object. */
  NEARFIELD_CALLERS, /* (call, const void** addresses, most): as nearfield_observe_callers. */
  NEARFIELD_FLUSH,   /* What was recorded so far is written to the file. */
  NEARFIELD_END,     /* The stream is complete, but for its last chunk. */
};

/* The function whose accesses alone are recorded; without one, `size` is 0. */
struct nearfield_region {
  unsigned long begin, size;
  const char* name;
};

static inline unsigned long nearfield_ask(enum nearfield_request request, unsigned long a, unsigned long b,
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
