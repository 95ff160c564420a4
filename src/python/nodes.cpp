// Binds base/node_watch.hpp and base/job_end.hpp: the hub in the process of the nearfield command, and members in other
// Python processes.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <unistd.h>

#include <cstdio>
#include <mutex>
#include <string>

#include "base/job_end.hpp"
#include "base/node_watch.hpp"

namespace nb = nanobind;
using nearfield::LostNode, nearfield::NodeWatch;

namespace {

class NodeHub {
 public:
  NodeHub()
      : watch_(std::make_unique<NodeWatch>([this](const LostNode& node) {
          const std::lock_guard guard(lock_);
          if (lost_node_text_.empty()) lost_node_text_ = node.text();
          return true;
        })) {}
  std::string address() const { return watch_ ? watch_->address() : ""; }
  std::string lost_node_text() {
    const std::lock_guard guard(lock_);
    return lost_node_text_;
  }
  std::string first_ended_node() { return watch_ ? watch_->first_ended_node() : ""; }
  void close() { watch_.reset(); }

 private:
  std::mutex lock_;
  std::string lost_node_text_;
  std::unique_ptr<NodeWatch> watch_;
};

class NodeMember {
 public:
  explicit NodeMember(const std::string& address)
      : watch_(std::make_unique<NodeWatch>(address, [](const LostNode& node) -> bool {
          dprintf(STDERR_FILENO, "nearfield: %s; this process ends\n", node.text().c_str());
          _exit(5);
        })) {}
  void close() { watch_.reset(); }

 private:
  std::unique_ptr<NodeWatch> watch_;
};

}  // namespace

void bind_nodes(nb::module_& module) {
  const auto gil_release = nb::call_guard<nb::gil_scoped_release>();
  nb::class_<NodeHub>(module, "NodeHub", "Watches the nodes of a job, each by a connection to one of its processes.")
      .def(nb::init<>())
      .def_prop_ro("address", &NodeHub::address, "The address for members; empty if no connection can be accepted.")
      .def("lost", &NodeHub::lost_node_text,
           "Returns a text that names the first node that was lost; empty if none was.")
      .def("first_ended_node", &NodeHub::first_ended_node,
           "Returns the node of the first process that ended without notice; empty if none did.")
      .def("close", &NodeHub::close, gil_release, "Ends the watch.");
  module.def("end_job", &nearfield::end_job, nb::arg("text"), gil_release,
             "Prints the text, ends this process with exit code 1, and ends the launcher of the job if it is an "
             "ancestor of this process.");
  nb::class_<NodeMember>(module, "NodeMember",
                         "Connects this process to a hub. If the hub is lost, this process ends with exit code 5.")
      .def(nb::init<const std::string&>(), nb::arg("address"))
      .def("close", &NodeMember::close, gil_release, "Ends the watch.");
}
