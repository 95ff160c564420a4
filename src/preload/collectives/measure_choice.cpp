#include "measure_choice.hpp"

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

#include "measure_operations.hpp"

namespace nearfield::collectives {
namespace {

constexpr int max_name_bytes = 512, max_description_bytes = 16384;

struct ControlVariable {
  std::string name, description;
  MPI_Datatype type = MPI_DATATYPE_NULL;
  MPI_T_enum enum_items = MPI_T_ENUM_NULL;
};

bool read_variable_info(int index, ControlVariable& variable) {
  static char name[max_name_bytes], description[max_description_bytes];
  int name_length = max_name_bytes, description_length = max_description_bytes, verbosity = 0, bind = 0, scope = 0;
  if (MPI_T_cvar_get_info(index, name, &name_length, &verbosity, &variable.type, &variable.enum_items, description,
                          &description_length, &bind, &scope) != MPI_SUCCESS)
    return false;
  variable.name = name;
  variable.description = description;
  return true;
}

std::string quote_as_json(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') quoted += '\\';
    if (code < 32 || code > 126) {
      char escaped[8];
      std::snprintf(escaped, sizeof escaped, "\\u%04x", code);
      quoted += escaped;
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

void print_enum_items(MPI_T_enum enum_items) {
  static char name[max_name_bytes];
  int count = 0, length = max_name_bytes;
  if (enum_items == MPI_T_ENUM_NULL || MPI_T_enum_get_info(enum_items, &count, name, &length) != MPI_SUCCESS) return;
  for (int i = 0; i < count; ++i) {
    int value = 0;
    length = max_name_bytes;
    if (MPI_T_enum_get_item(enum_items, i, &value, name, &length) == MPI_SUCCESS)
      std::printf("%s%s: %d", i ? ", " : "", quote_as_json(name).c_str(), value);
  }
}

[[noreturn]] void abort_job(const std::string& problem) {
  std::fprintf(stderr, "nearfield-collectives: %s\n", problem.c_str());
  MPI_Abort(MPI_COMM_WORLD, 1);
  std::exit(1);
}

// ---- algorithms of the preloaded library

class PreloadedSelector : public AlgorithmSelector {
 public:
  using OverrideFunction = bool(const char*, const char*);
  explicit PreloadedSelector(OverrideFunction* override) : override_algorithm_(override) {}
  bool select_algorithm(const std::string& operation, const std::string& algorithm) override {
    return override_algorithm_(operation.c_str(), algorithm.c_str());
  }
  MPI_Comm comm() const override { return MPI_COMM_WORLD; }

 private:
  OverrideFunction* override_algorithm_;
};

// ---- the MPI's own algorithms

class IntegerVariable {
 public:
  explicit IntegerVariable(const std::string& name) {
    int count = 0;
    MPI_T_cvar_get_num(&count);
    ControlVariable variable;
    int index = 0;
    while (index < count && !(read_variable_info(index, variable) && variable.name == name)) ++index;
    if (index == count) abort_job("this MPI has no variable " + name);
    int elements = 0;
    if (variable.type != MPI_INT || MPI_T_cvar_handle_alloc(index, nullptr, &handle_, &elements) != MPI_SUCCESS)
      abort_job("cannot set the variable " + name);
    MPI_T_cvar_read(handle_, &original_value_);
  }
  bool set(int value) { return MPI_T_cvar_write(handle_, &value) == MPI_SUCCESS; }
  bool restore() { return set(original_value_); }

 private:
  MPI_T_cvar_handle handle_ = MPI_T_CVAR_HANDLE_NULL;
  int original_value_ = 0;
};

class NativeSelector : public AlgorithmSelector {
 public:
  explicit NativeSelector(bool uses_one_comm_per_algorithm)
      : uses_one_comm_per_algorithm_(uses_one_comm_per_algorithm) {}
  ~NativeSelector() override {
    restore_default();
    for (auto& [algorithm, comm] : comm_by_algorithm_) MPI_Comm_free(&comm);
  }

  bool select_algorithm(const std::string&, const std::string& algorithm) override {
    restore_default();
    if (!uses_one_comm_per_algorithm_) use_communicator("");
    const std::size_t at = algorithm.find('@');
    if (at != std::string::npos)
      for (const std::string& setting : split_text(algorithm.substr(at + 1), '&'))
        if (!set_variable(setting)) return false;
    if (uses_one_comm_per_algorithm_) use_communicator(algorithm);
    return true;
  }

  void restore_default() override {
    for (IntegerVariable* variable : changed_variables_) variable->restore();
    changed_variables_.clear();
  }

  MPI_Comm comm() const override { return current_comm_; }

 private:
  bool set_variable(const std::string& setting) {
    const std::size_t equals = setting.find('=');
    if (equals == std::string::npos) return false;
    const std::string name = setting.substr(0, equals);
    auto variable = variable_by_name_.find(name);
    if (variable == variable_by_name_.end()) variable = variable_by_name_.emplace(name, IntegerVariable(name)).first;
    changed_variables_.push_back(&variable->second);
    return variable->second.set(std::atoi(setting.c_str() + equals + 1));
  }

  void use_communicator(const std::string& name) {
    const auto [entry, is_new] = comm_by_algorithm_.try_emplace(name, MPI_COMM_NULL);
    if (is_new) {
      MPI_Comm_dup(MPI_COMM_WORLD, &entry->second);
      MPI_Comm_set_errhandler(entry->second, MPI_ERRORS_RETURN);
    }
    current_comm_ = entry->second;
  }

  bool uses_one_comm_per_algorithm_;
  std::map<std::string, IntegerVariable> variable_by_name_;
  std::vector<IntegerVariable*> changed_variables_;
  std::map<std::string, MPI_Comm> comm_by_algorithm_;
  MPI_Comm current_comm_ = MPI_COMM_WORLD;
};

}  // namespace

void print_control_variables(const std::string& prefix) {
  int count = 0;
  MPI_T_cvar_get_num(&count);
  for (int index = 0; index < count; ++index) {
    ControlVariable variable;
    if (!read_variable_info(index, variable) || variable.name.rfind(prefix, 0) != 0 || variable.type != MPI_INT)
      continue;
    std::printf(R"({"variable": %s, "description": %s, "items": {)", quote_as_json(variable.name).c_str(),
                quote_as_json(variable.description).c_str());
    print_enum_items(variable.enum_items);
    std::printf("}}\n");
  }
  std::fflush(stdout);
}

std::unique_ptr<AlgorithmSelector> make_preloaded_selector() {
  const auto override =
      reinterpret_cast<PreloadedSelector::OverrideFunction*>(dlsym(RTLD_DEFAULT, "nearfield_collectives_override"));
  return override ? std::make_unique<PreloadedSelector>(override) : nullptr;
}

std::unique_ptr<AlgorithmSelector> make_native_selector(bool uses_one_comm_per_algorithm) {
  return std::make_unique<NativeSelector>(uses_one_comm_per_algorithm);
}

}  // namespace nearfield::collectives
