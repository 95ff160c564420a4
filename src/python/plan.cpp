// Binds nearfield._native.plans with its arguments and results: the structs of plan/plan.hpp under the same names.
#include "plan/plan.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include "plan/costs_file.hpp"
#include "python/members.hpp"
#include "python/text.hpp"

namespace nb = nanobind;
using namespace nearfield::planning;

namespace {

void bind_costs(nb::module_& module) {
  bind_settable(nb::class_<LinkCosts>(module, "Link", "The costs of messages of one kind.")
                    .def(nb::init<>())
                    .def(nb::init<const LinkCosts&>()),
                field("latency_ns", &LinkCosts::latency_ns), field("ns_per_byte", &LinkCosts::ns_per_byte),
                field("strided", &LinkCosts::ns_per_byte_by_stride),
                field("banked", &LinkCosts::ns_per_byte_by_bank_stride), field("load_factor", &LinkCosts::load_factor),
                field("load_from_bytes", &LinkCosts::min_loaded_message_bytes));
  bind_settable(nb::class_<Costs>(module, "Costs", "The costs of messages and sweeps.")
                    .def(nb::init<>())
                    .def(nb::init<const Costs&>()),
                field("in_place", &Costs::in_place), field("same_node", &Costs::same_node),
                field("network", &Costs::network), field("copy_ns_per_byte", &Costs::copy_ns_per_byte),
                field("sweep_ns_per_cell", &Costs::sweep_ns_per_cell));
  module.def("default_costs", &default_costs);
  module.def(
      "costs_text", [](const Costs& costs, const std::string& origin) { return format_costs({costs, origin}); },
      nb::arg("costs"), nb::arg("origin"), "Returns the contents of a costs file for the halo library.");
  module.def(
      "parse_costs",
      [](const std::string& text, const std::string& name) {
        auto costs_with_origin = parse_costs(text, name);
        return std::pair{costs_with_origin.costs, costs_with_origin.origin};
      },
      nb::arg("text"), nb::arg("name"),
      "Parses the contents of a costs file. Returns (costs, origin); the ValueError for a mistake names the line.");
}

void bind_request(nb::module_& module) {
  bind_settable(nb::class_<PlanRequest>(module, "PlanRequest", "The grid to decompose, and the number of ranks.")
                    .def(nb::init<>()),
                field("dimensions", &PlanRequest::dimensions), field("extents", &PlanRequest::extents),
                field("halo", &PlanRequest::halo), field("periodic", &PlanRequest::periodic),
                field("corners", &PlanRequest::corners), field("ranks", &PlanRequest::ranks),
                field("ranks_per_node", &PlanRequest::ranks_per_node),
                field("element_bytes", &PlanRequest::element_bytes), field("fixed_dims", &PlanRequest::fixed_dims),
                field("costs", &PlanRequest::costs));
}

void bind_plan(nb::module_& module) {
  bind_readable(nb::class_<MessageLayout>(module, "Message", "A box of cells as runs of contiguous bytes."),
                field("bytes", &MessageLayout::bytes), field("runs", &MessageLayout::runs),
                field("run_bytes", &MessageLayout::run_bytes), field("stride_bytes", &MessageLayout::stride_bytes));
  bind_readable(nb::class_<FaceMessages>(module, "Face", "The messages that a rank receives along one dimension."),
                field("message", &FaceMessages::message), field("messages", &FaceMessages::num_messages));
  bind_readable(nb::class_<MessageTime>(module, "Time", "The time of a message in ns, by component."),
                field("latency_ns", &MessageTime::latency_ns), field("bytes_ns", &MessageTime::bytes_ns),
                field("strided_ns", &MessageTime::strided_ns));
  bind_readable(nb::class_<Plan>(module, "Plan",
                                 "A decomposition, a placement, and the time of an exchange on the slowest rank."),
                field("dims", &Plan::dims), field("node_dims", &Plan::node_dims), field("time_ns", &Plan::time_ns),
                field("parts", &Plan::time_parts), field("sweep_ns", &Plan::sweep_ns),
                field("messages", &Plan::num_messages), field("network_messages", &Plan::num_network_messages),
                field("box", &Plan::box), field("faces", &Plan::faces));
}

}  // namespace

void bind_plans(nb::module_& module) {
  bind_costs(module);
  bind_request(module);
  bind_plan(module);
  module.def("plans", &make_plans, nb::arg("request"));
}
