/* Valgrind client requests by which the recorder of a process controls nearfield's Valgrind tool (valgrind/). Under
   Valgrind the tool, which observes the accesses, writes the stream. A client request is a sequence of instructions
   that has no effect outside of Valgrind. All requests but the first are made by the recorded thread only. x86-64
   only. */
#ifndef NEARFIELD_OBSERVE_REQUESTS_H
#define NEARFIELD_OBSERVE_REQUESTS_H

enum nearfield_request {
  NEARFIELD_PRESENT = 'N' << 24 | 'F' << 16, /* Returns 1. */
  NEARFIELD_BEGIN,   /* (file descriptor, struct nearfield_region*): begins the stream, recording this thread. */
  NEARFIELD_STATE,   /* (is_on, in_mpi): switches recording; threads created inside MPI do not count. */
  NEARFIELD_EVENT,   /* (bytes, size): appends an event to the stream. */
  NEARFIELD_PLACE,   /* (code, unsigned long* offset): as nearfield_observe_place. */
  NEARFIELD_CALLERS, /* (call, const void** addresses, max_count): as nearfield_observe_callers. */
  NEARFIELD_FLUSH,   /* Writes the accesses and events recorded so far to the file. */
  NEARFIELD_END,     /* Completes the stream, except for the last chunk, which the recorder writes. */
};

/* The function to which recording is restricted, as a range of code addresses. `size` is 0 if recording is not
   restricted. */
struct nearfield_region {
  unsigned long begin, size;
  const char* name;
};

static inline unsigned long nearfield_request_tool(enum nearfield_request request, unsigned long argument_1,
                                                   unsigned long argument_2, unsigned long argument_3) {
  unsigned long result = 0;
#ifdef __x86_64__
  volatile unsigned long words[6] = {request, argument_1, argument_2, argument_3, 0, 0};
  __asm__ volatile("rolq $3, %%rdi; rolq $13, %%rdi; rolq $61, %%rdi; rolq $51, %%rdi; xchgq %%rbx, %%rbx"
                   : "=d"(result)
                   : "a"(&words[0]), "0"(result)
                   : "cc", "memory");
#endif
  return result;
}

#endif
