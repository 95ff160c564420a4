// An Open MPI 4 component (btl/nearfield) that sets the transport parameters of messages inside a node per core
// distance, in unmodified programs.
//
// Open MPI sends all messages of a node by one module of its shared-memory transport (btl/vader), with one eager limit,
// one fragment size, one choice of single copies. This component interposes on it with one module per class of
// distance, each with its own limits, and vader moves all bytes.
//
// Parameters (`ompi_info --param btl nearfield --level 9`):
//   btl_nearfield_rules    DISTANCE:key=value,key=value;DISTANCE:...   with the keys of struct limits (classes.h)
//   btl_nearfield_classes  RANK-RANK:DISTANCE;...                      pairs of world ranks whose distance is given
// A class cannot exceed vader's own limits, so the launcher raises btl_vader_eager_limit and btl_vader_max_send_size to
// the largest of the classes, and adds a rule for each distance that shall not get these; and raises
// btl_vader_segment_size accordingly (4 MiB hold about a hundred fragments of 32 KiB).
//
// Life cycle, on every rank:
//   register  by Open MPI, also in ompi_info: the parameters.
//   init      in MPI_Init: parses. Disables itself (no modules; the program runs with vader's defaults) without rules,
//             with invalid ones, and under MPI_THREAD_MULTIPLE; in the latter two cases the first rank of each node
//             prints a notice on stderr.
//   add_procs at the first: finds vader, or reaches nobody. Adds each peer to vader once (peers.h); assigns a class.
//   messages  pass through modules.h to vader; arriving ones are mapped to their class (upcall.h). When vader has no
//             fragments left: deferred.h.
//   finalize  restores what was replaced. After an abort nothing of ours remains: no file, no process, no segment.
//
// Left out: threads that call MPI at the same time; vader's memory by XPMEM, POSIX or System V (with a notice on
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

#include "classes.h"
#include "modules.h"

static char *rules_text, *pairs_text;
static struct rules rules;

static void register_text(const char* name, const char* what, char** text) {
  *text = "";
  mca_base_component_var_register(&mca_btl_nearfield_component.btl_version, name, what, MCA_BASE_VAR_TYPE_STRING, NULL,
                                  0, 0, OPAL_INFO_LVL_3, MCA_BASE_VAR_SCOPE_READONLY, text);
}

static int nf_register_params(void) {
  register_text("rules",
                "Limits per core distance, DISTANCE:key=value,key=value;DISTANCE:... with DISTANCE one of same-core, "
                "shared-l2, shared-l3, same-numa, same-package, same-node, and key one of eager_limit, "
                "max_send_size, single_copy_from (bytes, or never). Empty: not used",
                &rules_text);
  register_text("classes", "Distance of pairs of world ranks in place of the measured one, 0-1:shared-l3;0-2:same-node",
                &pairs_text);
  return OPAL_SUCCESS;
}

static void say(const char* parameter, const char* what) {
  if (opal_process_info.my_local_rank != 0) return;
  fprintf(stderr, "nearfield: %s%s; no rules are used\n", parameter, what);
}

static bool parse(void) {
  char error[200];
  if (!rules_parse(&rules, rules_text ? rules_text : "", error, sizeof error)) {
    say("btl_nearfield_rules: ", error);
    return false;
  }
  if (!rules_parse_pairs(&rules, pairs_text ? pairs_text : "", error, sizeof error)) {
    say("btl_nearfield_classes: ", error);
    return false;
  }
  return !rules_empty(&rules);
}

static mca_btl_base_module_t** nf_init(int* n, bool progress_threads, bool mpi_threads) {
  (void)progress_threads;  // always true: there are some that serve none of our messages
  *n = 0;
  rules_free(&rules);
  if (!parse()) return NULL;
  if (mpi_threads) {
    say("", "not made for MPI_THREAD_MULTIPLE");
    return NULL;
  }
  return modules_make(&rules, n);
}

static int nf_close(void) {
  rules_free(&rules);
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
