// Writes one line of JSON per node and job into a log for the operators of a cluster.
#pragma once

namespace nearfield::heap {

// The part of a line that describes the MPI and the rules. A text that does not apply is empty; `reason_heap_off` says
// why the heap is off.
struct JobFacts {
  const char *mpi_version, *rules_file, *reason_heap_off;
  int num_ranks;  // 0: not known
};

// Appends a line to an existing file: date (UTC), job, host, program, number of ranks, MPI, rules or the reason why
// there are none, and the numbers of messages and bytes that this process copied, by copy path. The line is one write
// with O_APPEND, so lines of several processes do not mix on a local file system. If the file is missing, is a symbolic
// link or cannot be written, no line is written.
void append_job_line(const char* path, const JobFacts& facts);

}  // namespace nearfield::heap
