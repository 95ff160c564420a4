"""Does the simulated memory do what its description says, and would its tests notice if it did not?"""

import os
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import tomlkit
from simulator_programs import CPP, FLAGS, ROOT, build

INJECTED = ROOT / "tests" / "injected_bugs"
BUGS = tomlkit.parse((INJECTED / "reference_memory.toml").read_text()).unwrap()["bug"]
# The mistakes in the simulated memory itself, and the test that must find them.
BUGS_INSIDE = [
    {**bug, "test": test}
    for test in ("memory_timing", "memory_variants")
    for bug in tomlkit.parse((INJECTED / f"{test}.toml").read_text()).unwrap()["bug"]
]
COMPILE = [os.environ.get("CXX") or shutil.which("c++") or "g++", "-std=c++20", f"-I{ROOT / 'src'}", f"-I{CPP}"]
HEADERS = ["<algorithm>", "<iterator>", "<list>", "<memory>", "<string>", "<vector>", '"sim/memory/memory.hpp"']


def test_memory_is_as_the_reference_model(programs):
    """Are counts and states those of the slow model, on random traces over random machines, and do the laws hold?"""
    program = build("test_memory_oracle", programs)
    result = subprocess.run([program], capture_output=True, text=True, timeout=150, check=False)
    assert result.returncode == 0, result.stdout


@pytest.fixture(scope="module")
def comparison(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the comparison and the right model, compiled, and what a model includes, compiled ahead."""
    folder = tmp_path_factory.mktemp("comparison")
    (folder / "ahead.hpp").write_text("".join(f"#include {header}\n" for header in HEADERS))
    compiled = [[*COMPILE, "-O0", "-x", "c++-header", "ahead.hpp", "-o", "ahead.hpp.gch"]]
    for name in ("test_memory_oracle", "memory_traces", "reference_memory"):
        compiled.append([*COMPILE, "-O1", "-c", str(CPP / f"{name}.cpp")])
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda command: subprocess.run(command, check=True, cwd=folder), compiled))
    return folder


def compare(comparison: Path, name: str, model: str, machines: int) -> subprocess.CompletedProcess[str]:
    """Compares the right model with this one, which gets another name to be in one program with it."""
    source = comparison / f"{name}.cpp"
    source.write_text("#define ReferenceMemory Other\n" + model + (CPP / "reference_as_memory.cpp").read_text())
    objects = ["test_memory_oracle.o", "memory_traces.o", "reference_memory.o"]
    command = [*COMPILE, "-O0", "-include", "ahead.hpp", "-o", name, source, *objects]
    subprocess.run(command, check=True, cwd=comparison)
    command = [comparison / name, str(machines), "1", "unshrunk"]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_the_reference_model_obeys_the_laws(comparison):
    """Does the model agree with itself, and do counts add up and copies exclude each other there?"""
    result = compare(comparison, "right", (CPP / "reference_memory.cpp").read_text(), 12)
    assert result.returncode == 0, result.stdout


def test_every_injected_bug_is_found(comparison):
    """Would the comparison notice a mistake in a memory? (A test that cannot fail proves nothing.)"""
    right = (CPP / "reference_memory.cpp").read_text()

    def survives(numbered: tuple[int, dict]) -> str | None:
        number, bug = numbered
        assert right.count(bug["old"]) == 1, f"'{bug['name']}' no longer fits reference_memory.cpp"
        result = compare(comparison, f"bug{number}", right.replace(bug["old"], bug["new"]), 60)
        return None if "not as the reference model" in result.stdout else bug["name"]

    with ThreadPoolExecutor(2) as pool:
        survivors = [name for name in pool.map(survives, enumerate(BUGS)) if name]
    assert not survivors


def test_times_are_those_worked_out_by_hand(programs):
    """Do loops take the same time however they are written, and windows, prefetches and frames do what they should?"""
    result = subprocess.run([build("test_memory_timing", programs)], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout


def test_variants_together_give_what_each_gives_alone(programs):
    """Are counts, times and states under several policies those of a simulation of each, to the last digit?"""
    result = subprocess.run([build("test_memory_variants", programs)], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout


def test_every_bug_inside_is_found(programs, tmp_path):
    """Would these two tests notice a mistake? All are compiled into one library, which makes the one it is told."""
    memory = tmp_path / "src" / "sim" / "memory"
    shutil.copytree(ROOT / "src" / "sim" / "memory", memory)
    (tmp_path / "bug.hpp").write_text('#include <cstdlib>\ninline const int bug = std::atoi(std::getenv("BUG"));\n')
    for place in {(bug["file"], bug["old"]) for bug in BUGS_INSIDE}:
        _inject(
            memory / place[0], place[1], {n: b for n, b in enumerate(BUGS_INSIDE) if (b["file"], b["old"]) == place}
        )
    built = build("test_memory_timing", programs).parents[2] / "src"
    sources = [*sorted(memory.rglob("*.cpp")), built / "sim" / "all_replacements.cpp"]
    libraries = [built / "sim" / "libnearfield_routes.a", built / "base" / "libnearfield_base.a"]
    (tmp_path / "all.cpp").write_text("".join(f'#include "{source}"\n' for source in sources))
    compiler = [COMPILE[0], "-std=c++20", "-O1", f"-I{tmp_path / 'src'}", *COMPILE[2:], "-include", "bug.hpp", "-c"]
    tests = ["memory_timing", "memory_variants"]
    with ThreadPoolExecutor(2) as pool:
        made = [tmp_path / "all.cpp", *(CPP / f"test_{test}.cpp" for test in tests), CPP / "memory_traces.cpp"]
        list(pool.map(lambda source: subprocess.run([*compiler, source], check=True, cwd=tmp_path), made))
        for test in tests:
            objects = ["all.o", f"test_{test}.o", "memory_traces.o"]
            subprocess.run([COMPILE[0], *FLAGS.split(), "-o", test, *objects, *libraries], check=True, cwd=tmp_path)

        def fails(number: int, test: str) -> bool:
            environment = {**os.environ, "BUG": str(number)}
            command = [tmp_path / test, "40"]
            return subprocess.run(command, env=environment, capture_output=True, check=False).returncode != 0

        assert not any(fails(-1, test) for test in tests)
        found = list(pool.map(fails, range(len(BUGS_INSIDE)), (bug["test"] for bug in BUGS_INSIDE)))
    survivors = [bug["name"] for bug, caught in zip(BUGS_INSIDE, found, strict=True) if not caught]
    assert not survivors


def _inject(file: Path, old: str, bugs: dict[int, dict]) -> None:
    right = file.read_text()
    assert right.count(old) == 1, f"'{old}' is not once in {file.name}"
    wrong = old
    for number, bug in bugs.items():
        if bug.get("statements"):
            wrong = f"if (bug == {number}) {{ {bug['new']} }} else {{ {wrong} }}"
        else:
            wrong = f"(bug == {number} ? ({bug['new']}) : ({wrong}))"
    file.write_text(right.replace(old, wrong))
