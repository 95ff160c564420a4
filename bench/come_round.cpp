// Two threads on two CPUs, without any MPI: one copies a message into shared pieces, the other out of them and answers
// likewise. A piece is used again after `ring` bytes of others. Prints a line per message size and ring: size, ring,
// and bytes per ns of copying in, of copying out, and of half a round trip; medians.
//
// usage: come_round CPU CPU
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

namespace {

constexpr std::size_t most = 64 << 20, message_most = 1 << 20;
constexpr int repetitions = 301;

struct alignas(128) Flag {
  std::atomic<long> value{0};
  void raise(long to) { value.store(to, std::memory_order_release); }
  void wait(long until) const {
    while (value.load(std::memory_order_acquire) < until) {
    }
  }
};

struct Side {
  std::vector<char> pieces = std::vector<char>(most), send = std::vector<char>(message_most),
                    receive = std::vector<char>(message_most);
  Flag sent, ready;
};
Side sides[2];

double now() {
  using namespace std::chrono;
  return duration<double, std::nano>(steady_clock::now().time_since_epoch()).count();
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

void bind_to(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  if (pthread_setaffinity_np(pthread_self(), sizeof set, &set) != 0) std::exit(2);
}

void message(Side& from, std::size_t at, std::size_t size, long turn, double* took) {
  const double start = now();
  std::memcpy(from.pieces.data() + at, from.send.data(), size);
  *took = now() - start;
  from.sent.raise(turn);
}

void take(Side& from, Side& to, std::size_t at, std::size_t size, long turn, double* took) {
  from.sent.wait(turn);
  const double start = now();
  std::memcpy(to.receive.data(), from.pieces.data() + at, size);
  *took = now() - start;
}

void play(int me, std::size_t size, std::size_t pieces, long& turn) {
  Side &mine = sides[me], &other = sides[1 - me];
  std::vector<double> in(repetitions), out(repetitions), whole(repetitions);
  for (int i = 0; i < repetitions; ++i) {
    for (std::size_t k = 0; k < size; k += 64) mine.send[k] = static_cast<char>(i);
    const std::size_t at = i % pieces * size;
    mine.ready.raise(++turn);
    other.ready.wait(turn);
    const double start = now();
    if (me == 0) message(mine, at, size, turn, &in[i]);
    take(other, mine, at, size, turn, &out[i]);
    if (me == 1) message(mine, at, size, turn, &in[i]);
    whole[i] = (now() - start) / 2;
  }
  const double bytes = static_cast<double>(size);
  if (me == 0)
    std::printf("%zu %zu %.2f %.2f %.2f\n", size, pieces * size, bytes / median(in), bytes / median(out),
                bytes / median(whole));
}

void side(int me, int cpu) {
  long turn = 0;
  bind_to(cpu);
  for (std::size_t size = 4 << 10; size <= message_most; size *= 4)
    for (std::size_t ring = size; ring <= (16 << 20); ring *= 4) play(me, size, ring / size, turn);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  std::thread other(side, 1, std::atoi(argv[2]));
  side(0, std::atoi(argv[1]));
  other.join();
}
