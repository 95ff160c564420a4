// An Open MPI 4 component (btl/nearfield) that sets the transport parameters of messages inside a node per core
// distance, in unmodified programs.
//
// Open MPI sends all messages inside a node by one module of its shared-memory transport (btl/vader), with one eager
// limit, one fragment size, one choice of single copies. This component interposes on vader's module with one module
// per class of distance, each with its own limits; vader still moves all bytes.
//
// Parameters (`ompi_info --param btl nearfield --level 9`):
//   btl_nearfield_rules    DISTANCE:key=value,key=value;DISTANCE:...   with the keys of struct limits
//   btl_nearfield_classes  RANK-RANK:DISTANCE;...                      pairs of world ranks whose distance is given
//   (preload/pair_rules/pair_rules.h)
// The limits of a class cannot exceed vader's own, so the launcher raises btl_vader_eager_limit and
// btl_vader_max_send_size to the maximum over the classes, adds a rule for each distance that is to keep vader's
// defaults, and raises btl_vader_segment_size accordingly (4 MiB hold about a hundred fragments of 32 KiB).
//
// Life cycle, on every rank:
//   register  registers the parameters; Open MPI calls it also in ompi_info.
//   init      in MPI_Init: parses the parameters. Disables the component (no modules; the program runs with vader's
//             defaults) without rules, with invalid rules, and under MPI_THREAD_MULTIPLE; in the latter two cases the
//             first rank of each node prints a notice on stderr.
//   add_procs the first call looks up vader; without vader, the component reaches no peer. Adds each peer to vader once
//             (peers.h), and assigns a class to it.
//   messages  modules.h passes outgoing messages to vader, upcall.h incoming ones to the module of their class. When
//             vader has no fragments left, deferred.h has some.
//   finalize  restores the functions that were replaced. The component creates no file, process or segment that an
//             abort could leave behind.
//
// Not supported: threads that call MPI at the same time; vader's memory by XPMEM, POSIX or System V (with a notice on
// stderr; those peers keep vader's defaults); other MPI jobs (MPI_Comm_spawn: between jobs Open MPI 4 does not use
// vader; inside the new job nothing differs); one-sided communication (osc/rdma finds vader as before, osc/sm and
// osc/pt2pt do not use modules); vader's fast boxes and segment size, which are per process and not per pair; Open MPI
// 5, which identifies the sender differently.
#include <opal_config.h>

_Static_assert(OPAL_MAJOR_VERSION == 4, "btl/nearfield is for Open MPI 4: the calls of a transport differ in others");

#include <opal/mca/base/mca_base_var.h>
#include <opal/mca/btl/base/base.h>
#include <opal/util/proc.h>
#include <stdio.h>

#include "modules.h"

static char *rules_text, *pairs_text;
static struct pair_rules rules;

static void register_text_parameter(const char* name, const char* description, char** text) {
  *text = "";
  mca_base_component_var_register(&mca_btl_nearfield_component.btl_version, name, description, MCA_BASE_VAR_TYPE_STRING,
                                  NULL, 0, 0, OPAL_INFO_LVL_3, MCA_BASE_VAR_SCOPE_READONLY, text);
}

static int nf_register_params(void) {
  register_text_parameter(
      "rules",
      "Limits per core distance, DISTANCE:key=value,key=value;DISTANCE:... with DISTANCE one of same-core, "
      "shared-l2, shared-l3, same-numa, same-package, same-node, and key one of eager_limit, "
      "max_send_size, single_copy_from (bytes, or never). Empty: not used",
      &rules_text);
  register_text_parameter("classes",
                          "Distance of pairs of world ranks in place of the measured one, 0-1:shared-l3;0-2:same-node",
                          &pairs_text);
  return OPAL_SUCCESS;
}

static void print_notice(const char* parameter_name, const char* description) {
  if (opal_process_info.my_local_rank != 0) return;
  fprintf(stderr, "nearfield: %s%s; no rules are used\n", parameter_name, description);
}

static bool parse_parameters(void) {
  char error[200];
  if (!parse_rules(&rules, ALL_LIMIT_KEYS, rules_text ? rules_text : "", error, sizeof error)) {
    print_notice("btl_nearfield_rules: ", error);
    return false;
  }
  if (!parse_given_pairs(&rules, pairs_text ? pairs_text : "", error, sizeof error)) {
    print_notice("btl_nearfield_classes: ", error);
    return false;
  }
  return !are_rules_empty(&rules);
}

static mca_btl_base_module_t** nf_init(int* num_modules, bool progress_threads, bool mpi_threads) {
  (void)progress_threads;  // always true: Open MPI has progress threads, but they serve none of our messages
  *num_modules = 0;
  free_rules(&rules);
  if (!parse_parameters()) return NULL;
  if (mpi_threads) {
    print_notice("", "not made for MPI_THREAD_MULTIPLE");
    return NULL;
  }
  return create_modules(&rules, num_modules);
}

static int nf_close(void) {
  free_rules(&rules);
  return OPAL_SUCCESS;
}

__attribute__((visibility("default"))) mca_btl_base_component_t mca_btl_nearfield_component = {
    .btl_version =
        {
            MCA_BTL_DEFAULT_VERSION("nearfield"),
            .mca_close_component = nf_close,
            .mca_register_component_params = nf_register_params,
        },
    .btl_data = {.param_field = MCA_BASE_METADATA_PARAM_CHECKPOINT},
    .btl_init = nf_init,
};
