"""Are rules kept whole, checked as people may have edited them, and refused where they do not belong?"""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from tuning import rules_for, write

from nearfield import mpi
from nearfield.apply.formats import FORMATS
from nearfield.apply.plan import apply_rules
from nearfield.base.errors import NearfieldError
from nearfield.cli.verbs.export import export_text
from nearfield.cli.verbs.tune import print_rules
from nearfield.rules.applicability import rules_mismatches
from nearfield.rules.gain_table import StoredGain
from nearfield.rules.schema import Rules, RuleTable, load_rules, save_rules

OLD = Path(__file__).parents[1] / "data/old_rules/openmpi-4.1.4.toml"  # of version 1
INST = mpi.Installation("openmpi-5.0.11", "openmpi", "5.0.11", Path("/"), Path("/"), Path("/"), "made up")
SETTINGS = {"eager_limit": 65536, "max_send_size": 131072, "single_copy": "none"}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write(tmp_path, rules_for(INST, "ob1 / sm", SETTINGS))


def test_rules_are_written_through_no_link(tmp_path: Path) -> None:
    """In a folder where others may write, a link may lie under the name that they have while they are written."""
    target = tmp_path / "target"
    target.write_text("mine")
    (tmp_path / f".rules.toml.{os.getpid()}").symlink_to(target)
    load_rules(write(tmp_path, rules_for(INST, "ob1 / sm", SETTINGS)))
    assert target.read_text() == "mine"


def test_a_rule_without_the_gain_is_reported(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Is a rule reported whose gain somebody has taken out?"""
    print_rules(load_rules(file))
    assert "gain not known" in capsys.readouterr().out


def test_what_is_saved_is_loaded(file: Path) -> None:
    assert load_rules(file) == rules_for(INST, "ob1 / sm", SETTINGS)


def test_an_old_file_is_read_and_written_as_a_new_one(tmp_path: Path) -> None:
    """Is a file of version 1, which a tune wrote, read with every value, and written by today's names only?"""
    text = OLD.read_text()
    rules, file = load_rules(OLD), tmp_path / "rules.toml"
    (rule,) = rules.rule
    assert (rule.c2c_latency_ns, [one.c2c_latency_ns for one in rule.latency]) == (250.4, [80.1, 250.4])
    assert rule.parameters == {
        "eager_limit": 8704, "shared_heap": "on", "stream": "never", "cooperative_copy": "never"
    }  # fmt: skip
    assert rules.find_knob_file().environment(rule.parameters)["NEARFIELD_HEAP"] == "on=1,stream=never,help=never"
    assert [point.baseline_ns for point in rule.point] == [float(ns) for ns in re.findall(r"stock_ns = (.*)", text)]
    save_rules(rules, file)
    new = file.read_text()
    assert load_rules(file) == rules and "schema_version = 2" in new
    for name in ("stock_ns", "flag_ns", "apart", "elsewhere", "help"):
        assert not re.search(rf"^\W*(rule\.)?{name}\b", new, re.MULTILINE)
    several = text.replace("[[rule.apart]]", "[rule.elsewhere]\nsame-core = 0.5\n\n[[rule.apart]]", 1)
    file.write_text(several.replace('help = "never"', 'far_stream = "never"'))
    (rule,) = load_rules(file).rule
    assert rule.other_distances == {"same-core": 0.5} and rule.parameters["stream_when_far"] == "never"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("c2c_latency_ns = 250.4", "c2c_latency_ns = 250.4\nflag_ns = 250.4", "unknown key 'rule[0].flag_ns'"),
        ("[[rule.latency]]", "[rule.elsewhere]\nsame-core = 0.0\n\n[[rule.latency]]", "rule[0].elsewhere"),
        ('cooperative_copy = "never"', 'cooperative_copy = "never"\nhelp = "0-"', "unknown parameter 'help'"),
    ],
)
def test_an_old_and_a_new_name_of_a_key_are_refused(tmp_path: Path, old: str, new: str, words: str) -> None:
    """Is there never a choice between two values, and does an error name the key that the file has?"""
    file = tmp_path / "rules.toml"
    save_rules(load_rules(OLD), file)
    assert old in file.read_text()
    file.write_text(file.read_text().replace(old, new, 1))
    with pytest.raises(NearfieldError) as caught:
        load_rules(file)
    assert words in caught.value.message


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("eager_limit = 65536", "eager_limit = 65536000000", "must be between"),
        ("eager_limit = 65536", "eager_limmit = 65536", "unknown parameter 'eager_limmit'"),
        (
            "max_send_size = 131072",
            "max_send_size = 1048576\nsegment_size = 4194304",
            "segment_size >= 16 * max_send_size does not hold",
        ),
        ('single_copy = "none"', 'single_copy = "knem"', "must be 'kernel' or 'none'"),
        ('distance = "', 'distanze = "', "did you mean 'distance'"),
        ("schema_version = 2", "schema_version = 99", "newer"),
        ("[mpi]", "[mpi", "rules.toml"),
        ('family = "openmpi"', 'family = "lam"', "has no parameters of lam"),
        ("cores = ", 'cores = "many" # ', "cores"),
        ("memory_per_rank_bytes = 0", f"memory_per_rank_bytes = {'9' * 400}", "beyond 64 bits"),
        ("seconds = 1.0", "seconds = inf", "seconds"),
        ('host = "', 'host = "\\u001b[2J', "'host' has a control character"),
        ('distance = "', 'distance = "same-numa;', "valid: same-core"),
        ('version = "', f'version = "{"9" * 5000}', "version"),
    ],
)
def test_a_bad_file_is_refused(file: Path, old: str, new: str, words: str) -> None:
    """Does every kind of damage and bad hand edit end with an error that names it?"""
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))
    with pytest.raises(NearfieldError) as caught:
        load_rules(file)
    assert words in caught.value.message + caught.value.remedy


def test_a_truncated_or_binary_file_is_refused(file: Path) -> None:
    for content in (b"\xff\xfe\x00", b"", file.read_bytes()[:200]):
        file.write_bytes(content)
        with pytest.raises(NearfieldError):
            load_rules(file)


def test_rules_of_another_mpi_or_machine_do_not_fit(file: Path) -> None:
    """Is each difference named, and a patch level of the same MPI none?"""
    rules = load_rules(file)
    assert rules_mismatches(rules, "openmpi", "5.0.10", rules.machine) == []
    assert "runs under mpich" in rules_mismatches(rules, "mpich", "5.0.2", rules.machine)[0]
    assert "runs under 4.1.4" in rules_mismatches(rules, "openmpi", "4.1.4", rules.machine)[0]
    other = rules.machine.model_copy(update={"cpu_model": "Another CPU", "cache_bytes": [1, 2]})
    assert len(rules_mismatches(rules, "openmpi", "5.0.11", other)) == 2


def test_what_the_user_has_set_stays(file: Path) -> None:
    """Are the user's own variables kept, and is that reported?"""
    name = "OMPI_MCA_btl_sm_eager_limit"
    made = apply_rules(load_rules(file), inherited_environment={name: "1234"})
    assert name not in made.environment
    assert any("1234 was set before" in note for note in made.notes)
    assert made.environment["OMPI_MCA_smsc"] == "^cma,xpmem,knem"


def test_rules_without_parameters_set_nothing(tmp_path: Path) -> None:
    made = apply_rules(rules_for(INST, "ob1 / sm", {}), inherited_environment={})
    assert made.environment == {} and "the defaults of this MPI are best here" in made.warnings[0]


def two_rules(near_there: float | None, far_there: float | None) -> Rules:
    """A near rule that gains 3, a far one that gains 2, and what each does at the other's distance."""
    made = []
    for distance, parameters, value, other, there in (
        ("shared-l3", {"eager_limit": 8192}, 3.0, "same-node", near_there),
        ("same-node", {"eager_limit": 16384}, 2.0, "shared-l3", far_there),
    ):
        gain = StoredGain(value=value, low=value, high=value, n=10)
        made.append(
            RuleTable(
                distance=distance, pair="0-1", parameters=parameters, memory_per_rank_bytes=0, at_ranks_per_node=2,
                gain=gain, other_distances={} if there is None else {other: there},
            )
        )  # fmt: skip
    return rules_for(INST, "ob1 / sm", {}, rule=made)


@pytest.mark.parametrize(
    ("near_there", "far_there", "chosen"),
    [(1.0, 1.2, 8192), (0.98, 2.5, 16384), (0.5, 1.0, 16384), (0.9, 0.9, None), (None, None, 16384)],
)
def test_one_set_for_all_has_the_highest_gain_and_slows_nobody(
    near_there: float | None, far_there: float | None, chosen: int | None
) -> None:
    """Does the product of gains decide, is what slows a distance out, and without numbers the farthest taken?"""
    assert two_rules(near_there, far_there).best_rule_for_all_pairs().parameters.get("eager_limit") == chosen


EVIL = [
    "vm\nid > {file}; #",
    "$(touch {file})",
    "`touch {file}`",
    "[exec touch {file}]",
    "}} {{ ; exec touch {file} \\",
]


@pytest.mark.parametrize("text", EVIL)
@pytest.mark.parametrize("name", FORMATS)
def test_nothing_that_a_file_says_of_itself_is_run(tmp_path: Path, name: str, text: str) -> None:
    """Whatever another person's rules say where they are from, does what is exported set the parameters, all of them,
    and nothing else, in a real shell or Tcl?"""
    touched = tmp_path / "touched"
    said = text.format(file=touched)
    made = rules_for(INST, "ob1 / sm", SETTINGS, host=said, command=said, created=said, nearfield=said)
    made.machine.cpu_model = said
    file = write(tmp_path, made)
    code = export_text(load_rules(file), "", name, file)
    wanted = apply_rules(load_rules(file), inherited_environment={}).environment
    if name == "conf":
        lines = [line for line in code.splitlines() if not line.startswith("#")]
        assert lines == [f"{variable.removeprefix('OMPI_MCA_')} = {value}" for variable, value in wanted.items()]
        return
    if name == "module":
        if not shutil.which("tclsh"):
            pytest.skip("needs tclsh")
        code = TCL.format(code=code)
    command = {"env": ["sh", "-euc", f"{code}\nenv"], "slurm": ["sh", "-euc", code], "module": ["tclsh"]}[name]
    done = subprocess.run(command, input=code, capture_output=True, text=True, timeout=20)
    assert done.returncode == 0, done.stderr
    begin = "export " if name == "slurm" else ""
    assert {f"{begin}{variable}={value}" for variable, value in wanted.items()} <= set(done.stdout.splitlines())
    assert not touched.exists()


# The commands that a modulefile may use, as plain Tcl.
TCL = """
proc module-info {{what args}} {{ expr {{$what eq "mode" ? "0" : "tuned/1.0"}} }}
proc module-whatis {{text}} {{}}
proc conflict {{name}} {{ if {{$name ne "tuned"}} {{ error $name }} }}
proc setenv {{name value}} {{ puts "$name=$value" }}
{code}
ModulesHelp
"""


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_says_all_that_is_set(file: Path, name: str) -> None:
    """Does each exported file hold each value, and comments only where its language has comments?"""
    environment = apply_rules(load_rules(file), inherited_environment={}).environment
    text = FORMATS[name].write("openmpi", "5.0.11", ["a comment"], environment)
    assert text is not None and "# a comment" in text
    for variable, value in environment.items():
        assert any(variable.removeprefix("OMPI_MCA_") in line and value in line for line in text.splitlines())
