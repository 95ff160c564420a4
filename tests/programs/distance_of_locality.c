// Prints the distance of a peer for each set of shared things given: core, l2, l3, numa, socket, or node, joined by +.
#include <opal/mca/hwloc/hwloc-internal.h>
#include <opal_config.h>
#include <stdio.h>
#include <string.h>

#include "locality.h"

int main(int argc, char** argv) {
  static const struct {
    const char* name;
    uint16_t flag;
  } things[] = {{"core", OPAL_PROC_ON_CORE}, {"l2", OPAL_PROC_ON_L2CACHE},    {"l3", OPAL_PROC_ON_L3CACHE},
                {"numa", OPAL_PROC_ON_NUMA}, {"socket", OPAL_PROC_ON_SOCKET}, {"node", OPAL_PROC_ON_NODE}};
  for (int i = 1; i < argc; ++i) {
    uint16_t locality = OPAL_PROC_ON_NODE;
    for (unsigned t = 0; t < sizeof things / sizeof things[0]; ++t)
      if (strstr(argv[i], things[t].name)) locality |= things[t].flag;
    printf("%d\n", distance_of_locality(locality));
  }
  return 0;
}
