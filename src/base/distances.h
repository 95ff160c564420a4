// The classes of distance between two cores of a node, nearest first. NEARFIELD_EACH_DISTANCE is an X macro for C and
// C++ that expands X(enumerator, name) for each class.
#pragma once

#define NEARFIELD_EACH_DISTANCE(X) \
  X(same_core, "same-core")        \
  X(shared_l2, "shared-l2")        \
  X(shared_l3, "shared-l3")        \
  X(same_numa, "same-numa")        \
  X(same_package, "same-package")  \
  X(same_node, "same-node")
#define NEARFIELD_DISTANCE_ENUMERATOR(enumerator, name) enumerator,
#define NEARFIELD_DISTANCE_NAME(enumerator, name) name,
