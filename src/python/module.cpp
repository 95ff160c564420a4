// The extension module nearfield._native: bindings of the C++ code that needs no MPI, one bind_* function per
// component.
#include <nanobind/nanobind.h>

namespace nb = nanobind;

void bind_topology(nb::module_& module);
void bind_statistics(nb::module_& module);
void bind_plans(nb::module_& module);
void bind_machine(nb::module_& module);
void bind_simulated_memory(nb::module_& module);
void bind_simulation(nb::module_& module);
void bind_traces(nb::module_& module);
void bind_streams(nb::module_& module);
void bind_replay(nb::module_& module);
void bind_advise(nb::module_& module);
void bind_calibration(nb::module_& module);
void bind_nodes(nb::module_& module);

NB_MODULE(_native, module) {
  nb::set_leak_warnings(false);  // Python functions cache bound objects until the process ends
  bind_topology(module);
  bind_statistics(module);
  bind_plans(module);
  bind_machine(module);
  bind_simulated_memory(module);
  bind_simulation(module);
  bind_traces(module);
  bind_streams(module);
  bind_replay(module);
  bind_advise(module);
  bind_calibration(module);
  bind_nodes(module);
}
