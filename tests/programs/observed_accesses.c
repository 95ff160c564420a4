/* Accesses of known numbers, for `nearfield observe`: each function does what its name says, over arrays of doubles, and
   the sum at the end does not depend on being observed. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { n = 1000 };
static double a[n], b[n];
static int order[n];
static _Atomic long counter;
struct big {
  double part[25];
};
static struct big one, two;

#define NOINLINE __attribute__((noinline, noclone))

NOINLINE static void fill(void) {
  for (int i = 0; i < n; ++i) a[i] = i, order[i] = (i * 7919) % n;
}
NOINLINE static void add(void) {
  for (int i = 0; i < n; ++i) b[i] = b[i] + a[i];
}
NOINLINE static double gather(void) {
  double sum = 0;
  for (int i = 0; i < n; ++i) sum += a[order[i]];
  return sum;
}
NOINLINE static void copies(void) {
  memcpy(b, a, sizeof b / 2);
  memmove(b + 1, b, 80);
  memset(a, 0, 160);
  two = one;
}
NOINLINE static void count(void) {
  for (int i = 0; i < 10; ++i) atomic_fetch_add(&counter, 2);
}
NOINLINE static void *in_thread(void *what) {
  add();
  return what;
}

int main(int argc, char **argv) {
  const char *what = argc > 1 ? argv[1] : "all";
  fill();
  if (!strcmp(what, "fork")) {
    if (fork() == 0) {
      for (int i = 0; i < 100; ++i) add();
      _exit(0);
    }
    wait(NULL);
  }
  if (!strcmp(what, "thread")) {
    pthread_t thread;
    pthread_create(&thread, NULL, in_thread, NULL);
    pthread_join(thread, NULL);
  }
  for (int i = 0; i < 3; ++i) add();
  const double sum = gather();
  copies();
  count();
  printf("%.17g %.17g %ld\n", sum, b[n - 1], counter);
  fflush(stdout);
  if (!strcmp(what, "killed")) raise(SIGKILL);
  return !strcmp(what, "fails") ? 7 : 0;
}
