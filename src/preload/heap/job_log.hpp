// A line of JSON for each node of each job, for the people who operate a cluster.
#pragma once

namespace nearfield::heap {

// The part of a line on the MPI and the rules. A text that does not apply is empty; `reason` says why the heap is off.
struct JobFacts {
  const char *mpi, *rules, *reason;
  int num_ranks;  // 0: not known
};

// Appends a line to a file that exists: date (UTC), job, host, program, number of ranks, MPI, rules or the reason why
// there are none, and the messages and bytes that this process copied in each way. The line is one write with O_APPEND,
// so lines of several processes do not mix on a local file system. If the file is missing, is a symbolic link or cannot
// be written, no line is written.
void append_job_line(const char* path, const JobFacts& facts);

}  // namespace nearfield::heap
