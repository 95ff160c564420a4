#include "measure_choice.hpp"

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

#include "measure_operations.hpp"

namespace nearfield::collectives {
namespace {

constexpr int max_name = 512, max_description = 16384;

struct Variable {
  std::string name, description;
  MPI_Datatype type = MPI_DATATYPE_NULL;
  MPI_T_enum items = MPI_T_ENUM_NULL;
};

bool read_info(int index, Variable& variable) {
  static char name[max_name], description[max_description];
  int name_length = max_name, description_length = max_description, verbosity = 0, bind = 0, scope = 0;
  if (MPI_T_cvar_get_info(index, name, &name_length, &verbosity, &variable.type, &variable.items, description,
                          &description_length, &bind, &scope) != MPI_SUCCESS)
    return false;
  variable.name = name;
  variable.description = description;
  return true;
}

std::string quote(const std::string& text) {
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

void print_items(MPI_T_enum items) {
  static char name[max_name];
  int count = 0, length = max_name;
  if (items == MPI_T_ENUM_NULL || MPI_T_enum_get_info(items, &count, name, &length) != MPI_SUCCESS) return;
  for (int i = 0; i < count; ++i) {
    int value = 0;
    length = max_name;
    if (MPI_T_enum_get_item(items, i, &value, name, &length) == MPI_SUCCESS)
      std::printf("%s%s: %d", i ? ", " : "", quote(name).c_str(), value);
  }
}

[[noreturn]] void fail(const std::string& problem) {
  std::fprintf(stderr, "nearfield-collectives: %s\n", problem.c_str());
  MPI_Abort(MPI_COMM_WORLD, 1);
  std::exit(1);
}

// ---- algorithms of the preloaded library

class PreloadedChoice : public Choice {
 public:
  using Override = bool(const char*, const char*);
  explicit PreloadedChoice(Override* override) : override_(override) {}
  bool choose(const std::string& operation, const std::string& algorithm) override {
    return override_(operation.c_str(), algorithm.c_str());
  }
  MPI_Comm comm() const override { return MPI_COMM_WORLD; }

 private:
  Override* override_;
};

// ---- the MPI's own algorithms

class Integer {
 public:
  explicit Integer(const std::string& name) {
    int count = 0;
    MPI_T_cvar_get_num(&count);
    Variable variable;
    int index = 0;
    while (index < count && !(read_info(index, variable) && variable.name == name)) ++index;
    if (index == count) fail("this MPI has no variable " + name);
    int elements = 0;
    if (variable.type != MPI_INT || MPI_T_cvar_handle_alloc(index, nullptr, &handle_, &elements) != MPI_SUCCESS)
      fail("cannot set the variable " + name);
    MPI_T_cvar_read(handle_, &original_);
  }
  bool set(int value) { return MPI_T_cvar_write(handle_, &value) == MPI_SUCCESS; }
  bool restore() { return set(original_); }

 private:
  MPI_T_cvar_handle handle_ = MPI_T_CVAR_HANDLE_NULL;
  int original_ = 0;
};

class NativeChoice : public Choice {
 public:
  explicit NativeChoice(bool by_communicator) : by_communicator_(by_communicator) {}
  ~NativeChoice() override {
    release();
    for (auto& [algorithm, comm] : comms_) MPI_Comm_free(&comm);
  }

  bool choose(const std::string&, const std::string& algorithm) override {
    release();
    if (!by_communicator_) use_communicator("");
    const std::size_t at = algorithm.find('@');
    if (at != std::string::npos)
      for (const std::string& setting : split(algorithm.substr(at + 1), '&'))
        if (!set(setting)) return false;
    if (by_communicator_) use_communicator(algorithm);
    return true;
  }

  void release() override {
    for (Integer* variable : changed_) variable->restore();
    changed_.clear();
  }

  MPI_Comm comm() const override { return current_; }

 private:
  bool set(const std::string& setting) {
    const std::size_t equals = setting.find('=');
    if (equals == std::string::npos) return false;
    const std::string name = setting.substr(0, equals);
    auto known = variables_.find(name);
    if (known == variables_.end()) known = variables_.emplace(name, Integer(name)).first;
    changed_.push_back(&known->second);
    return known->second.set(std::atoi(setting.c_str() + equals + 1));
  }

  void use_communicator(const std::string& name) {
    const auto [place, is_new] = comms_.try_emplace(name, MPI_COMM_NULL);
    if (is_new) {
      MPI_Comm_dup(MPI_COMM_WORLD, &place->second);
      MPI_Comm_set_errhandler(place->second, MPI_ERRORS_RETURN);
    }
    current_ = place->second;
  }

  bool by_communicator_;
  std::map<std::string, Integer> variables_;
  std::vector<Integer*> changed_;
  std::map<std::string, MPI_Comm> comms_;
  MPI_Comm current_ = MPI_COMM_WORLD;
};

}  // namespace

void print_variables(const std::string& prefix) {
  int count = 0;
  MPI_T_cvar_get_num(&count);
  for (int index = 0; index < count; ++index) {
    Variable variable;
    if (!read_info(index, variable) || variable.name.rfind(prefix, 0) != 0 || variable.type != MPI_INT) continue;
    std::printf(R"({"variable": %s, "description": %s, "items": {)", quote(variable.name).c_str(),
                quote(variable.description).c_str());
    print_items(variable.items);
    std::printf("}}\n");
  }
  std::fflush(stdout);
}

std::unique_ptr<Choice> make_preloaded_choice() {
  const auto override =
      reinterpret_cast<PreloadedChoice::Override*>(dlsym(RTLD_DEFAULT, "nearfield_collectives_override"));
  return override ? std::make_unique<PreloadedChoice>(override) : nullptr;
}

std::unique_ptr<Choice> make_native_choice(bool by_communicator) {
  return std::make_unique<NativeChoice>(by_communicator);
}

}  // namespace nearfield::collectives
