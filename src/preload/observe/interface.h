/* The functions of the hook library (libnearfield_observe.so) that the MPI profiling layer, which is preloaded together
   with the hook library, finds by dlsym. Only the thread that called MPI_Init may call these functions. None of them
   fails: when the stream cannot be written any more, the library prints a message and the program continues. */
#ifndef NEARFIELD_OBSERVE_INTERFACE_H
#define NEARFIELD_OBSERVE_INTERFACE_H

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* Returns whether this process is observed: started by `nearfield observe`, and not a forked child. */
int nearfield_observe_active(void);

/* Sets the rank of this process and the number of ranks. Renames the stream's file, whose name contains the process
   ID until then, to rank-N.nfs. To be called in MPI_Init, before the first event. */
void nearfield_observe_rank(int rank, int ranks);

/* Returns the descriptor of the connection on which a live simulation sends the MPI outcomes that it decides
   (stream/live_reply.hpp); -1 if it decides no outcomes. To be called after nearfield_observe_rank. */
int nearfield_observe_reply_socket(void);

/* Returns whether MPI_Wtime is to return simulated time. */
int nearfield_observe_clock(void);

/* Sends the accesses and events recorded so far to a live simulation. Writes them to a file at every tenth call. */
void nearfield_observe_flush(void);

/* Appends an event (stream/event_bytes.hpp) after the accesses recorded so far. */
void nearfield_observe_event(const unsigned char* bytes, unsigned long size);

/* Returns the number of the object (executable or shared library) that contains a code address, and sets *offset to the
   offset that addr2line takes. If the object is new, writes an Object event first. */
unsigned long nearfield_observe_place(const void* address, unsigned long* offset);

/* Unwinds the call stack: stores in `addresses` the call site of the function that contains `call`, the call site of
   its caller, and so on, at most `max_count` addresses. Returns their number. Functions without hooks are not included,
   except under Valgrind. */
int nearfield_observe_callers(const void* call, const void** addresses, int max_count);

/* Pause and resume the recording of accesses, for example while a reduction operator of the program runs inside an MPI
   call. Pauses nest. */
void nearfield_observe_pause(void);
void nearfield_observe_resume(void);

/* Begins or ends the region that MPI_Pcontrol delimits. If NEARFIELD_OBSERVE_REGION selects this region (recorder.cpp),
   accesses outside of the region are not recorded. */
void nearfield_observe_region(int begins);

/* Writes all accesses and events recorded so far and closes the stream. To be called after the End event, and before
   MPI_Abort kills the process. */
void nearfield_observe_close(void);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
