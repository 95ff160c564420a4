/* The interface of the hook library (libnearfield_observe.so) for the profiling layer, which is loaded beside it and
   finds these functions by name. Only the thread that called MPI_Init may call them. None of them fails: when a stream
   cannot be written any more, a message says so and the program continues. */
#ifndef NEARFIELD_OBSERVE_INTERFACE_H
#define NEARFIELD_OBSERVE_INTERFACE_H

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* Returns whether this process is observed: `nearfield observe` started it, and it has not forked since. */
int nearfield_observe_active(void);

/* Sets the stream's rank and the number of ranks. The file is rank-N.nfs from then on; before, it is named after the
   process. To be called in MPI_Init, before the first event. */
void nearfield_observe_rank(int rank, int ranks);

/* Returns the connection on which the simulation sends the outcomes that it decides (stream/live_reply.hpp); -1 if it
   decides none. To be called after nearfield_observe_rank. */
int nearfield_observe_reply_socket(void);

/* Returns whether MPI_Wtime is to return simulated time. */
int nearfield_observe_clock(void);

/* Sends what has been recorded so far to the simulation that reads the stream. A file gets it at every tenth call. */
void nearfield_observe_flush(void);

/* Appends an event (stream/event_bytes.hpp) after the accesses recorded so far. */
void nearfield_observe_event(const unsigned char* bytes, unsigned long size);

/* Returns the number of the object that contains this code address, and in *offset what addr2line takes. Writes an
   Object event first if the object is new. */
unsigned long nearfield_observe_place(const void* address, unsigned long* offset);

/* Stores at most `max_count` code addresses: the call site of the function that contains this call, of its caller, and
   so on. Returns how many. Only functions with hooks are known, except under Valgrind, which knows all. */
int nearfield_observe_callers(const void* call, const void** addresses, int max_count);

/* Accesses are not recorded while paused (calls nest), for example when a reduction operator of the program runs inside
   an MPI call. */
void nearfield_observe_pause(void);
void nearfield_observe_resume(void);

/* The region that MPI_Pcontrol delimits begins or ends. If NEARFIELD_OBSERVE_REGION selects it (recorder.cpp), accesses
   outside of it are not recorded. */
void nearfield_observe_region(int begins);

/* Writes everything and closes the stream. To be called after the End event, and before the process is killed
   (MPI_Abort). */
void nearfield_observe_close(void);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
