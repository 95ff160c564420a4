// Converts std::string to and from Python str in all files of the extension module, instead of nanobind/stl/string.h.
// Bytes that are not valid UTF-8, as in file names, are converted as by os.fsdecode and os.fsencode.
#pragma once

#include <nanobind/nanobind.h>

#include <string>

NAMESPACE_BEGIN(NB_NAMESPACE)
NAMESPACE_BEGIN(detail)

template <>
struct type_caster<std::string> {
  NB_TYPE_CASTER(std::string, const_name("str"))

  bool from_python(handle source, uint8_t, cleanup_list*) noexcept {
    if (!PyUnicode_Check(source.ptr())) return false;
    const object bytes = steal(PyUnicode_AsEncodedString(source.ptr(), "utf-8", "surrogateescape"));
    if (!bytes.is_valid()) {
      PyErr_Clear();
      return false;
    }
    value.assign(PyBytes_AS_STRING(bytes.ptr()), static_cast<size_t>(PyBytes_GET_SIZE(bytes.ptr())));
    return true;
  }
  static handle from_cpp(const std::string& text, rv_policy, cleanup_list*) noexcept {
    return PyUnicode_DecodeUTF8(text.c_str(), static_cast<Py_ssize_t>(text.size()), "surrogateescape");
  }
};

NAMESPACE_END(detail)
NAMESPACE_END(NB_NAMESPACE)
