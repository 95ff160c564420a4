// Ends a job after one of its nodes has died.
#pragma once

#include <sys/types.h>

#include <string>

namespace nearfield {

/// Returns the process id of the launcher that started this process, if it runs on this node and is certain to be the
/// launcher of this job and of no other; otherwise 0.
pid_t find_job_launcher();

/// Prints `nearfield: <text>` and ends this process with exit code 1; the launcher then ends the other processes of the
/// job. If find_job_launcher() returns a launcher, ends it by SIGTERM or SIGKILL, since it may wait for the dead node
/// forever. Any thread may call this function, unlike MPI_Abort, which requires MPI_THREAD_MULTIPLE and may wait, too.
[[noreturn]] void end_job(const std::string& text);

}  // namespace nearfield
