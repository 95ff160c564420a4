// `rules TEXT...` and `pairs TEXT...`: prints what is wrong with each text, an empty line if nothing is. Otherwise
// prints the class of a peer for each set of shared things given: core, l2, l3, numa, socket, or node, joined by +.
#include <opal/mca/hwloc/hwloc-internal.h>
#include <opal_config.h>
#include <stdio.h>
#include <string.h>

#include "classes.h"

static void check(const char* text, bool (*parse)(struct rules*, const char*, char*, size_t)) {
  struct rules rules = {0};
  char error[200] = "";
  puts(parse(&rules, text, error, sizeof error) ? "" : error);
  free_rules(&rules);
}

int main(int argc, char** argv) {
  if (argc > 1 && (strcmp(argv[1], "rules") == 0 || strcmp(argv[1], "pairs") == 0)) {
    for (int i = 2; i < argc; ++i) check(argv[i], argv[1][0] == 'r' ? parse_rules : parse_given_pairs);
    return 0;
  }
  static const struct {
    const char* name;
    uint16_t flag;
  } things[] = {{"core", OPAL_PROC_ON_CORE}, {"l2", OPAL_PROC_ON_L2CACHE},    {"l3", OPAL_PROC_ON_L3CACHE},
                {"numa", OPAL_PROC_ON_NUMA}, {"socket", OPAL_PROC_ON_SOCKET}, {"node", OPAL_PROC_ON_NODE}};
  struct rules rules = {0};
  char error[200] = "";
  const char* text =
      "same-core:eager_limit=1001;shared-l2:eager_limit=1002;shared-l3:eager_limit=1003;"
      "same-numa:eager_limit=1004;same-package:eager_limit=1005;same-node:eager_limit=1006";
  if (!parse_rules(&rules, text, error, sizeof error)) return puts(error), 1;
  for (int i = 1; i < argc; ++i) {
    uint16_t locality = OPAL_PROC_ON_NODE;
    for (unsigned t = 0; t < sizeof things / sizeof things[0]; ++t)
      if (strstr(argv[i], things[t].name)) locality |= things[t].flag;
    printf("%d\n", class_of_pair(&rules, 0, 1, locality));
  }
  free_rules(&rules);
  return 0;
}
