"""Is a file of the rules library what it must be, and does a stranger's file get nothing past the checks?"""

from __future__ import annotations

import http.server
import json
import shutil
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tuning import in_process, rules_for, write

from nearfield import mpi
from nearfield.apply import distance_check, plan, rules_library
from nearfield.apply.rules_library import (
    check_fit,
    choose_library_rules,
    describe_this_machine,
    library_file_name,
    library_problems,
    notes_for_readers,
)
from nearfield.base.errors import ProfileError
from nearfield.mpi import Installation
from nearfield.rules.schema import LatencyTable, Rules, UndecidedTable, load_rules, save_rules

DATA = Path(__file__).parents[1] / "data" / "rules" / "openmpi-5.0.11.toml"
OPENMPI = Installation("openmpi-5.0.11", "openmpi", "5.0.11", Path("/"), Path("/"), Path("/"), "made up")


def good() -> Rules:
    """Returns rules that a real tune has found, with what newer versions of `tune` write as well."""
    rules = load_rules(DATA)
    rules.busy_share = 0.01
    for rule in rules.rule:
        rule.launches, rule.c2c_latency_ns = 7, 61.0
    return rules


def ours(**parameters: Any) -> Rules:
    """Returns rules that fit this machine."""
    return rules_for(OPENMPI, "ob1 / sm", parameters or {"shared_heap": "on"})


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the library, empty; and another working folder, in which there are no rules."""
    folder = tmp_path / "library"
    folder.mkdir()
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.delenv("NEARFIELD_RULES", raising=False)
    monkeypatch.setattr(rules_library, "LIBRARY_FOLDER", folder)
    monkeypatch.setattr(mpi, "find_usable_mpis", lambda: [OPENMPI])
    monkeypatch.setattr(mpi, "choose_mpi", lambda name=None: OPENMPI)
    return folder


# ---- the library in the repository


def test_every_file_of_the_library_is_right() -> None:
    """Was each measured on a quiet machine, in enough launches, and has it the name that the check gives?"""
    assert {
        path.name: rules_library.check_rules_file(path, is_in_library=True)[1]
        for path in rules_library.list_library_files()
    } == {path.name: [] for path in rules_library.list_library_files()}
    assert (rules_library.LIBRARY_FOLDER / "README.md").is_file()


def test_a_real_file_is_accepted() -> None:
    assert library_problems(good(), library_file_name(good())) == []


Edit = Callable[[Rules], Any]
REFUSED: dict[str, Edit] = {
    "its name in the library is openmpi-5.0-": lambda rules: None,
    "other programs took 6% of the cores' time": lambda rules: setattr(rules, "busy_share", 0.06),
    "the cores moved": lambda rules: rules.rule[0].latency.extend(
        LatencyTable(c2c_latency_ns=ns, share=share) for ns, share in ((30, 0.3), (60, 0.7))
    ),
    "the MPI's defaults fail": lambda rules: rules.rule[0].baseline.update(MPIR_CVAR_CH4_CMA_ENABLE="0"),
    "it lacks the processor": lambda rules: setattr(rules.machine, "cpu_model", " "),
    "each distance of the machine needs one rule: same-node": lambda rules: rules.machine.distances.append("same-node"),
    "one is there twice": lambda rules: rules.rule.append(rules.rule[0]),
    "it is not decided": lambda rules: rules.undecided.append(UndecidedTable(distance="same-node", reason="busy")),
    "no setting was measured": lambda rules: setattr(rules.tried, "measured", 0),
    "confirmed in 5 launches; at least 6": lambda rules: setattr(rules.rule[0], "launches", 5),
    "the core-to-core latency at which": lambda rules: setattr(rules.rule[0], "c2c_latency_ns", 0.0),
    "sizes may be at 0.80": lambda rules: setattr(rules.rule[0], "never_below", 0.8),
    "no gain with its ranges and points": lambda rules: setattr(rules.rule[0], "gain", None),
    "a gain lies outside of its interval": lambda rules: setattr(rules.rule[0].gain, "low", 99.0),
    "no interval of a gain lies above 1": lambda rules: [
        setattr(gain, "low", 0.9) for gain in (rules.rule[0].gain, *(one.gain for one in rules.rule[0].range))
    ],
    "of the baseline's speed": lambda rules: [
        (setattr(one.gain, "low", 0.5), setattr(one.gain, "value", 0.5), setattr(one.gain, "high", 0.5))
        for one in rules.rule[0].point[:1]
    ],
    "why the defaults are best": lambda rules: setattr(rules.rule[0], "parameters", {}),
    "is no time": lambda rules: setattr(rules, "created", "yesterday"),
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_is_not_shown_by_measurements_is_refused(words: str) -> None:
    """With one thing wrong with a good file: is that said, and nothing else?"""
    rules = good()
    REFUSED[words](rules)
    name = "mine.toml" if words.startswith("its name") else library_file_name(rules)
    (problem,) = library_problems(rules, name)
    assert words in problem


def test_a_share_that_is_not_stated_is_refused() -> None:
    """Is a file of an older version, which does not say how busy the machine was, not taken for one of a quiet one?"""
    rules = load_rules(DATA)
    assert any("lacks the share of the cores" in one for one in library_problems(rules, library_file_name(rules)))


def test_a_processor_without_a_model_is_noted() -> None:
    rules = good()
    assert "names no model" in notes_for_readers(rules)[0]
    rules.machine.cpu_model = "AMD EPYC 9754 128-Core Processor"
    assert notes_for_readers(rules) == [] and "amd-epyc-9754" in library_file_name(rules)


# ---- whether rules fit


@pytest.mark.parametrize(
    "key, value, words",
    [
        ("cpu_model", "Another CPU 9", "processor Another CPU 9, here"),
        ("cache_bytes", [1024], "caches (bytes) 1024, here"),
        ("distances", ["same-core"], "core distances same-core, here"),
    ],
)
def test_what_differs_is_named(key: str, value: Any, words: str) -> None:
    rules = ours()
    assert check_fit(rules, describe_this_machine(), [OPENMPI]) == rules_library.RulesFit(("openmpi-5.0.11",), ())
    setattr(rules.machine, key, value)
    (difference,) = check_fit(rules, describe_this_machine(), [OPENMPI]).differences
    assert words in difference


def test_the_mpi_must_be_there() -> None:
    """Do rules fit each MPI of the same family, major and minor version, and no other?"""
    other = [Installation(f"x-{v}", "openmpi", v, Path("/"), Path("/"), Path("/"), "") for v in ("5.0.3", "5.1.0")]
    assert check_fit(ours(), describe_this_machine(), [*other, OPENMPI]).matching_mpis == ("x-5.0.3", "openmpi-5.0.11")
    assert check_fit(ours(), describe_this_machine(), other[1:]).differences == ("no openmpi 5.0 is here",)


@pytest.mark.parametrize("now_ns, words", [(61.0, ""), (250.0, "is the baseline"), (0.0, "cannot be measured now")])
def test_the_latency_is_measured_as_run_does(now_ns: float, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Are rules that depend on the distance of the cores reported as those that `run` would not use now, or of which it
    cannot know?"""
    monkeypatch.setattr(distance_check._native, "flag_ns", lambda one, other: now_ns)
    rules = ours(eager_limit=16896)
    rules.rule[0].c2c_latency_ns = 60.0
    fit = check_fit(rules, describe_this_machine(), [OPENMPI])
    assert (
        not fit.differences
        and words in fit.current_obstacle
        and fit.current_obstacle in fit.verdict_text
        and bool(words) == bool(fit.current_obstacle)
    )


def test_of_several_files_the_nearest_version_is_chosen(library: Path) -> None:
    """Is that of the same version chosen, else the newest of the series, and otherwise said what differs?"""
    for version in ("5.0.9", "5.0.10", "5.0.11", "5.0.12"):
        rules = ours()
        rules.mpi.version = version
        save_rules(rules, library / f"{version}.toml")
    assert choose_library_rules(OPENMPI, describe_this_machine())[0].name == "5.0.11.toml"
    for gone, next_one in (("5.0.11", "5.0.12"), ("5.0.12", "5.0.10")):
        (library / f"{gone}.toml").unlink()
        assert choose_library_rules(OPENMPI, describe_this_machine())[0].name == f"{next_one}.toml"
    machine = describe_this_machine().model_copy(update={"cpu_model": "Another"})
    with pytest.raises(ProfileError, match=r"5\.0\.10\.toml: processor .*, here Another"):
        choose_library_rules(OPENMPI, machine)


# ---- fetching


def test_fetched_rules_are_where_run_looks(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Is the file of the library written to rules.toml, or to the folder or file that `run` takes, with what is known
    of the gain and how to confirm it?"""
    rules = ours(eager_limit=16896, shared_heap="on")
    save_rules(rules, library / "ours.toml")
    assert "rules fetch" in plan._library_hint(plan.DetectedMpi("openmpi", "5.0.11", "", ()))
    assert plan._library_hint(plan.DetectedMpi("mpich", "5.0.2", "", ())) == ""
    done = in_process("rules", "fetch")
    assert done.code == 0, done.err
    for words in ("rules: rules.toml", "measured elsewhere", "compare -- mpirun -n 2 ./app", "verify PROFILE"):
        assert words in done.words
    assert load_rules(Path("rules.toml")).model_dump() == rules.model_dump()
    assert Path("rules.toml").read_text().startswith("# Fetched from the rules library (ours.toml).")
    Path("rules.toml").unlink()
    Path("nearfield-rules").mkdir()
    assert in_process("rules", "fetch").code == 0
    assert load_rules(Path("nearfield-rules/openmpi-5.0.11.toml")).rule == rules.rule
    monkeypatch.setenv("NEARFIELD_RULES", "elsewhere/mine.toml")
    assert in_process("rules", "fetch").code == 0 and Path("elsewhere/mine.toml").exists()
    assert in_process("rules", "fetch", "-o", "x.toml").code == 0 and Path("x.toml").exists()


def test_rules_of_the_user_stay(library: Path) -> None:
    """Are rules that the user has tuned, or begun to tune, overwritten by --force only, and the same rules written
    again without a word?"""
    save_rules(ours(), library / "ours.toml")
    mine = write(Path(), ours(eager_limit=16896))
    before = mine.read_bytes()
    done = in_process("rules", "fetch")
    assert done.code == 2 and "--force" in done.words and mine.read_bytes() == before
    mine.write_text("damaged")
    assert in_process("rules", "fetch").code == 2 and mine.read_text() == "damaged"
    assert in_process("rules", "fetch", "--force").code == 0 and load_rules(mine).rule == ours().rule
    assert in_process("rules", "fetch").code == 0
    mine.unlink()
    Path("rules.toml.trials").write_text("{}")
    done = in_process("rules", "fetch")
    assert done.code == 2 and "not finished" in done.words and not mine.exists()
    assert in_process("rules", "fetch", "-o", ".").code == 2


def test_an_empty_library_leads_to_tune(library: Path) -> None:
    assert "no rules yet" in in_process("rules", "list").out
    done = in_process("rules", "fetch")
    assert done.code == 4 and "which is empty" in done.words and "tune --mpi openmpi-5.0.11" in done.words


def test_the_list(library: Path) -> None:
    """Does the list say what fits here, and for the others what differs?"""
    save_rules(ours(), library / "ours.toml")
    save_rules(good(), library / "other.toml")
    done = in_process("rules", "list")
    assert done.code == 0 and "fits openmpi-5.0.11" in done.out and "rules fetch" in done.out
    rows = {one["file"]: one["fit"] for one in json.loads(in_process("rules", "list", "--json").out)}
    assert rows["ours.toml"] == {"fits": True, "mpis": ["openmpi-5.0.11"], "differences": [], "now": None}
    assert not rows["other.toml"]["fits"] and "caches" in rows["other.toml"]["differences"][0]


# ---- files of strangers


PARAMETER = 'single_copy = "none"'
# Changes of a good file: a text and its replacement, or an addition.
HOSTILE = {
    "sets a library": (PARAMETER, 'LD_PRELOAD = "/tmp/x.so"'),
    "sets a variable of the MPI": (PARAMETER, 'OMPI_MCA_mca_base_component_path = "/x"'),
    "is out of range": (PARAMETER, "eager_limit = 99999999999"),
    "is no choice": (PARAMETER, 'single_copy = "none,report=/etc"'),
    "has a variable of the baseline": ('reason = ""', 'reason = ""\nbaseline = {LD_PRELOAD = "x"}'),
    "has an escape": ('host = "vm"', r'host = "\u001b[2J"'),
    "has an unknown key": ('host = "vm"', 'host = "vm"\nhook = "rm"'),
    "has a number as a name": ('family = "openmpi"', "family = 5"),
    "is no TOML": ("# What", "<html># What"),
    "is too long": ("# What", f"# {'x' * rules_library.MAX_FILE_BYTES}\n# What"),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_hostile_file_is_wrong_and_is_not_fetched(what: str, library: Path, tmp_path: Path) -> None:
    """Is a file that sets anything but parameters of this MPI refused by `check` and by `fetch`, even by force?"""
    old, new = HOSTILE[what]
    hostile = DATA.read_text().replace(old, new, 1)
    assert new in hostile
    file = tmp_path / "hostile.toml"
    file.write_text(hostile)
    done = in_process("rules", "check", file)
    assert done.code == 4 and f"{file}: wrong" in done.out and "\x1b" not in done.out
    done = in_process("rules", "fetch", file, "--force")
    assert done.code in (2, 4) and not Path("rules.toml").exists()


def test_a_device_that_never_ends_is_refused(library: Path) -> None:
    begun = time.monotonic()
    assert in_process("rules", "check", "/dev/zero").code == 4
    assert in_process("rules", "fetch", "/dev/zero", "--force").code == 4
    assert time.monotonic() - begun < 20


def test_rules_of_another_machine_need_force(library: Path) -> None:
    """Does a right file that does not fit have exit code 0 in `check`, and is it fetched by --force only?"""
    done = in_process("rules", "check", DATA)
    assert done.code == 0 and "right" in done.out and "here: caches" in done.out
    done = in_process("rules", "fetch", DATA)
    assert done.code == 2 and "do not fit" in done.words and not Path("rules.toml").exists()
    assert in_process("rules", "fetch", DATA, "--force").code == 0 and Path("rules.toml").exists()


def test_the_check_of_a_library(library: Path, tmp_path: Path) -> None:
    """Are all files of a folder checked, each with all that is wrong, and does one wrong file decide the exit code?"""
    rules = good()
    save_rules(rules, library / library_file_name(rules))
    assert in_process("rules", "check", "--library", library).code == 0
    rules.busy_share, rules.rule[0].launches = 0.4, 2
    save_rules(rules, library / "a.toml")
    done = in_process("rules", "check", "--library", library, "--json")
    assert done.code == 4
    problems = {Path(one["file"]).name: one["problems"] for one in json.loads(done.out)}
    assert problems[library_file_name(rules)] == [] and len(problems["a.toml"]) == 3
    assert in_process("rules", "check", library).code == 0, "a busy machine matters to the library only"
    assert in_process("rules", "check", tmp_path / "none").code == 4
    empty = tmp_path / "empty"
    empty.mkdir()
    assert in_process("rules", "check", empty).code == 2


class Server(http.server.BaseHTTPRequestHandler):
    """Serves a rules file, and what a hostile server could send."""

    def do_GET(self) -> None:
        if self.path == "/redirect":
            self.send_response(302)
            self.send_header("Location", f"http://localhost:{self.server.server_port}/rules.toml")  # type: ignore[attr-defined]
            self.end_headers()
            return
        self.send_response(404 if self.path == "/none" else 200)
        self.end_headers()
        if self.path == "/endless":
            try:
                while True:
                    self.wfile.write(b"# x\n" * 16384)
            except OSError:
                return
        self.wfile.write(DATA.read_bytes())

    def log_message(self, *words: object) -> None:
        pass


@pytest.fixture(scope="module")
def https(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """A real https server, and the certificate by which it is known."""
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl to make a certificate")
    folder = tmp_path_factory.mktemp("tls")
    command = (
        "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=DNS:localhost"
    )
    subprocess.run([*command.split(), "-keyout", "key", "-out", "cert"], cwd=folder, check=True, capture_output=True)
    server = http.server.ThreadingHTTPServer(("localhost", 0), Server)
    server.handle_error = lambda request, address: None  # type: ignore[method-assign]
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "cert", folder / "key")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"https://localhost:{server.server_port}", folder / "cert"
    server.shutdown()


def test_rules_come_by_https_only(library: Path, https: tuple[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Is a file fetched from a server with a certificate, and refused without one, by http, by a redirection to http,
    by a URL with a password, and if it does not end?"""
    url, certificate = https
    done = in_process("rules", "fetch", f"{url}/rules.toml", "--force")
    assert done.code == 4 and "certificate" in done.words
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    assert in_process("rules", "fetch", f"{url}/rules.toml", "--force").code == 0
    assert load_rules(Path("rules.toml")).rule == load_rules(DATA).rule
    assert Path("rules.toml").read_text().startswith(f"# Fetched from {url}/rules.toml.")
    Path("rules.toml").unlink()
    assert in_process("rules", "fetch", f"{url}/rules.toml").code == 2, "it does not fit this machine"
    with_password = url.replace("localhost", "me:secret@localhost")
    for bad, words in (
        (f"{url}/none", "Not Found"),
        (f"{url}/endless", "longer than"),
        (f"{url}/redirect", "not an https URL"),
        (url.replace("https:", "http:"), "not an https URL"),
        ("file:///etc/passwd", "not an https URL"),
        (with_password, "not an https URL"),
        ("https://localhost:1/x", "cannot fetch"),
    ):
        done = in_process("rules", "fetch", bad, "--force")
        assert done.code in (2, 4) and words in done.words, (bad, done.words)
        assert not Path("rules.toml").exists()
