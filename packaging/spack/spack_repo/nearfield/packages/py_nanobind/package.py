# nanobind from version 3, which py-islpy needs and Spack's own package does not list yet.

from spack_repo.builtin.packages.py_nanobind.package import PyNanobind as BuiltinPyNanobind

from spack.package import *


class PyNanobind(BuiltinPyNanobind):
    __doc__ = BuiltinPyNanobind.__doc__

    version(
        "3.1.0",
        url="https://files.pythonhosted.org/packages/py3/n/nanobind/nanobind-3.1.0-py3-none-any.whl",
        sha256="96984dbe8154ffb86e653b1b60aaeed6985c710c5e75ad0279eb87943c66292d",
        expand=False,
    )
