/* Starts a program and says what it took: resources FILE [NAME=VALUE ...] -- PROGRAM [ARGUMENT ...]
 *
 * Writes "SECONDS CPU_SECONDS FAULTS PEAK_KIB STATUS" to FILE: from before the fork to the end, wait4's processor time,
 * page faults and ru_maxrss, and its exit code, or 128 and the signal. Variables are set for the program only. This is a
 * small process of its own, since ru_maxrss counts what the process was before it became the program: of a child of
 * Python it would be Python's. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

int main(int count, char** words) {
  int program = 2;
  while (program < count && strcmp(words[program], "--")) ++program;
  if (program + 1 >= count) return 2;
  const double start = now();
  const pid_t child = fork();
  if (child < 0) return 2;
  if (child == 0) {
    for (int word = 2; word < program; ++word) putenv(words[word]);
    execv(words[program + 1], words + program + 1);
    _exit(127);
  }
  int status = 0;
  struct rusage used;
  if (wait4(child, &status, 0, &used) != child) return 2;
  const double seconds = now() - start;
  FILE* const file = fopen(words[1], "w");
  if (!file) return 2;
  const double cpu_seconds = (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
                             1e-6 * (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
  fprintf(file, "%.6f %.6f %ld %ld %d\n", seconds, cpu_seconds, used.ru_minflt, used.ru_maxrss,
          WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status));
  return fclose(file) ? 2 : 0;
}
