"""The profile on disk: what is written comes back, and what is wrong is refused with the reason."""

from __future__ import annotations

import random
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from doc_tables import rewrite

import nearfield
from nearfield.base.errors import ProfileError, UsageError
from nearfield.profile import ensure_writable, find_profile, from_rows, load, parameter_names, save, where
from nearfield.profile.curves import places_of_scenario
from nearfield.profile.records import check_records
from nearfield.profile.store import _replace_folder

ROOT = Path(__file__).parents[2]
RECORDED = ROOT / "tests" / "data" / "epyc-vm-quiet"


def record(**changes: Any) -> dict[str, Any]:
    """One valid record, with changes."""
    return {
        "scenario": "pingpong", "metric": "send", "unit": "ns", "value": 200.0, "low": 190.0, "high": 215.0,
        "n": 21, "stable": True, "source": "live", "distance": "shared-l3", "pair": "0-1", "side": "sender",
        "size_bytes": 8, "state": "invalid", **changes,
    }  # fmt: skip


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A recorded profile that a test may damage."""
    return Path(shutil.copytree(RECORDED, tmp_path / "profile"))


def save_again(path: Path, **changes: Any) -> nearfield.Profile:
    p = load(RECORDED)
    parts = {"machine": p.machine, "topology_xml": p.topology_xml, "run": p.run, "records": p.records}
    return save(path, **(parts | changes))


# ---- round trip


def test_what_is_saved_comes_back(tmp_path: Path) -> None:
    """Is a loaded profile equal to the saved one, in every key and every record, with its types?"""
    saved = save_again(tmp_path / "a" / "b" / "profile")
    again = load(tmp_path / "a" / "b" / "profile")
    assert (again.machine, again.run, again.topology_xml) == (saved.machine, saved.run, saved.topology_xml)
    assert again.records.equals(saved.records, null_equal=True)
    assert again.records.schema == saved.records.schema


def test_a_profile_is_pleasant_in_a_notebook() -> None:
    """Does one line say what it is, and are the facts typed attributes?"""
    p = nearfield.load(str(RECORDED))
    assert "\n" not in repr(p) and "epyc-vm, openmpi-4.1.4, 834 records" in repr(p)
    assert p.machine.llc_bytes == 32 << 20
    assert p.run.mpi.variables["btl_vader_eager_limit"] == 4096
    assert [switch.bytes for switch in p.run.switch] == [256, 4040]


def test_the_table_alone_says_the_version() -> None:
    """Can another program that has only records.parquet tell the version of the format?"""
    assert pl.read_parquet_metadata(RECORDED / "records.parquet")["nearfield_schema_version"] == "1"


def test_the_documentation_is_the_schema() -> None:
    """Do the tables of docs/reference/profile.md say what the schema says? (python tests/support/doc_tables.py)"""
    page = (ROOT / "docs/reference/profile.md").read_text()
    assert page.count("<!-- generated:") == 3
    assert rewrite(page) == page


# ---- saving


def test_an_existing_profile_is_replaced_only_on_request(copy: Path) -> None:
    """Does save refuse to overwrite, unless the caller says so, and does it then leave the other files of the
    folder?"""
    (copy / "report.html").write_text("mine")
    (copy / "raw").mkdir()
    (copy / "raw" / "samples.json").write_text("[]")
    with pytest.raises(ProfileError, match="there is a profile"):
        save_again(copy)
    few = load(RECORDED).records.head(3)
    save_again(copy, records=few, overwrite=True)
    assert load(copy).records.height == 3
    assert (copy / "report.html").read_text() == "mine"
    assert (copy / "raw" / "samples.json").read_text() == "[]"
    assert [p.name for p in copy.parent.iterdir()] == ["profile"]


def test_a_folder_that_is_no_profile_is_never_replaced(tmp_path: Path) -> None:
    """Does save refuse a folder of somebody else's files, even with overwrite?"""
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(ProfileError, match="not a profile"):
        save_again(tmp_path, overwrite=True)
    assert (tmp_path / "thesis.tex").read_text() == "years of work"


def test_a_symbolic_link_keeps_pointing_to_the_profile(copy: Path) -> None:
    """Is the profile behind a link replaced, and not the link?"""
    link = copy.with_name("latest")
    link.symlink_to(copy)
    save_again(link, overwrite=True)
    assert link.is_symlink() and load(copy).records.height == 834


def test_a_swap_that_fails_halfway_is_undone(copy: Path) -> None:
    """If the new folder cannot take the place of the old one (here: it has gone), is the old one put back?"""
    with pytest.raises(FileNotFoundError):
        _replace_folder(copy.with_name(".profile.new-0"), copy)
    assert load(copy).records.height == 834
    assert [p.name for p in copy.parent.iterdir()] == ["profile"]


@pytest.mark.parametrize("place", ["a-file", "a-file/profile", "a-file/below/profile"])
def test_a_path_that_cannot_be_a_folder(tmp_path: Path, place: str) -> None:
    """Is a path that is a file, or below one, refused with its name before anything is measured?"""
    (tmp_path / "a-file").write_text("")
    with pytest.raises(ProfileError, match="a-file"):
        ensure_writable(tmp_path / place)


def test_ensure_writable_leaves_nothing_behind(tmp_path: Path) -> None:
    """Is the folder still absent after asking whether it could be written?"""
    assert ensure_writable(tmp_path / "new" / "profile") == tmp_path / "new" / "profile"
    assert list((tmp_path / "new").iterdir()) == []


SAVE_UNDER_A_LIMIT = """
import resource, sys
from nearfield.base.errors import ProfileError
from nearfield.profile import load, save
p = load(sys.argv[1])
if int(sys.argv[3]):
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]),) * 2)
large = {"machine": p.machine, "topology_xml": p.topology_xml * 40, "run": p.run, "records": p.records}
try:
    save(sys.argv[2], **large, overwrite=True)
except ProfileError as error:
    print(error.message, error.remedy)
    sys.exit(error.exit_code)
"""


@pytest.mark.slow
@pytest.mark.parametrize("limit_bytes", [100, 4096, 16384])
def test_a_file_that_cannot_grow_leaves_the_old_profile(copy: Path, limit_bytes: int) -> None:
    """When writing fails at the first file, or at a later one, is the old profile untouched and nothing left
    over?"""
    before = {f.name: f.read_bytes() for f in copy.iterdir()}
    command = [sys.executable, "-c", SAVE_UNDER_A_LIMIT, str(RECORDED), str(copy), str(limit_bytes)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == ProfileError.exit_code, done.stderr
    assert str(copy) in done.stdout and "free in" in done.stdout
    assert {f.name: f.read_bytes() for f in copy.iterdir()} == before
    assert [p.name for p in copy.parent.iterdir()] == ["profile"]


@pytest.mark.slow
def test_a_full_disk_leaves_the_old_profile(tmp_path: Path) -> None:
    """On a file system that is really full: does the error name folder and room, and is the old profile
    whole?"""
    # A private mount in a user namespace; needs no root where the kernel allows it. The old profile fits, no
    # second.
    script = (
        f"mount -t tmpfs -o size=128k none {tmp_path} && cp -r {RECORDED} {tmp_path}/profile && "
        f'{sys.executable} -c "$0" {RECORDED} {tmp_path}/profile 0; code=$?; '
        f"diff -r {RECORDED} {tmp_path}/profile && ls -A {tmp_path} && exit $code"
    )
    unshare = ["unshare", "--user", "--map-root-user", "--mount"]
    if not shutil.which("unshare") or subprocess.run([*unshare, "true"], capture_output=True).returncode:
        pytest.skip("no user namespaces here")
    done = subprocess.run([*unshare, "sh", "-c", script, SAVE_UNDER_A_LIMIT], capture_output=True, text=True)
    if "mount:" in done.stderr:
        pytest.skip(f"no private mounts here: {done.stderr}")
    assert done.returncode == ProfileError.exit_code, done.stdout + done.stderr
    assert "no space left on device" in done.stdout and "KiB free in" in done.stdout
    assert done.stdout.splitlines()[-1] == "profile"


# ---- loading what is wrong


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


@pytest.mark.parametrize(
    ("file", "old", "new", "reason"),
    [
        ("machine.toml", "cpu_model =", "cpu_modle =", "unknown key 'cpu_modle': did you mean 'cpu_model'"),
        ("machine.toml", "ways = 8", "wayz = 8", r"unknown key 'cache\[0\].wayz': did you mean 'ways'"),
        ("run.toml", "\nfamily =", "\nfamilie =", "unknown key 'mpi.familie': did you mean 'family'"),
        ("run.toml", "load_1m = 2.0", 'load_1m = "2.0"', "host.load_1m = '2.0'"),
        ("machine.toml", 'name = "epyc-vm"\n', "", "the key 'name' is missing"),
        ("machine.toml", "cores = 2", "cores = 0", "cores = 0: must be a whole number from 1 to"),
        ("machine.toml", "cores = 2", "cores = two", "line 5"),
        ("machine.toml", "cores = 2", "cores = 100000000000000000", "cores = 1.* to 1048576"),
        ("machine.toml", "cores = 2", f"cores = {10**30}", "'cores' is a number beyond 64 bits"),
        ("run.toml", "load_1m = 2.0", "load_1m = inf", "host.load_1m = inf: .*finite"),
        ("run.toml", "schema_version = 1", "schema_version = 2", "newer nearfield"),
        ("machine.toml", "schema_version = 1", "schema_version = 99", "newer nearfield"),
        ("run.toml", "schema_version = 1\n", "", "nearfield did not write it"),
        (
            "run.toml",
            "created = 2026-11-21T06:07:00Z",
            "created = 2026-11-21T06:07:00",
            "created = .*timezone",
        ),
        ("topology.xml", "<topology", "<html", "not a topology"),
    ],
)
def test_a_wrong_text_file_is_refused(copy: Path, file: str, old: str, new: str, reason: str) -> None:
    """Does the error name the file, the key or line, and for a misspelt key the right one?"""
    edit(copy / file, old, new)
    with pytest.raises(ProfileError, match=reason) as caught:
        load(copy)
    assert str(copy / file) in caught.value.message and caught.value.remedy


def test_bytes_that_are_no_text_are_refused(copy: Path) -> None:
    """Is a TOML file of random bytes an error, not a crash?"""
    (copy / "run.toml").write_bytes(b"\x00\xff\xfe" * 100)
    with pytest.raises(ProfileError, match=r"run.toml is damaged: byte 1 is not UTF-8"):
        load(copy)


@pytest.mark.parametrize(
    ("length", "reason"),
    [(0, "is empty"), (3, "is not a Parquet"), (4, "is damaged"), (-1, "is cut off"), (-9, "is cut off")],
)
def test_a_truncated_table_is_refused(copy: Path, length: int, reason: str) -> None:
    """Is a table that was cut off anywhere refused as such?"""
    table = copy / "records.parquet"
    table.write_bytes(table.read_bytes()[:length])
    with pytest.raises(ProfileError, match=f"records.parquet {reason}"):
        load(copy)


def test_every_flipped_bit_is_noticed(copy: Path) -> None:
    """Is damage refused even where the table still decodes (to other numbers)?"""
    table, rng = copy / "records.parquet", random.Random(1)
    whole = table.read_bytes()
    for _ in range(50):
        damaged = bytearray(whole)
        damaged[rng.randrange(4, len(whole) - 4)] ^= 1 << rng.randrange(8)
        table.write_bytes(damaged)
        with pytest.raises(ProfileError, match="checksum"):
            load(copy)


def test_damage_without_a_checksum_is_no_crash(copy: Path) -> None:
    """With the checksum removed by hand: does a damaged table give our error or a valid profile, never
    another one?"""
    lines = (copy / "run.toml").read_text().splitlines(keepends=True)
    (copy / "run.toml").write_text("".join(line for line in lines if "sha256" not in line))
    table, rng, refused = copy / "records.parquet", random.Random(2), 0
    whole = table.read_bytes()
    for _ in range(100):
        damaged = bytearray(whole)
        damaged[rng.randrange(4, len(whole) - 4)] ^= 1 << rng.randrange(8)
        table.write_bytes(damaged)
        try:
            load(copy)
        except ProfileError:
            refused += 1
    assert refused > 10  # the others decoded to other numbers, which is why there is a checksum


def test_a_table_of_something_else_is_refused(copy: Path) -> None:
    """Is a healthy Parquet file with other columns refused with the first column it lacks, and one whose sizes are text
    with that column?"""
    edit(copy / "run.toml", "records_sha256", "# records_sha256")
    as_text = load(copy).records.with_columns(pl.col("size_bytes").cast(pl.String))
    for table, words in ((pl.DataFrame({"city": ["Bonn"]}), "no column 'scenario'"), (as_text, "must be Int64")):
        table.write_parquet(copy / "records.parquet")
        with pytest.raises(ProfileError, match=words):
            load(copy)


def test_what_is_not_there_or_not_a_profile(copy: Path, tmp_path: Path) -> None:
    """Does each of absent, file, foreign folder and incomplete folder get its own reason?"""
    with pytest.raises(ProfileError, match="there is no profile"):
        load(tmp_path / "nowhere")
    with pytest.raises(ProfileError, match="is a file"):
        load(copy / "run.toml")
    with pytest.raises(ProfileError, match="is not a profile: it has no machine.toml"):
        load(tmp_path)
    (copy / "records.parquet").unlink()
    with pytest.raises(ProfileError, match="not whole: records.parquet is missing"):
        load(copy)


def test_the_profile_meant_when_none_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Is it the only one here, the one with the default name among several, and otherwise an error?"""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="no profile"):
        find_profile()
    shutil.copytree(RECORDED, "b")
    assert find_profile() == Path("b")
    shutil.copytree(RECORDED, "a")
    with pytest.raises(UsageError, match="several profiles here: a, b"):
        find_profile()
    shutil.copytree(RECORDED, "nearfield-profile")
    assert find_profile() == Path("nearfield-profile")
    assert find_profile("a") == Path("a")


# ---- records


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"low": 201.0}, "interval does not contain the value"),
        ({"high": 199.0}, "interval does not contain the value"),
        ({"low": None}, "only one end"),
        ({"value": float("nan")}, "value is not finite"),
        ({"high": float("inf")}, "high is not finite"),
        ({"n": -1}, "n is negative"),
        ({"value": 2e300, "high": 2e300}, "in ns is below 0 or above 1e"),
        ({"low": -1.0}, "in ns is below 0 or above 1e"),
        ({"size_bytes": -8}, "size_bytes is not from 0 to"),
        ({"size_bytes": 1 << 60}, "size_bytes is not from 0 to"),
        ({"n": 0}, "no repetition"),
        ({"value": None, "low": None, "high": None, "stable": False}, "there is no note with the reason"),
        ({"value": None, "low": None, "high": None, "stable": False, "note": ""}, "there is no note with the reason"),
        ({"value": None, "low": None, "high": None, "note": "no counter"}, "null and called stable"),
        ({"value": None, "stable": False, "note": "no counter"}, "there is an interval"),
        ({"unit": "furlongs"}, "unit is none of ns"),
        ({"side": "both"}, "side is none of"),
        ({"source": "guess"}, "source is none of"),
        ({"verdict": "maybe"}, "verdict is none of"),
        ({"metric": None}, "metric is null"),
        ({"scenario": 5}, "scenario = 5 is not String"),
        ({"size_bytes": 2.5}, "size_bytes = 2.5 is not Int64"),
        ({"Size Bytes": 1}, "snake_case"),
    ],
)
def test_a_wrong_record_is_refused(changes: dict[str, Any], reason: str) -> None:
    """Does each rule of docs/reference/profile.md catch the record that breaks it?"""
    with pytest.raises(ProfileError, match=reason):
        from_rows([record(size_bytes=4096), record(**changes)])


def test_the_error_names_the_record() -> None:
    """Can the user find the record that is wrong?"""
    with pytest.raises(
        ProfileError, match=r"pingpong send \(shared-l3, 0-1, sender, size_bytes=8, state=invalid\): n is"
    ):
        from_rows([record(n=-1)])


def test_a_record_is_there_once() -> None:
    """Are two records that differ only in what was measured refused, and two of different sides not?"""
    with pytest.raises(ProfileError, match="more than once"):
        from_rows([record(), record(value=195.0, verdict="verified")])
    assert from_rows([record(), record(side="receiver")]).height == 2


def test_parameters_are_those_that_apply() -> None:
    """Does a part of the records have only the parameters of its scenarios, the verdict not among them?"""
    rows = [record(verdict="verified"), record(scenario="load", state=None, load_bytes=64)]
    records = from_rows(rows)
    assert parameter_names(records) == ["size_bytes", "state", "load_bytes"]
    assert parameter_names(where(records, scenario="load")) == ["size_bytes", "load_bytes"]
    assert records.columns[-1] == "verdict" and records["load_bytes"].dtype == pl.Int64


def test_where_takes_values_lists_and_null() -> None:
    """Does where pick equal values, any of a list, and null; and name the nearest column for one that is not
    there?"""
    records = from_rows([record(), record(state="modified"), record(state=None), record(size_bytes=64)])
    assert where(records, size_bytes=8, state=["invalid", "modified"]).height == 2
    assert where(records, state=None).height == 1
    assert where(records, state=["modified", None]).height == 2
    assert where(records, state="reused").is_empty()
    with pytest.raises(UsageError) as caught:
        where(records, size=8)
    assert "size_bytes" in caught.value.remedy
    with pytest.raises(UsageError, match="holds Int64"):
        where(records, size_bytes="8")


def test_no_records_are_a_profile_too(tmp_path: Path) -> None:
    """Can a run that was stopped before its first number be saved and loaded?"""
    save_again(tmp_path / "empty", records=from_rows([]))
    assert load(tmp_path / "empty").records.is_empty()


def test_a_number_that_older_versions_wrote_as_text_is_one(copy: Path) -> None:
    """Is the memory slowdown of a profile as older versions wrote it a number, which sorts and selects as one?"""
    rows = [record(memory_slowdown=factor) for factor in (10.0, 7.5, 1)]
    records = from_rows(rows)
    assert records["memory_slowdown"].dtype == pl.Float64
    as_text = records.with_columns(pl.Series("memory_slowdown", ["10", "7.5", "1"]))
    as_text.write_parquet(copy / "records.parquet")
    run = (copy / "run.toml").read_text()
    (copy / "run.toml").write_text(re.sub("^records_sha256 = .*\n", "", run, flags=re.MULTILINE))
    read = load(copy).records
    assert read["memory_slowdown"].sort().to_list() == [1, 7.5, 10]
    assert where(read, memory_slowdown=7.5).height == where(read, memory_slowdown=1).height == 1
    with pytest.raises(ProfileError, match="no numbers"):
        check_records(as_text.with_columns(pl.lit("slow").alias("memory_slowdown")))


def test_more_hops_are_farther() -> None:
    """Is a distance of ten hops behind one of nine, and both behind those inside a node?"""
    distances = ["network-10", "same-numa", "network-9", "network-1", "same-core"]
    records = from_rows([record(distance=distance, pair=f"0-{i}") for i, distance in enumerate(distances, 1)])
    found = [place.distance for place in places_of_scenario(records, "pingpong")]
    assert found == ["same-core", "same-numa", "network-1", "network-9", "network-10"]
