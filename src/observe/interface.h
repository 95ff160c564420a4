/* What the library of hooks (libnearfield_observe.so) offers the profiling layer, which is loaded beside it and finds
   these by name. Only the thread that called MPI_Init may call them. Nothing here fails: when a stream cannot be written
   any more, a message says so and the program goes on. */
#ifndef NEARFIELD_OBSERVE_INTERFACE_H
#define NEARFIELD_OBSERVE_INTERFACE_H

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* Returns whether this process is observed: `nearfield observe` started it, and no fork() came since. */
int nearfield_observe_active(void);

/* Gives the stream its rank of how many: its file is rank-N.nfs from now on. Until then it has the name of the process.
   To be called in MPI_Init, before the first event. */
void nearfield_observe_rank(int rank, int ranks);

/* Returns the connection by which the simulation tells this rank what time decides (stream/answer.hpp); -1 if it does not.
   To be called after nearfield_observe_rank. */
int nearfield_observe_answers(void);

/* Returns whether the program's own clock, MPI_Wtime, is to be the simulation's. */
int nearfield_observe_clock(void);

/* Sends what was recorded so far to the simulation that reads the stream; each tenth call writes it to the file. */
void nearfield_observe_flush(void);

/* Appends an event (stream/event_bytes.hpp) behind the accesses made so far. */
void nearfield_observe_event(const unsigned char* bytes, unsigned long size);

/* Returns the number of the object that contains this address of code, after an Object event if it is a new one, and in
   *offset what addr2line takes. */
unsigned long nearfield_observe_place(const void* address, unsigned long* offset);

/* Returns how many addresses of code it has stored: where the function that has this call was called, where its caller was
   called, and so on, `most` at most. Only calls of functions with hooks are known, but under Valgrind all. */
int nearfield_observe_callers(const void* call, const void** addresses, int most);

/* While paused (calls nest), accesses are not recorded: a reduction operator of the program runs within an MPI call, for
   example. */
void nearfield_observe_pause(void);
void nearfield_observe_resume(void);

/* The part of the run that MPI_Pcontrol cuts out begins or ends: accesses outside it are not recorded if that is what
   NEARFIELD_OBSERVE_REGION asks for (recorder.cpp). */
void nearfield_observe_region(int begins);

/* Writes out everything and closes the stream. To be called after the End event, and before the process is ended from
   outside (MPI_Abort). */
void nearfield_observe_close(void);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
