#include "locality.h"

#include <opal/mca/hwloc/hwloc-internal.h>
#include <opal_config.h>

#include "base/distances.h"

enum { NEARFIELD_EACH_DISTANCE(NEARFIELD_DISTANCE_ENUMERATOR) };

// As in src/topology/distance.hpp, a NUMA node may span packages, and two ranks in different packages are not
// same-numa.
int distance_of_locality(uint16_t locality) {
  if (locality & (OPAL_PROC_ON_CORE | OPAL_PROC_ON_HWTHREAD)) return same_core;
  if (locality & OPAL_PROC_ON_L2CACHE) return shared_l2;
  if (locality & OPAL_PROC_ON_L3CACHE) return shared_l3;
  if (!(locality & OPAL_PROC_ON_SOCKET)) return same_node;
  return locality & OPAL_PROC_ON_NUMA ? same_numa : same_package;
}
