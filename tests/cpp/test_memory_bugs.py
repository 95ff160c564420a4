"""Would the C++ tests of the simulated memory notice a bug in it?"""

import os
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import tomlkit
from simulator_programs import CPP, FLAGS, ROOT, build

INJECTED = ROOT / "tests" / "injected_bugs"
MODEL = ("reference_cache", "reference_memory")
BUGS = tomlkit.parse((INJECTED / "reference_memory.toml").read_text()).unwrap()["bug"]
# The bugs in the simulated memory itself, and the test that must find each.
TESTS_INSIDE = ("memory_timing", "memory_prefetching", "memory_variants")
BUGS_INSIDE = [
    {**bug, "test": test}
    for test in TESTS_INSIDE
    for bug in tomlkit.parse((INJECTED / f"{test}.toml").read_text()).unwrap()["bug"]
]
COMPILE = [os.environ.get("CXX") or shutil.which("c++") or "g++", "-std=c++20", f"-I{ROOT / 'src'}", f"-I{CPP}"]


@pytest.mark.injected
@pytest.mark.turn(1)
def test_every_injected_bug_is_found(tmp_path):
    """Would the comparison notice a bug in a memory, and does the correct model agree with itself and obey the laws?
    All bugs are compiled into one program, which enables the one that BUG selects."""
    model = [Path(shutil.copy(CPP / f"{name}.cpp", tmp_path)) for name in MODEL]
    numbers = _inject_all({file: [bug for bug in BUGS if bug["file"] == file.name] for file in model}, tmp_path)
    # The model with bugs gets other names, since it is linked into one program with the correct one.
    names = "#define ReferenceCache OtherCache", "#define ReferenceMemory OtherMemory"
    parts = [*names, *(f'#include "{file}"' for file in (*model, CPP / "reference_as_memory.cpp"))]
    (tmp_path / "other.cpp").write_text("\n".join(parts))
    correct = (CPP / f"{name}.cpp" for name in ("test_memory_oracle", "memory_traces", *MODEL))
    program = _linked(_compiled([tmp_path / "other.cpp", *correct], COMPILE, tmp_path), tmp_path / "compared")

    def report_of(number: int) -> str:
        command = [program, "12" if number < 0 else "60", "1", "2400", "unshrunk"]
        environment = {**os.environ, "BUG": str(number)}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)
        return done.stdout if done.returncode else ""

    assert not report_of(-1)
    with ThreadPoolExecutor(2) as pool:
        outputs = list(pool.map(report_of, (numbers[bug["name"]] for bug in BUGS)))
    assert not [bug["name"] for bug, out in zip(BUGS, outputs, strict=True) if "not as the reference model" not in out]


@pytest.mark.injected
@pytest.mark.turn(1)
def test_every_bug_inside_is_found(programs, tmp_path):
    """Would these tests notice a bug? All are compiled into one library, which enables the one that BUG selects."""
    memory = tmp_path / "src" / "sim" / "memory"
    shutil.copytree(ROOT / "src" / "sim" / "memory", memory)
    bugs_by_file: dict[Path, list[dict]] = {}
    for bug in BUGS_INSIDE:
        bugs_by_file.setdefault(memory / bug["file"], []).append(bug)
    numbers = _inject_all(bugs_by_file, tmp_path)
    built = build("test_memory_timing", programs).parents[2] / "src"
    sources = [*sorted(memory.rglob("*.cpp")), built / "sim" / "all_replacements.cpp"]
    libraries = [built / "sim" / "libnearfield_routes.a", built / "base" / "libnearfield_base.a"]
    (tmp_path / "all.cpp").write_text("".join(f'#include "{source}"\n' for source in sources))
    compiler = [COMPILE[0], "-std=c++20", f"-I{tmp_path / 'src'}", *COMPILE[2:]]
    tests = [f"test_{name}.cpp" for name in TESTS_INSIDE]
    common = _compiled([tmp_path / "all.cpp", CPP / "memory_traces.cpp"], compiler, tmp_path)
    for own in _compiled([CPP / test for test in tests], compiler, tmp_path):
        _linked([own, *common], own.with_suffix(""), *FLAGS.split(), *libraries)

    def fails(number: int, test: str) -> bool:
        command, environment = [tmp_path / f"test_{test}", "40"], {**os.environ, "BUG": str(number)}
        return subprocess.run(command, env=environment, capture_output=True, check=False).returncode != 0

    assert not any(fails(-1, test) for test in TESTS_INSIDE)
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(fails, (numbers[bug["name"]] for bug in BUGS_INSIDE), (b["test"] for b in BUGS_INSIDE)))
    assert not [bug["name"] for bug, caught in zip(BUGS_INSIDE, found, strict=True) if not caught]


def _inject_all(bugs: dict[Path, list[dict]], folder: Path) -> dict[str, int]:
    """Injects all bugs into the files, and writes bug.hpp, which reads the enabled one. Returns the numbers by name."""
    (folder / "bug.hpp").write_text('#include <cstdlib>\ninline const int bug = std::atoi(std::getenv("BUG"));\n')
    numbers: dict[str, int] = {}
    for file, injected in bugs.items():
        text = file.read_text()
        wrong = {bug["old"]: bug["old"] for bug in injected}  # several bugs may be in one place
        for bug in injected:
            number = numbers[bug["name"]] = len(numbers)
            old = bug["old"]
            if bug.get("statements"):
                wrong[old] = f"if (bug == {number}) {{ {bug['new']} }} else {{ {wrong[old]} }}"
            else:
                wrong[old] = f"(bug == {number} ? ({bug['new']}) : ({wrong[old]}))"
        for old, new in wrong.items():
            assert text.count(old) == 1, f"'{old}' is not once in {file.name}"
            text = text.replace(old, new)
        file.write_text(text)
    return numbers


def _compiled(sources: list[Path], compiler: list[str], folder: Path) -> list[Path]:
    """Compiles sources with the bugs among them. Returns the objects."""
    with ThreadPoolExecutor(2) as pool:
        command = [*compiler, "-O1", "-I.", "-include", "bug.hpp", "-c"]
        list(pool.map(lambda source: subprocess.run([*command, source], check=True, cwd=folder), sources))
    return [folder / f"{source.stem}.o" for source in sources]


def _linked(objects: list[Path], program: Path, *options: object) -> Path:
    """Links a program."""
    subprocess.run([COMPILE[0], "-o", program, *objects, *map(str, options)], check=True)
    return program
