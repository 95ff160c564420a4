# nearfield for Spack. docs/how-to/packages.md says how to install it from here.

from spack_repo.builtin.build_systems.python import PythonPackage

from spack.package import *


class Nearfield(PythonPackage):
    """nearfield measures what caches, core distance, pages and load do to MPI communication inside a node,
    tunes the MPI for unmodified programs, and has a halo exchange library without copies."""

    pypi = "nearfield/nearfield-0.1.0.tar.gz"

    license("BSD-3-Clause AND GPL-2.0-or-later")

    # A release adds the checksum of the source distribution. Before the first one, `spack develop` names a source tree.
    version("0.1.0")

    variant("halo", default=True, description="Install the halo library for C++, C, Fortran and Python programs")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("python@3.10:", type=("build", "link", "run"))
    depends_on("py-scikit-build-core@0.10:", type="build")
    depends_on("py-nanobind@2.4:", type="build")
    depends_on("py-typing-extensions", type="build", when="^python@:3.10")
    depends_on("pkgconfig", type="build")
    depends_on("hwloc@2.1:")

    # These also build the measuring engine for each MPI, when it is used for the first time.
    depends_on("cmake@3.21:", type=("build", "run"))
    depends_on("ninja", type=("build", "run"))
    depends_on("mpi", type=("build", "link", "run"))

    depends_on("py-filelock@4.1:", type=("build", "run"))
    depends_on("py-islpy@2026.2.2", type=("build", "run"))
    depends_on("py-libclang@18.1.1", type=("build", "run"))
    depends_on("py-optuna@4.0:", type=("build", "run"))
    depends_on("py-polars@1.0:", type=("build", "run"))
    depends_on("py-plotly@6.0:", type=("build", "run"))
    depends_on("py-pydantic@2.5:", type=("build", "run"))
    depends_on("py-rich@13:", type=("build", "run"))
    depends_on("py-tomlkit@0.12:", type=("build", "run"))
    depends_on("py-typer@0.15:", type=("build", "run"))

    with when("+halo"):
        depends_on("py-mpi4py@4.0:", type=("build", "run"))
        depends_on("py-numpy@1.24:", type=("build", "run"))

    conflicts("platform=darwin", msg="nearfield runs on Linux only")
    conflicts("platform=windows", msg="nearfield runs on Linux only")

    def config_settings(self, spec, prefix):
        """Takes hwloc from Spack, where a wheel has a copy of its own."""
        return {"cmake.define.NEARFIELD_HWLOC": "system"}

    @run_after("install")
    def install_halo_library(self):
        """Installs the halo library for find_package(nearfield) and pkg-config, for the MPI of this spec."""
        if self.spec.satisfies("~halo"):
            return
        build = join_path(self.stage.path, "halo-build")
        cmake = which("cmake", required=True)
        cmake(
            "-S",
            self.stage.source_path,
            "-B",
            build,
            "-G",
            "Ninja",
            "-DNEARFIELD_HALO=ON",
            f"-DCMAKE_CXX_COMPILER={self.spec['mpi'].mpicxx}",
            f"-DCMAKE_INSTALL_PREFIX={self.prefix}",
        )
        cmake("--build", build)
        cmake("--install", build)

    def test_plan(self):
        """split a grid on a described machine, which needs no MPI"""
        nearfield = which(self.prefix.bin.nearfield, required=True)
        out = nearfield("plan", "64x64x64", "--ranks", "8", "--on", "t3e-900", output=str.split, error=str.split)
        assert "4x2x1" in out, out
