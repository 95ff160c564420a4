# filelock from version 4, which Spack's own package does not list yet.

from spack_repo.builtin.packages.py_filelock.package import PyFilelock as BuiltinPyFilelock

from spack.package import *


class PyFilelock(BuiltinPyFilelock):
    __doc__ = BuiltinPyFilelock.__doc__

    version(
        "4.3.1",
        url="https://files.pythonhosted.org/packages/py3/f/filelock/filelock-4.3.1-py3-none-any.whl",
        sha256="79e43df8e9fe509cd83a3899a7c186c8077cbbe4d200a1ed3705c2f3bb6bc487",
        expand=False,
    )
