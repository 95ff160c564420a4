// The distance between two ranks that may use these CPUs, on the machine that is described below a folder.
// argv: ROOT CPUS CPUS, with CPUS as in the kernel's lists, "0-3,8".
#include <cstdio>

#include "preload/mpich/distance.hpp"

int main(int argc, char** argv) {
  using namespace nearfield::tune;
  if (argc != 4) return 2;
  const auto found = distance_between(read_shared_hardware(argv[1]), parse_cpu_list(argv[2]), parse_cpu_list(argv[3]));
  std::printf("%s\n", distance_names[static_cast<std::size_t>(found)].data());
}
