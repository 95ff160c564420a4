/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The interface between the two halves of the Valgrind tool: tool.c, which uses Valgrind's API, and recording.cpp,
   which writes the stream. */
#ifndef NEARFIELD_OBSERVE_VALGRIND_TOOL_H
#define NEARFIELD_OBSERVE_VALGRIND_TOOL_H

#ifdef __cplusplus
extern "C" {
#endif

/* ---- defined in recording.cpp, called in the recorded thread */
void nearfield_begin_stream(int file);
void nearfield_append_event(const unsigned char* bytes, unsigned long size);
unsigned long nearfield_resolve_code(unsigned long code, unsigned long* offset);
void nearfield_record_other_threads(void);
void nearfield_record_region(const char* name, int begins);
void nearfield_finish_chunk(void);
void nearfield_end_stream(void);
/* Record an access, or an access to a range. Called by the program's instrumented code. `kind`: a stream::SiteKind. */
void nearfield_record_access(unsigned long code, unsigned long kind, unsigned long address);
void nearfield_record_range(unsigned long code, unsigned long kind, unsigned long address, unsigned long bytes);

/* ---- defined in tool.c */
/* Nonzero while accesses are recorded. */
extern int nearfield_is_recording;
/* Returns zeroed memory that is never freed. */
void* nearfield_allocate_zeroed(unsigned long bytes);
/* Finds the executable or shared library that contains the code address. Returns 1, or 0 if there is none. */
int nearfield_find_object(unsigned long code, unsigned long* begin, unsigned long* end, unsigned long* base,
                     const char** path);
/* Writes all bytes to the file and returns 1. If that fails, prints a message and returns 0. */
int nearfield_write_all(int file, const void* bytes, unsigned long size);

#ifdef __cplusplus
}
#endif
#endif
