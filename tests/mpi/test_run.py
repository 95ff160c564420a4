"""Do unmodified programs get what the rules say, or run as before, or not at all?"""

import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from tuning import NEARFIELD, nearfield, rules_for, write

from nearfield import mpi
from nearfield.apply.cached_plan import cached_launch_plan
from nearfield.base import shared_heap
from nearfield.base.errors import MpiError, UsageError
from nearfield.cli.verbs.export import export_text
from nearfield.mpi import Installation, launch_command
from nearfield.mpi.detect_command import detect_mpi, mpi_of_launcher, mpi_of_program
from nearfield.rules.knobs import find_knobs
from nearfield.rules.schema import Rules, load_rules


def transport(inst: Installation) -> str:
    carrier, reason = mpi.transport_or_reason(inst)
    assert carrier, reason
    return carrier


def no_single_copy(inst: Installation) -> Rules:
    """Rules that make the kernel copy nothing; for Intel MPI, which has no knob for that, any."""
    knobs = find_knobs(inst.family, inst.version, transport(inst))
    names = {knob.name for knob in knobs.knob}
    settings: dict[str, int | str] = {"fwd_size": 32768}
    for name, value in (("cma_threshold", 2147483647), ("single_copy", "none"), ("rendezvous", 4194304)):
        if name in names:
            settings = {name: value}
    return rules_for(inst, transport(inst), settings)


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
def test_an_unmodified_program_is_tuned(installation: Installation, tmp_path: Path) -> None:
    """Does the same command line send by other means under `nearfield run`, and does -v say what was set?"""
    file = write(tmp_path, no_single_copy(installation))
    argv, env = launch_command(installation, [str(mpi.build_target(installation)), "--transport-probe"], 2)
    stock = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=60)
    tuned = nearfield("run", "-v", "--rules", file, "--", *argv, env=env)
    assert tuned.code == 0, tuned.err
    assert " = " in tuned.words
    if installation.family != "intel":
        assert "single_copies 0 -" in tuned.out
        assert "single_copies 0 -" not in stock.stdout, "stock copies by the kernel here, or this test shows nothing"


def test_the_launcher_and_the_program_show_the_mpi(installation: Installation) -> None:
    engine = str(mpi.build_target(installation))
    for found in (
        mpi_of_launcher([str(installation.launcher), "-n", "2", "true"]),
        mpi_of_program(["srun", "-n", "2", engine]),
        mpi_of_program([engine, "--verbose"]),  # a single rank, without a launcher
        detect_mpi([str(installation.launcher), "-n", "2", "python3", "app.py"]),
    ):
        assert found and (found.family, found.version) == (installation.family, installation.version)
    assert mpi_of_program(["srun", "sh", "-c", engine]) is None


def test_a_program_of_another_mpi_is_refused(installations: list[Installation], tmp_path: Path) -> None:
    """Is the classic mistake, the launcher of one MPI with a program of another, reported before it is made?"""
    families = {inst.family: inst for inst in installations}
    if len(families) < 2:
        pytest.skip("one family of MPI here")
    first, second = list(families.values())[:2]
    file = write(tmp_path, rules_for(first, transport(first), {}))
    done = nearfield("run", "--rules", file, "--", first.launcher, "-n", "1", mpi.build_target(second), "--describe")
    assert done.code == 3 and "each rank would be alone" in done.words


@pytest.mark.families
def test_no_mpi_is_named_that_the_program_cannot_run_with(
    installation: Installation, installations: list[Installation]
) -> None:
    """Is --mpi refused if it contradicts the program, and accepted for another MPI with the same binary interface?"""
    program = [str(mpi.build_target(installation)), "--describe"]
    for named in installations:
        if (named.family == "openmpi") == (installation.family == "openmpi"):
            assert detect_mpi(program, named.name).family == named.family
        else:
            with pytest.raises(MpiError, match=f"--mpi names {named.family}.* is of {installation.family}"):
                detect_mpi(program, named.name)


@pytest.mark.families
def test_rules_for_another_mpi_are_refused_unless_forced(installation: Installation, tmp_path: Path) -> None:
    knobs = {"openmpi": ("mpich", "5.0.2", "ch4 / posix"), "mpich": ("openmpi", "5.0.11", "ob1 / sm")}
    family, version, carrier = knobs.get(installation.family, knobs["mpich"])
    other = Installation(f"{family}-{version}", family, version, Path("/"), Path("/"), Path("/"), "made up")
    file = write(tmp_path, rules_for(other, carrier, {}))
    argv, env = launch_command(installation, ["true"], 1)
    refused = nearfield("run", "--rules", file, "--", *argv, env=env)
    assert refused.code == 2 and f"they are for {family}" in refused.words and "--force" in refused.words
    assert nearfield("run", "--force", "--rules", file, "--", *argv, env=env).code == 0


@pytest.fixture
def rules(installations: list[Installation], tmp_path: Path) -> Path:
    inst = next(i for i in installations if i.family == "openmpi" and i.version.startswith("5"))
    return write(tmp_path, rules_for(inst, "ob1 / sm", {"eager_limit": 32768}))


def sh(text: str) -> list[str]:
    return ["--force", "--", "sh", "-c", text]


def test_run_is_transparent(rules: Path) -> None:
    """Are standard streams, exit code, arguments and signals those of the program itself?"""
    command = [*NEARFIELD, "run", "--rules", str(rules), *sh('read line; echo "got $line"; echo bad >&2; exit 7')]
    done = subprocess.run(command, input="words\n", capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stdout, done.stderr) == (7, "got words\n", "bad\n")
    killed = subprocess.run([*NEARFIELD, "run", "--rules", str(rules), *sh("kill -TERM $$")], timeout=30)
    assert killed.returncode == -15


def test_what_is_piped_ends_as_without(rules: Path) -> None:
    """Does a command whose reader has gone end by SIGPIPE, without a word?"""
    done = nearfield("run", "--rules", rules, *sh("yes | head -n 1"))
    assert (done.code, done.out, done.err) == (0, "y\n", "")


def test_what_changed_is_found_out_anew(rules: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After rules were changed, and after the program became another MPI's, does a command that has run before get what
    is right now?"""
    monkeypatch.setenv("NEARFIELD_CACHE", str(tmp_path / "cache"))
    program = tmp_path / "mpirun"
    program.write_text('#!/bin/sh\necho "mpirun (Open MPI) 5.0.11"\n')
    program.chmod(0o755)
    for limit in (32768, 65536):
        rules.write_text(rules.read_text().replace("eager_limit = 32768", f"eager_limit = {limit}"))
        for _ in range(2):
            made = cached_launch_plan([str(program), "-n", "1"], rules, False, None)
            assert made.environment == {"OMPI_MCA_btl_sm_eager_limit": str(limit)}
    program.write_text(program.read_text().replace("5.0.11", "4.1.4"))
    with pytest.raises(UsageError, match="the program runs under 4.1.4"):
        cached_launch_plan([str(program), "-n", "1"], rules, False, None)


def test_options_of_the_launcher_stay_with_it(rules: Path) -> None:
    """Does `-n` or `-v` after the command belong to the command, with or without `--`?"""
    for dashes in ([], ["--"]):
        done = nearfield("run", "--force", "--rules", rules, *dashes, "echo", "-v", "-n", "--force")
        assert done.code == 0 and "-v -n --force" in done.out


def test_missing_commands_and_rules_are_reported(rules: Path, tmp_path: Path) -> None:
    assert "no command 'no-such'" in nearfield("run", "--rules", rules, "--", "no-such").words
    assert "no rules at" in nearfield("run", "--rules", tmp_path / "none.toml", "--", "true").words
    assert "identifies the MPI" in nearfield("run", "--rules", rules, "--", "true").words


def test_rules_of_an_interrupted_tune_are_to_be_completed(installation: Installation, tmp_path: Path) -> None:
    """If a tune was interrupted where rules are looked for, is the hint to complete it?"""
    trials = tmp_path / "rules.toml.trials"
    program = (installation.launcher, "-n", "1", "true")
    assert "make them with" in nearfield("run", "--rules", tmp_path / "rules.toml", "--", *program).words
    trials.touch()
    said = nearfield("run", "--rules", tmp_path / "rules.toml", "--", *program).words
    assert "complete the interrupted tune" in said and "--resume" in said


def test_compare_says_what_tuning_is_worth(rules: Path) -> None:
    """Is the ratio of a number that the program prints right, and turned around if higher is better?"""
    text = "echo value ${OMPI_MCA_btl_sm_eager_limit:-4096}"
    metric = ["-n", "6", "--rules", rules, "--metric", r"value (\d+)"]
    slower = nearfield("compare", *metric, *sh(text))
    assert slower.code == 0 and "tuned is slower: 0.125x of the baseline (0.125 to 0.125, n = 6)" in slower.out
    faster = nearfield("compare", *metric, "--higher-is-better", *sh(text))
    assert "tuned is faster: 8.000x" in faster.out
    assert "a verdict needs at least 6 runs of each" in nearfield("compare", *metric[2:], "-n", "2", *sh(text)).out


def test_compare_reports_a_failure_once(installations: list[Installation], rules: Path) -> None:
    """If the program fails under the profiling layer and without it, is only the latter reported?"""
    inst = next(i for i in installations if i.family == "openmpi" and i.version.startswith("5"))
    command, environment = launch_command(inst, ["sh", "-c", "exit 3"], 1)
    failed = nearfield("compare", "--rules", rules, "--force", "--", *command, env=environment)
    assert failed.code == 5 and failed.words.count("the baseline run ended with exit code 3") == 1, failed.words


def test_compare_tells_what_went_wrong(rules: Path) -> None:
    """Which run failed and how; a metric that is not printed, or no expression, or no number."""
    only_tuned = sh('test -z "$OMPI_MCA_btl_sm_eager_limit" || { echo broken; exit 3; }')
    failed = nearfield("compare", "--rules", rules, *only_tuned)
    assert failed.code == 5 and "the tuned run ended with exit code 3: broken" in failed.words
    silent = nearfield("compare", "--rules", rules, *sh("exit 3"))
    assert "the baseline run ended with exit code 3 and printed nothing" in silent.words
    for metric, words in (
        ("(x+)", "nothing that fits"),
        ("(", "no regular"),
        ("x", "one group"),
        ("(a)b", "no number"),
    ):
        done = nearfield("compare", "--rules", rules, "--metric", metric, *sh("echo ab"))
        assert done.code != 0 and words in done.words


def test_export_is_what_run_sets(rules: Path, tmp_path: Path) -> None:
    """Does sourcing the exported file set the same, and does every wrong request end in a reason?"""
    text = nearfield("export", "--rules", rules, "--format", "env").out
    shown = subprocess.run(["sh", "-c", f"{text}\nenv"], capture_output=True, text=True).stdout
    assert "OMPI_MCA_btl_sm_eager_limit=32768" in shown.splitlines()
    conf = nearfield("export", "--rules", rules, "--for", "openmpi", "--format", "conf").out
    assert "btl_sm_eager_limit = 32768" in conf.splitlines()
    with pytest.raises(UsageError, match="are for openmpi, not mpich.*tune --mpi mpich"):
        export_text(load_rules(rules), "mpich", "env", rules)
    with pytest.raises(UsageError, match="not ucx; leave out --for$"):
        export_text(load_rules(rules), "ucx", "env", rules)
    with pytest.raises(UsageError, match="no MPI 'opnmpi'; did you mean 'openmpi'"):
        export_text(load_rules(rules), "opnmpi", "env", rules)
    assert "unknown format" in nearfield("export", "--rules", rules, "--format", "yaml").words
    prolog = tmp_path / "prolog.sh"
    prolog.write_text("what was here before")
    prolog.chmod(0o640)
    assert nearfield("export", "--rules", rules, "--format", "slurm", "-o", prolog).code == 0
    assert prolog.stat().st_mode & 0o777 == 0o750, "Slurm starts it itself"
    printed = subprocess.run([prolog], capture_output=True, text=True).stdout
    assert printed == "export OMPI_MCA_btl_sm_eager_limit=32768\n"


def test_export_says_what_run_knows(rules: Path) -> None:
    """Are costs in shared memory and the distance in the comments, and are rules that set nothing an error?"""
    made = load_rules(rules)
    made.rule[0] = made.rule[0].model_copy(update={"memory_per_rank_bytes": 1 << 22, "c2c_latency_ns": 60.0})
    text = export_text(made, "", "env", rules)
    assert "# Shared memory: 4 MiB per rank at 2 ranks per node." in text
    assert f"cores 0-1, {made.rule[0].distance}." in text and "the core-to-core latency was 60 ns" in text
    made.rule[0] = made.rule[0].model_copy(update={"parameters": {}, "reason": "all lose"})
    with pytest.raises(UsageError, match="nothing to export.*all lose"):
        export_text(made, "", "env", rules)


def test_what_another_hosts_rules_set_is_said_once(
    rules: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Before rules from another host are used the first time, does one line say what they set; then no more, until they
    set something else; and never for rules that were made here?"""
    monkeypatch.setenv("NEARFIELD_CACHE", str(tmp_path / "cache"))

    def said() -> list[list[str]]:
        return [cached_launch_plan(["sh"], rules, True, None).warnings for _ in range(2)]

    assert said() == [[], []]
    text = rules.read_text().replace(f'host = "{os.uname().nodename}"', 'host = "far\\n"')
    for limit in (32768, 65536):
        rules.write_text(text.replace("eager_limit = 32768", f"eager_limit = {limit}"))
        (first,), later = said()
        assert r"another host ('far\n')" in first and f"OMPI_MCA_btl_sm_eager_limit = {limit}" in first
        assert later == []


@pytest.fixture
def heap_rules(rules: Path) -> Path:
    text = rules.read_text().replace("eager_limit = 32768", 'shared_heap = "on"')
    rules.write_text(text)
    return rules


@pytest.mark.parametrize("before", ["", "/usr/a.so", "/usr/a.so:/usr/b.so"])
def test_what_users_preload_stays(heap_rules: Path, before: str) -> None:
    """Under exported files, is ours put before what a user preloads, once however often the file is read?"""
    ours = str(shared_heap.heap_library_path())
    env = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    setting = f"LD_PRELOAD={before}" if before else ":"
    wanted = f"{ours}:{before}" if before else ours
    made = load_rules(heap_rules)
    text, slurm, module = (export_text(made, "", form, heap_rules) for form in ("env", "slurm", "module"))
    assert "ASAN_OPTIONS" not in text
    script = f'{setting}\n{text}\n{text}\necho "$LD_PRELOAD"'
    shown = subprocess.run(["sh", "-euc", script], capture_output=True, text=True, env=env)
    assert shown.stdout == f"{wanted}\n"
    shown = subprocess.run(["sh", "-c", f"{setting}\n{slurm}"], capture_output=True, text=True, env=env)
    assert f"export LD_PRELOAD={wanted}" in shown.stdout.splitlines()
    lines = [line.strip() for line in module.splitlines()]
    assert f'prepend-path LD_PRELOAD "{ours}"' in lines and "setenv LD_PRELOAD" not in module


def test_what_cannot_be_preloaded_sets_nothing(heap_rules: Path, tmp_path: Path) -> None:
    """If the library is gone, do exported files set nothing, so that no process complains; and does a copy in a central
    place work, of which it is said that it is missing as long as it is?"""
    central = tmp_path / "heap.so"
    made = load_rules(heap_rules)
    for there in (False, True):
        if there:
            shutil.copy(shared_heap.heap_library_path(), central)
        text, slurm, module = (export_text(made, "", form, heap_rules, central) for form in ("env", "slurm", "module"))
        shown = subprocess.run(
            ["sh", "-euc", f"{text}\necho ${{NEARFIELD_HEAP:-none}}"], capture_output=True, text=True
        )
        assert (shown.stdout, shown.stderr) == ("on=1\n" if there else "none\n", "")
        printed = subprocess.run(["sh", "-c", slurm], capture_output=True, text=True).stdout
        assert (f"LD_PRELOAD={central}" in printed) == there and ("NEARFIELD_HEAP" in printed) == there
        (tests,) = (line for line in module.splitlines() if line.startswith("if {"))
        assert f'[file readable "{central}"]' in tests and "module unload" in module
    assert "every process" in text
    message = nearfield("export", "--rules", heap_rules, "--library", tmp_path / "none.so").err
    assert "not there yet" in message and f"cp {shared_heap.heap_library_path()} {tmp_path / 'none.so'}" in " ".join(
        message.split()
    )
    assert "cannot be preloaded" in nearfield("export", "--rules", heap_rules, "--library", "none.so").err
    assert "a virtual environment" in nearfield("export", "--rules", heap_rules).err
    refused = nearfield("export", "--rules", heap_rules, "--format", "conf")
    assert (refused.code == 0) == ("a virtual environment" in refused.err), "what is refused needs no advice"


def test_rules_that_set_nothing_say_so(installations: list[Installation], tmp_path: Path) -> None:
    """Do `run`, `compare` and `export` say that the defaults are best, and does `run` start the program anyway?"""
    inst = next(i for i in installations if i.family == "openmpi" and i.version.startswith("5"))
    file, words = write(tmp_path, rules_for(inst, "ob1 / sm", {})), "the defaults of this MPI are best here"
    ran = nearfield("run", "--rules", file, *sh("echo ran"))
    assert (ran.code, ran.out) == (0, "ran\n") and words in ran.err
    for verb in (("compare", "--rules", file, *sh("true")), ("export", "--rules", file)):
        done = nearfield(*verb)
        assert done.code == 2 and words in " ".join(done.err.split())


def test_rules_of_another_version_say_how_to_make_them(rules: Path, tmp_path: Path) -> None:
    """Is the command that tunes the program's own MPI printed, and not one that tunes another; also without rules?"""
    program = tmp_path / "mpirun"
    program.write_text('#!/bin/sh\necho "mpirun (Open MPI) 4.1.4"\n')
    program.chmod(0o755)
    for file in (rules, tmp_path / "none.toml"):
        said = nearfield("run", "--rules", file, "--", program).err
        assert "tune --mpi openmpi-4.1.4 -o nearfield-rules/openmpi-4.1.4.toml" in " ".join(said.split())


def test_ranks_get_the_heap_from_the_exported_file(
    installations: list[Installation], heap_rules: Path, tmp_path: Path
) -> None:
    """Does Open MPI 5 hand the heap to its ranks, beside `-x`; and is there no such file for Open MPI 4, whose `-x` it
    would break?"""
    inst = next(i for i in installations if i.family == "openmpi" and i.version.startswith("5"))
    file = tmp_path / "params.conf"
    assert nearfield("export", "--rules", heap_rules, "--format", "conf", "-o", file).code == 0
    argv, env = launch_command(inst, ["sh", "-c", "echo $NEARFIELD_HEAP $LD_PRELOAD $MINE"], 1)
    argv[1:1] = ["-x", "MINE=1"]
    env["OMPI_MCA_mca_base_param_files"] = str(file)
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=60)
    assert done.stdout == f"on=1 {shared_heap.heap_library_path()} 1\n", done.stderr
    heap_rules.write_text(heap_rules.read_text().replace('"5.0.11"', '"4.1.4"').replace("ob1 / sm", "ob1 / vader"))
    with pytest.raises(UsageError, match="mpirun -x fails.*--format env"):
        export_text(load_rules(heap_rules), "", "conf", heap_rules)


@pytest.mark.skipif(not shutil.which("ompi_info"), reason="no Open MPI on PATH")
def test_open_mpi_reads_the_exported_file(rules: Path, tmp_path: Path) -> None:
    """Does Open MPI itself take the exported defaults file as it is?"""
    file = tmp_path / "params.conf"
    assert nearfield("export", "--rules", rules, "--format", "conf", "-o", file).code == 0
    text = file.read_text().replace("btl_sm_", "btl_vader_")  # the one on PATH may be 4.1
    file.write_text(text)
    env = {**os.environ, "OMPI_MCA_mca_base_param_files": str(file)}
    command = "ompi_info --param btl all --level 9 --parsable"
    shown = subprocess.run(shlex.split(command), env=env, capture_output=True, text=True, timeout=60).stdout
    assert "btl_vader_eager_limit:value:32768" in shown or "btl_sm_eager_limit:value:32768" in shown
