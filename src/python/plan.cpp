// nearfield._native.plans and what it takes and gives: the plain data of plan/plan.hpp under the same names.
#include "plan/plan.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "plan/costs_file.hpp"

namespace nb = nanobind;
using namespace nearfield::planning;

namespace {

void bind_costs(nb::module_& module) {
  nb::class_<Link>(module, "Link", "What messages of one kind cost.")
      .def(nb::init<>())
      .def(nb::init<const Link&>())
      .def_rw("latency_ns", &Link::latency_ns)
      .def_rw("ns_per_byte", &Link::ns_per_byte)
      .def_rw("strided", &Link::strided)
      .def_rw("banked", &Link::banked)
      .def_rw("load_factor", &Link::load_factor)
      .def_rw("load_from_bytes", &Link::load_from_bytes);
  nb::class_<Costs>(module, "Costs", "What messages and sweeps cost.")
      .def(nb::init<>())
      .def(nb::init<const Costs&>())
      .def_rw("in_place", &Costs::in_place, nb::arg().none())
      .def_rw("same_node", &Costs::same_node)
      .def_rw("network", &Costs::network)
      .def_rw("copy_ns_per_byte", &Costs::copy_ns_per_byte)
      .def_rw("sweep_ns_per_cell", &Costs::sweep_ns_per_cell);
  module.def("default_costs", &default_costs);
  module.def(
      "costs_text", [](const Costs& costs, const std::string& origin) { return costs_text({costs, origin}); },
      nb::arg("costs"), nb::arg("origin"), "A file of costs for the halo library.");
  module.def(
      "parse_costs",
      [](const std::string& text, const std::string& name) {
        auto known = parse_costs(text, name);
        return std::pair{known.costs, known.origin};
      },
      nb::arg("text"), nb::arg("name"), "Such a file as (costs, origin); ValueError names the line.");
}

void bind_request(nb::module_& module) {
  nb::class_<PlanRequest>(module, "PlanRequest", "What is to be split, over how many ranks.")
      .def(nb::init<>())
      .def_rw("dimensions", &PlanRequest::dimensions)
      .def_rw("extents", &PlanRequest::extents)
      .def_rw("halo", &PlanRequest::halo)
      .def_rw("periodic", &PlanRequest::periodic)
      .def_rw("corners", &PlanRequest::corners)
      .def_rw("ranks", &PlanRequest::ranks)
      .def_rw("ranks_per_node", &PlanRequest::ranks_per_node)
      .def_rw("element_bytes", &PlanRequest::element_bytes)
      .def_rw("fixed_dims", &PlanRequest::fixed_dims)
      .def_rw("costs", &PlanRequest::costs);
}

void bind_plan(nb::module_& module) {
  nb::class_<Message>(module, "Message", "A box of cells as runs of contiguous bytes.")
      .def_ro("bytes", &Message::bytes)
      .def_ro("runs", &Message::runs)
      .def_ro("run_bytes", &Message::run_bytes)
      .def_ro("stride_bytes", &Message::stride_bytes);
  nb::class_<Face>(module, "Face", "What a rank receives from one side of a dimension.")
      .def_ro("message", &Face::message)
      .def_ro("messages", &Face::messages);
  nb::class_<Time>(module, "Time", "The parts of a time, in ns.")
      .def_ro("latency_ns", &Time::latency_ns)
      .def_ro("bytes_ns", &Time::bytes_ns)
      .def_ro("strided_ns", &Time::strided_ns);
  nb::class_<Plan>(module, "Plan", "A split, a placement, and what an exchange then costs the slowest rank.")
      .def_ro("dims", &Plan::dims)
      .def_ro("node_dims", &Plan::node_dims)
      .def_ro("time_ns", &Plan::time_ns)
      .def_ro("parts", &Plan::parts)
      .def_ro("sweep_ns", &Plan::sweep_ns)
      .def_ro("messages", &Plan::messages)
      .def_ro("network_messages", &Plan::network_messages)
      .def_ro("box", &Plan::box)
      .def_ro("faces", &Plan::faces);
}

}  // namespace

void bind_plans(nb::module_& module) {
  bind_costs(module);
  bind_request(module);
  bind_plan(module);
  module.def("plans", &plans, nb::arg("request"));
}
