// Replaces the program's clocks: each reading is a millisecond after the previous one, so that times which a program
// prints, or on which its decisions depend, are the same in each run.
#include <sys/time.h>
#include <time.h>

#include "verify.h"

static double next_reading_s(void) {
  static long num_readings NF_STATE;
  return 1e9 + 1e-3 * (double)++num_readings;
}

double MPI_Wtime(void) { return next_reading_s(); }
double __wrap_omp_get_wtime(void) { return next_reading_s(); }
clock_t __wrap_clock(void) { return (clock_t)((next_reading_s() - 1e9) * CLOCKS_PER_SEC); }

time_t __wrap_time(time_t* result) {
  time_t seconds = (time_t)next_reading_s();
  if (result) *result = seconds;
  return seconds;
}

int __wrap_gettimeofday(struct timeval* result, void* time_zone) {
  double seconds = next_reading_s();
  (void)time_zone;
  *result = (struct timeval){(time_t)seconds, (suseconds_t)((seconds - (double)(time_t)seconds) * 1e6)};
  return 0;
}

int __wrap_clock_gettime(clockid_t clock, struct timespec* result) {
  double seconds = next_reading_s();
  (void)clock;
  *result = (struct timespec){(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
  return 0;
}

// std::chrono's clocks return nanoseconds.
int64_t __wrap__ZNSt6chrono3_V212system_clock3nowEv(void) { return (int64_t)(next_reading_s() * 1e9); }
int64_t __wrap__ZNSt6chrono3_V212steady_clock3nowEv(void) { return (int64_t)(next_reading_s() * 1e9); }
