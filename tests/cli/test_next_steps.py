"""Does every line that the tool prints as a next step work when it is copied from where it was printed?"""

import ast
import html
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from report_profiles import profile
from test_help import examples
from typer.testing import CliRunner

import nearfield
from nearfield.base import own_command
from nearfield.cli import app
from nearfield.cli.help import VERBS

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests" / "data"
RULES = DATA / "rules" / "openmpi-5.0.11.toml"
Called = tuple[Path, list[str], dict[str, str]]
CALLED = ("on the path", "by its path", "as a module")


@pytest.fixture
def called(request: pytest.FixtureRequest, tmp_path: Path) -> Called:
    """A folder of a user's, a way to start nearfield there, and the environment in which that is possible."""
    script = Path(sys.executable).with_name("nearfield")
    env = {name: value for name, value in os.environ.items() if name != "NEARFIELD_RULES"}
    others = [folder for folder in env["PATH"].split(os.pathsep) if not (Path(folder) / "nearfield").exists()]
    env["PATH"] = os.pathsep.join(others)
    (tmp_path / "venv").symlink_to(sys.prefix)
    if request.param == "on the path":
        env["PATH"] = os.pathsep.join([str(script.parent), *others])
        return tmp_path, ["nearfield"], env
    program = ["venv/bin/nearfield"] if request.param == "by its path" else [sys.executable, "-m", "nearfield"]
    return tmp_path, program, env


class User:
    """Types commands into a shell in one folder, and copies what is printed."""

    def __init__(self, called: Called) -> None:
        self.folder, self.program, self.env = called

    def types(self, line: str, code: int = 0) -> str:
        done = subprocess.run(["sh", "-c", line], cwd=self.folder, env=self.env, capture_output=True, text=True)
        assert done.returncode == code, f"{line}\n{done.stdout}{done.stderr}"
        return done.stdout + done.stderr

    def calls(self, *words: object, code: int = 0) -> str:
        return self.types(shlex.join([*self.program, *map(str, words)]), code)


def after(mark: str, said: str) -> str:
    """Returns the command that is printed behind these words."""
    found = re.search(rf"{re.escape(mark)} +(.*)", said)
    assert found, said
    return found.group(1).strip()


def printed_texts(file: Path) -> list[str]:
    """The strings of a module that it may print: without docstrings, and without the help of options and the words of
    schemas, which nearfield.cli.help and the pages of docs/ print in a way of their own."""
    tree = ast.parse(file.read_text())
    named = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) in ("_required_field", "_optional_field", "_list_field", "Field")
    ]
    helps = [word.value for node in ast.walk(tree) if isinstance(node, ast.Call)
             for word in node.keywords if word.arg in ("help", "epilog")]  # fmt: skip
    bare = [node for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)]
    left_out = {id(inner) for node in [*named, *helps, *bare] for inner in ast.walk(node)}
    texts = (node for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str))
    return [node.value for node in texts if id(node) not in left_out]


# Words that are written into files and say what made them.
OF_FILES = ("Rules from nearfield tune.", "nearfield simulate", "All pairs get the same rule; `nearfield run` gives")


def test_no_text_names_nearfield_by_a_name_that_may_not_be_found() -> None:
    """Does nearfield.base.own_command make all lines to type, and do the engine and the libraries, which know no path,
    name the verb in words?"""
    call = re.compile(rf"(?<!-m )\bnearfield (?:{'|'.join(VERBS)})\b")
    package = Path(nearfield.__file__).parent
    found = {
        file: [t for t in printed_texts(file) if call.search(t) and not t.startswith(OF_FILES)]
        for file in package.rglob("*.py")
    }
    assert not {file: texts for file, texts in found.items() if texts}
    quoted = re.compile(r'"(?:[^"\\]|\\.)*"')
    native = [f for f in (ROOT / "src").rglob("*.[ch]pp") if f != ROOT / "src/probe/main.cpp"]
    assert not [t for file in native for t in quoted.findall(file.read_text()) if call.search(t)]


def test_an_interrupted_simulation_is_completed_by_this_nearfield(monkeypatch: pytest.MonkeyPatch) -> None:
    """Is it completed although the folder keeps another name by which the command was typed?"""
    monkeypatch.setattr(own_command, "own_executable", lambda: "venv/bin/nearfield")
    made = profile([], command="nearfield simulate bcast --out 'a b'", complete=False)
    assert made.completed_by == "venv/bin/nearfield simulate bcast --out 'a b'"


@pytest.mark.parametrize("called", CALLED, indirect=True)
def test_what_profiles_suggest_to_type(called: Called) -> None:
    """However nearfield was called and whatever folders are called: is it found by the line that is copied, and does
    that name the right folder?"""
    user = User(called)
    shutil.copytree(DATA / "epyc-vm-quiet", user.folder / "my profile")
    run = user.folder / "my profile" / "run.toml"
    run.write_text(run.read_text().replace("complete = true", "complete = false"))
    line = after("to complete it:", user.calls("show", "my profile"))
    assert "my profile" in user.types(line, code=2), "there is nothing to resume"


@pytest.mark.parametrize("called", ["by its path"], indirect=True)
def test_what_errors_suggest_to_type(called: Called) -> None:
    """Do the lines of errors lead to what they say?"""
    user = User(called)
    user.types(after("tune that MPI:", user.calls("export", "--for", "mpich", "--rules", RULES, code=2)) + " --help")
    assert "S0.1" in user.types(after("all of them:", user.calls("reproduce", "S9", code=2)))


@pytest.mark.parametrize("called", ["by its path"], indirect=True)
def test_after_a_probe(called: Called) -> None:
    """Does its last line make a report?"""
    user = User(called)
    said = user.calls("probe", "--on", "blues", "--scenario", "collective", "--sizes", "8", "--quick", "-o", "a probe")
    assert "report.html" in user.types(after("next:", said))


@pytest.mark.parametrize("called", ["by its path"], indirect=True)
def test_rules_are_found_by_the_command_that_applies_them(called: Called) -> None:
    """Whether `run` finds the file by itself or not: does the line in the report run a program, from the folder of the
    user in the terminal, from any on the page? And are rules left out that are for another MPI?"""
    user = User(called)
    shutil.copytree(DATA / "epyc-vm-quiet", user.folder / "profile")
    run = user.folder / "profile" / "run.toml"
    run.write_text(run.read_text().replace('"4.1.4"', '"5.0.11"'))
    assert "Run programs as they are" not in user.calls("report", "profile")
    for place in ("rules.toml", "my rules/rules.toml", "profile/rules.toml"):
        path = user.folder / place
        path.parent.mkdir(exist_ok=True)
        path.write_text(RULES.read_text())
        chosen = ["--rules", place] if place.startswith("my") else []
        line = after("Run programs as they are:", user.calls("report", "profile", *chosen))
        assert ("--rules" in line) == (place != "rules.toml")
        assert "ran" in user.types(line.replace("-- mpirun ...", "--force -- echo ran"))
        page = html.unescape((user.folder / "profile" / "report.html").read_text())
        from_anywhere = re.search(r"<code>(/[^<]* run [^<]*)</code>", page)
        assert from_anywhere and str(path) in from_anywhere.group(1)
        user.types("cd / && " + from_anywhere.group(1).replace("-- mpirun ...", "--force -- true"))
        path.unlink()
    (user.folder / "rules.toml").write_text(RULES.read_text().replace('"5.0.11"', '"5.0.3"'))
    said = user.calls("report", "profile")
    assert "rules.toml is left out" in said and "Run programs as they are" not in said
    (user.folder / "profile" / "rules.toml").write_text(RULES.read_text().replace('"AMD EPYC"', '"Other"'))
    assert "rules.toml is for Other, the profile of AMD EPYC" in " ".join(user.calls("report", "profile").split())


# Examples of these verbs take a moment, given the files that they name.
AT_ONCE = ("show", "diff", "report", "export", "plan", "machine", "topology")
# These need what takes long to make, or this very machine's profile; other tests have them.
IN_OTHER_TESTS = (
    "nearfield report reproduction",
    "nearfield machine new --from here",
    "nearfield machine calibrate",
    "nearfield machine validate",
)
PROFILES = ("nearfield-profile", "mpich-profile", "my-profile", "before", "after", "P")

NATIVE = """
[[rule.native_collective]]
operation = "allgather"
ranks = 4
range = [{algorithm = "mpi", to_bytes = 1024}, {algorithm = "ring", id = 4, to_bytes = 65536}, {algorithm = "mpi"}]
"""


@pytest.fixture(scope="module")
def named(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files that examples name."""
    folder = tmp_path_factory.mktemp("named")
    for name in PROFILES:
        shutil.copytree(DATA / "epyc-vm-quiet", folder / name)
    shutil.copytree(DATA / "rules", folder / "nearfield-rules")
    of_mpich = re.sub(
        r'"openmpi"\nversion = .*\ntransport = .*',
        '"mpich"\nversion = "5.0.2"\ntransport = "ch4 / posix"',
        RULES.read_text(),
    )
    of_mpich = re.sub(r"(?<=\[rule.parameters\]\n)(.+\n)*", 'shared_heap = "on"\n', of_mpich)
    (folder / "nearfield-rules" / "mpich-5.0.2.toml").write_text(of_mpich)
    shutil.copytree(folder / "nearfield-rules", folder / "site-rules")
    (folder / "rules.toml").write_text(RULES.read_text() + NATIVE)
    shutil.copy(ROOT / "machines" / "leo3.toml", folder / "mine.toml")
    (folder / "tests").symlink_to(ROOT / "tests")
    return folder


@pytest.mark.parametrize(
    "line",
    [
        line
        for line in examples()
        if (line.split()[1] in AT_ONCE or "--list" in line or "--costs" in line) and not line.startswith(IN_OTHER_TESTS)
    ],
)
def test_examples_of_help_readme_and_docs_run(line: str, named: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Does every example that takes a moment end well where the files that it names are?"""
    monkeypatch.chdir(named)
    if "machine new" in line:
        (named / "mine.toml").unlink()
    done = CliRunner().invoke(app, shlex.split(line)[1:])
    assert done.exit_code == 0, done.output
