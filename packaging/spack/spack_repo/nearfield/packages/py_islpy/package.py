# The integer set library for Python, which Spack's own packages lack.

from spack_repo.builtin.build_systems.python import PythonPackage

from spack.package import *


class PyIslpy(PythonPackage):
    """islpy wraps isl, a library of sets and relations of integer points bounded by linear constraints."""

    homepage = "https://github.com/inducer/islpy"
    pypi = "islpy/islpy-2026.2.2.tar.gz"

    license("MIT")

    version("2026.2.2", sha256="c94383d6ffe725774b4839eb5b259565b828f972e9413a8dad677459a5dc5b5f")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("python@3.10:3", type=("build", "link", "run"))
    depends_on("cmake", type="build")
    depends_on("ninja", type="build")
    depends_on("py-scikit-build-core@0.9.3:", type="build")
    depends_on("py-nanobind@3:", type="build")
    depends_on("py-pcpp", type="build")
    depends_on("py-typing-extensions@4.5:", type="build")
