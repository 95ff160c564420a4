// Ends a job of which a node has died.
#pragma once

#include <sys/types.h>

#include <string>

namespace nearfield {

/// Returns the launcher that has started this process, if it is surely that of this job and on this node; else 0.
pid_t find_own_launcher();

/// Prints `nearfield: <text>` and ends this process with exit code 1, upon which the launcher ends the others of the
/// job. If find_own_launcher() finds it, ends the launcher by SIGTERM or SIGKILL, since it may wait for the dead node
/// forever. Any thread may call it: MPI_Abort is permitted only with MPI_THREAD_MULTIPLE, and may wait, too.
[[noreturn]] void end_job(const std::string& text);

}  // namespace nearfield
