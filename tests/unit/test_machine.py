"""Described machines as the simulator takes them: are all files right, is every mistake in one named with file, key and
the nearest valid choice, does what a file says arrive in C++, and can a profile be taken for a machine?"""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tomlkit
from doc_tables import inner_table, rewrite
from machines import FILES, Edit, all_of, load_content, put, put_tiers, refusal, values

from nearfield._native import machine as structs
from nearfield.base.errors import NearfieldError, ProfileError, UsageError
from nearfield.machine import facts, load_machine
from nearfield.machine.described import DescribedMachine
from nearfield.machine.files import to_toml
from nearfield.machine.native import to_native
from nearfield.machine.schema import requirement_of
from nearfield.machine.simulated import compare_with_file

ROOT = Path(__file__).parents[2]
PAPERS = {"leo3", "vsc2", "fusion", "blues", "mic", "workstation", "tigerton", "nehalem-ep", "t3e-900", "origin-2000",
          "power5-redstorm"}  # fmt: skip
MEMBERS = {"memory": "dram", "cache": "caches"}  # sections whose member of the native machine has another name


# ---- the files


def test_the_machines_of_all_studies_are_there() -> None:
    """And three of today's?"""
    assert set(FILES) >= PAPERS and len(set(FILES) - PAPERS) >= 3


@pytest.mark.parametrize("name", FILES)
def test_every_file_becomes_a_native_machine(name: str) -> None:
    """Is each value of the file in the member of its name, and what is absent as the struct has it?"""
    machine = load_machine(name)
    made = to_native(machine)
    assert (made.name, made.cores, len(made.caches)) == (name, machine.cores.value, len(machine.cache))
    for key, fact in facts(machine):
        if key.startswith("communication") or key in ("cores", "coherence", "network.max_nodes"):
            continue
        found: Any = made
        for part in key.replace("pages.tlb", "pages.tlbs").replace("]", "").split("."):
            member, _, place = part.partition("[")
            found = getattr(found, MEMBERS.get(member, member))
            found = found[int(place)] if place else found
        assert getattr(found, "name", found) == fact.value, key
    assert made.max_nodes == (machine.network.max_nodes.value if machine.network else 1)
    assert (made.nic is None, made.network is None) == (machine.nic is None, machine.network is None)
    assert made.caches[0].sub_blocks == 1 and made.caches[0].write in structs.WritePolicy


@pytest.mark.parametrize("name", FILES)
def test_what_is_chosen_says_why(name: str) -> None:
    """Has everything a source, or else a reason and its claims, those of one study unless it is of none?"""
    for key, fact in facts(load_machine(name)):
        assert fact.origin, key
        assert (fact.kind == "chosen") == (fact.claims is not None) == bool(fact.reason), key


def test_power5_is_what_the_study_simulated() -> None:
    """Is it S4's table 2: 32 KB 4-way; 1.875 MB 10-way, 14 cycles; 36 MB 12-way, 90; 128-byte blocks; memory 230?"""
    made = to_native(load_machine("power5-redstorm"))
    sets = [cache.size_bytes // (cache.ways * cache.line_bytes) for cache in made.caches]
    assert sets == [64, 3 * 512, 3 * 4096]
    assert [cache.line_bytes // cache.sub_blocks for cache in made.caches] == [128, 128, 128]
    assert [cache.latency_cycles for cache in made.caches] == [2, 14, 90]
    assert made.dram.latency_ns * made.core.clock_ghz == pytest.approx(230, rel=1e-3)
    assert made.dram.gb_per_s / made.core.clock_ghz == pytest.approx(6.0)
    assert [cache.inclusion.name for cache in made.caches] == ["neither", "inclusive", "exclusive"]


@pytest.mark.parametrize("name", FILES)
def test_a_machine_written_is_the_machine_read(name: str, tmp_path: Path) -> None:
    """Does `show --toml` lose nothing?"""
    machine = load_machine(name)
    assert load_content(to_toml(machine), tmp_path) == machine


def test_the_page_says_what_the_schema_says() -> None:
    """Is the table of docs/reference/machine.md fresh? (python tests/support/doc_tables.py)"""
    page = (ROOT / "docs/reference/machine.md").read_text()
    assert rewrite(page) == page


# ---- mistakes


def linked_hubs(**links: Any) -> list[Edit]:
    """Returns edits that link the hubs of a machine, in a way that `links` changes."""
    keys = {"topology": "hypercube", "hop_ns": 80, "gb_per_s": 0.8, **links}
    return [put(f"links.{name}", value) for name, value in keys.items()]


MISTAKES = {
    "a key misspelt": (put("cache.0.way", 4), "cache[0].way", "did you mean 'ways'"),
    "a section misspelt": (put("prefetch", {"streams": 1}), "'prefetch'", "did you mean 'prefetcher'"),
    "a key of a value misspelt": (put("cores", {"value": 2, "sorce": "x"}), "cores.sorce", "did you mean 'source'"),
    "no source": (put("cores", {"value": 2}), "cores", "source"),
    "chosen without a reason": (put("cores", {"value": 2, "kind": "chosen", "claims": []}), "cores", "reason"),
    "stated with a reason": (put("cores", {"value": 2, "source": "x", "reason": "y"}), "cores", "chosen"),
    "no such claim": (
        put("cores", {"value": 2, "kind": "chosen", "reason": "x", "claims": ["9.1"]}), "cores.claims[0]", "A-Z"),
    "a unit in the value": (put("memory.latency_ns", "139 ns"), "memory.latency_ns.value", "number"),
    "negative": (put("memory.latency_ns", -1), "memory.latency_ns.value", "from 0 to 1e+07"),
    "zero ways": (put("cache.0.ways", 0), "cache[0].ways.value", "from 1 to 1048576"),
    "not a number": (put("memory.gb_per_s", float("nan")), "memory.gb_per_s.value", "finite"),
    "without end": (put("memory.gb_per_s", float("inf")), "memory.gb_per_s.value", ""),
    "half a way": (put("cache.0.ways", 4.5), "cache[0].ways.value", "whole number"),
    "no clock": (put("core.clock_ghz", None), "core.clock_ghz", "missing"),
    "no memory": (put("memory", None), "memory", "missing"),
    "geometry": (put("cache.0.size_bytes", 32000), "cache[0].size_bytes = 32000", "nearest: 31744"),
    "a line of no power": (put("cache.0.line_bytes", 96), "cache[0].line_bytes = 96", "nearest: 64"),
    "parts of a line": (put("cache.2.sub_blocks", 3), "cache[2].sub_blocks = 3", "nearest: 2"),
    "an inclusive cache of parts": (put("cache.2.inclusion", "inclusive"), "cache[2].inclusion", "exclusive, neither"),
    "lines that shrink": (put("cache.1.line_bytes", 64), "cache[1].line_bytes = 64", "nearest: 128"),
    "too small for what it includes": (
        all_of(put("cache.0.size_bytes", 1 << 20), put("cache.1.size_bytes", 1310720)),
        "cache[1].size_bytes = 1310720", "nearest: 2097152"),
    "shared by too many": (put("cache.2.shared_by", 3), "cache[2].shared_by = 3", "nearest: 2"),
    "shared by fewer than nearer ones": (put("cache.2.shared_by", 1), "cache[2].shared_by = 1", "nearest: 2"),
    "memories and cores": (put("memory.shared_by", 4), "memory.shared_by = 4", "nearest: 2"),
    "an unknown replacement": (put("cache.0.replacement", "rlu"), "cache[0].replacement", "did you mean 'lru'"),
    "a tree over ten ways": (put("cache.1.replacement", "tree-plru"), "cache[1].ways = 10", "nearest: 8"),
    "an unknown inclusion": (put("cache.2.inclusion", "exlusive"), "cache[2].inclusion", "did you mean 'exclusive'"),
    "inclusion of nothing": (put("cache.0.inclusion", "exclusive"), "cache[0].inclusion", "leave it out"),
    "no inclusion": (put("cache.1.inclusion", None), "cache[1].inclusion", '"inclusive", "exclusive" or "neither"'),
    "a far cache that is faster": (put("cache.2.latency_cycles", 3), "cache[2].latency_cycles = 3", "at least"),
    "memory that is faster": (put("memory.latency_ns", 10), "memory.latency_ns = 10", "at least"),
    "a tier that is faster": (put_tiers((1, 10, 0.5)), "memory.tier[0].latency_ns = 1", "at least"),
    "tiers of more than all pages": (put_tiers((300, 10, 0.5), (400, 10, 0.6)), "memory.tier[].share", "1 at most"),
    "a share beyond all pages": (put_tiers((300, 10, 1.5)), "memory.tier[0].share.value", "from 0 to 1"),
    "banks without time": (put("memory.banks", 8), "memory.bank_interleave_bytes", "missing"),
    "far memory of all": (put("memory.remote_ns", 50), "memory.shared_by", "missing"),
    "linked hubs with one memory": (all_of(*linked_hubs()), "memory.remote_ns", "missing"),
    "routers without shape": (
        all_of(put("memory.shared_by", 1), put("memory.remote_ns", 50), *linked_hubs(topology="torus")),
        "links.shape", "numbers"),
    "more hubs than memories": (
        all_of(put("cores", 32), put("memory.shared_by", 1), put("memory.remote_ns", 50), *linked_hubs()),
        "memory.shared_by = 1", "nearest: 2"),
    "no transfers": (put("transfers", None), "transfers.shared_cycles", "missing"),
    "pages of no power": (put("pages.page_bytes", 5000), "pages.page_bytes = 5000", "nearest: 4096"),
    "a TLB's ways": (put("pages.tlb.1.ways", 3), "pages.tlb[1].ways = 3", "nearest: 2"),
    "prefetching into nowhere": (put("prefetcher.level", 3), "prefetcher.level = 3", "nearest: 2"),
    "too many streams": (put("prefetcher.streams", 64), "prefetcher.streams = 64", "nearest: 63"),
    "an unknown topology": (put("network.topology", "tors"), "network.topology.value", "did you mean 'torus'"),
    "a shape that is not one": (put("network.shape", [4, 4]), "network.shape", "leave it out"),
    "a torus without shape": (put("network.topology", "torus"), "network.shape", "numbers"),
    "a torus too small": (
        all_of(put("network.topology", "torus"), put("network.shape", [5, 4, 2])), "max_nodes = 256", "nearest: 40"),
    "a dragonfly of two numbers": (
        all_of(put("network.topology", "dragonfly"), put("network.shape", [4, 4])), "network.shape", "3 numbers"),
    "a hypercube of no power": (
        all_of(put("network.topology", "hypercube"), put("network.max_nodes", 48)), "max_nodes = 48", "nearest: 32"),
    "an unknown policy": (put("nic.policy", "header_l2"), "nic.policy", "did you mean 'header-l2'"),
    "a policy without its cache": (
        all_of(put("cache", values("power5-redstorm")["cache"][:2]), put("nic.policy", "payload-l3")),
        "nic.policy = 'payload-l3'", "header-l2"),
    "ways of no policy": (put("nic.policy_ways", 2), "'nic.policy'", "missing"),
    "more ways than there are": (
        all_of(put("nic.policy", "ddio"), put("nic.policy_ways", 20)), "nic.policy_ways = 20", "nearest: 12"),
    "a network without NIC": (put("nic", None), "'nic'", "missing"),
    "an unknown protocol": (put("messaging.network", "zerocopy"), "messaging.network", "did you mean 'zero-copy'"),
    "a protocol without its limit": (put("messaging.ring_bytes", None), "messaging.ring_bytes", "copy-in-copy-out"),
    "no protocol": (put("messaging.node", None), "messaging.node", "missing"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_named(mistake: str, tmp_path: Path) -> None:
    """Does the error name the file, the key, and the nearest valid choice?"""
    edit, key, choice = MISTAKES[mistake]
    machine = values("power5-redstorm")
    edit(machine)
    message = refusal(machine, tmp_path)
    assert key in message and choice in message, message
    assert all(len(line) < 400 for line in message.splitlines()), message


def test_all_mistakes_are_reported_at_once(tmp_path: Path) -> None:
    """Misspelt and missing keys, wrong values and kinds, and what does not go together, in one error, each once?"""
    machine = values("power5-redstorm")
    for edit in (
        put("cores", None), put("core.clock_ghz", 300), put("core.outstanding_misses", None), put("cache.1.way", 4),
        put("cache.1.ways", None), put("cache.0.size_bytes", 32000), put("transfers", None), put("nic", None),
        put("messaging.ring_bytes", None),
    ):  # fmt: skip
        edit(machine)
    machine["cores"] = 40
    machine["memory"]["latency_ns"] = {"value": "139 ns"}
    del machine["schema_version"]
    lines = refusal(machine, tmp_path).splitlines()
    for words in (
        "12 mistakes",
        "the key 'schema_version' is missing: it is 1",
        'cores = 40: must be { value = a whole number from 1 to 1048576, source = "where that is from" }',
        "core.clock_ghz.value = 300: must be a number from 0.001 to 100",
        "the key 'core.outstanding_misses' is missing: it is { value = a whole number",
        "unknown key 'cache[1].way': did you mean 'ways'?",
        "memory.latency_ns.value = '139 ns': must be a number from 0",
        "memory.latency_ns: there must be a source",
        "cache[0].size_bytes = 32000: not divisible",
        "the key 'transfers.shared_cycles' is missing",
        "the key 'transfers.remote_cycles' is missing",
        "the key 'nic' is missing, required with [network]",
        "the key 'messaging.ring_bytes' is missing, required with node copy-in-copy-out",
    ):
        assert sum(words in line for line in lines) == 1, (words, lines)
    assert len(lines) == 13, lines


@pytest.mark.parametrize("wrong", ["cores", "cache.0.ways", "cache.1.shared_by", "memory.latency_ns", "core.clock_ghz"])
def test_one_mistake_hides_no_other(wrong: str, tmp_path: Path) -> None:
    """Where one value is wrong, is each contradiction between others still reported in the same error?"""
    others = {
        "transfers.shared_cycles' is missing": put("transfers", None),
        "cache[1].line_bytes = 192": put("cache.1.line_bytes", 192),
        "cache[2].size_bytes = 12345": put("cache.2.size_bytes", 12345),
        "pages.page_bytes = 5000": put("pages.page_bytes", 5000),
        "memory.bank_interleave_bytes' is missing": put("memory.banks", 8),
        "network.max_nodes = 300": all_of(
            put("network.topology", "torus"), put("network.shape", [4, 4]), put("network.max_nodes", 300)
        ),
        "messaging.ring_bytes' is missing": put("messaging.ring_bytes", None),
    }
    machine = values("power5-redstorm")
    all_of(*others.values(), put(wrong, "x"))(machine)
    message = refusal(machine, tmp_path)
    assert f"{wrong.replace('.0', '[0]').replace('.1', '[1]')}.value = 'x'" in message
    assert [words for words in others if words not in message] == [], message


MAKES_NEEDED: dict[str, list[Edit]] = {
    "transfers.remote_cycles": [put("cache.1.shared_by", 1), put("cache.2.shared_by", 1)],
    "memory.shared_by": [put("memory.remote_ns", 50)],
    "memory.remote_ns": [put("memory.shared_by", 1), *linked_hubs()],
    "memory.banks": [put("memory.bank_busy_ns", 50)],
    "memory.bank_interleave_bytes": [put("memory.banks", 8)],
    "memory.bank_busy_ns": [put("memory.banks", 8)],
    "nic.policy": [put("nic.policy_ways", 2)],
    "messaging.eager_bytes": [put("messaging.network", "buffered")],
    "messaging.register_ns": [put("messaging.network", "eager-rendezvous")],
    "messaging.system_call_ns": [put("messaging.node", "single-copy")],
}  # key -> how power5-redstorm comes to need it, where it does not already
# By their keys; by what a file of nothing says.
CHECKED_OTHERWISE = {"transfers", "communication", "network.shape", "links.shape"}


def needed_keys(model: Any = DescribedMachine, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Keys that may be absent and must be there somewhere, and where, by the schema."""
    for name, info in model.model_fields.items():
        key, inner = f"{prefix}{name}", inner_table(info)
        if where := requirement_of(info):
            yield key, where
        if inner:
            yield from needed_keys(inner, f"{key}.1." if key == "cache" else f"{key}.")


@pytest.mark.parametrize(("key", "where"), [pair for pair in needed_keys() if pair[0] not in CHECKED_OTHERWISE])
def test_a_key_is_required_where_the_page_says(key: str, where: str, tmp_path: Path) -> None:
    """Do the checks ask for each key that docs/reference/machine.md says is required somewhere, in the page's words?"""
    machine = values("power5-redstorm")
    for edit in MAKES_NEEDED.get(key, []):
        edit(machine)
    *outer, last = key.split(".")
    table: Any = machine
    for part in outer:
        table = table[int(part)] if part.isdecimal() else table[part]
    table.pop(last, None)
    name = key.replace("cache.1.", "cache[1].")
    assert f"the key '{name}' is missing, required {where}: it is " in refusal(machine, tmp_path)
    page = (ROOT / "docs/reference/machine.md").read_text()
    row = next(line for line in page.splitlines() if line.startswith(f"| `{key.replace('.1.', '[].')}"))
    assert f"| {where} |" in row


def test_an_inclusive_cache_may_have_any_number_of_children(tmp_path: Path) -> None:
    """Is a cache over more than 16 cores as good as one over two?"""
    machine = values("power5-redstorm")
    for edit in (put("cores", 32), put("cache.1.shared_by", 32), put("cache.2.shared_by", 32)):
        edit(machine)
    assert to_native(load_content(machine, tmp_path)).caches[1].shared_by == 32


def test_a_machine_of_messages_only_is_not_simulated(tmp_path: Path) -> None:
    """Is a file with nothing but [communication] right for plans, and refused, with what it lacks, elsewhere?"""
    every = values("t3e-900")
    names = ("schema_version", "name", "title", "study", "communication")
    machine = load_content({key: every[key] for key in names}, tmp_path)
    assert not machine.is_simulable and compare_with_file(machine) == []
    with pytest.raises(UsageError) as caught:
        to_native(machine)
    assert "[core]" in caught.value.message


def test_a_file_of_nothing_is_refused(tmp_path: Path) -> None:
    every = values("t3e-900")
    message = refusal({key: every[key] for key in ("schema_version", "name", "title", "study")}, tmp_path)
    assert "[communication]" in message and "[[cache]]" in message


def test_no_file(tmp_path: Path) -> None:
    """Is each a UsageError: a folder, an impossible name, a missing file?"""
    (tmp_path / "folder.toml").mkdir()
    for name in (str(tmp_path / "folder.toml"), "a\0b.toml", "x" * 5000 + ".toml", "nowhere.toml", "", "lee3"):
        with pytest.raises(UsageError) as caught:
            load_machine(name)
        assert caught.value.remedy
    assert "'leo3'" in caught.value.remedy


@pytest.mark.parametrize(
    ("title", "cores", "caches", "name"),
    [("Graviton4: 96 Neoverse V2 cores", 96, [64 << 10, 2 << 20, 36 << 20], "grace"),
     ("EPYC with CXL", 128, [48 << 10, 1 << 20, 32 << 20], "epyc-9755"),
     ("", 100, [48 << 10, 2 << 20, 100 << 20], "xeon-8470"), ("", 8, [32 << 10, 256 << 10, 8 << 20], "fusion")],
)  # fmt: skip
def test_a_wrong_file_is_answered_with_the_machine_that_is_like_it(
    title: str, cores: int, caches: list[int], name: str, tmp_path: Path
) -> None:
    """Does the remedy name a machine of as many cores, such caches and that architecture to start from?"""
    with pytest.raises(ProfileError) as caught:
        load_content(
            {"title": title, "cores": cores, "cache": [{"size_bytes": {"value": size}} for size in caches]}, tmp_path
        )
    assert caught.value.remedy.endswith(f"machine new --from {name}")


def test_a_chosen_number_of_a_users_file_needs_no_claims(tmp_path: Path) -> None:
    """Is it enough to say why a number was chosen, and is the machine the same when it is written and read again?"""
    machine = values("leo3")
    put("memory.latency_ns", {"value": 90, "kind": "chosen", "reason": "of the data sheet of the next one"})(machine)
    read = load_content(machine, tmp_path)
    assert read.memory.latency_ns.claims is None
    assert load_content(to_toml(read), tmp_path) == read


# ---- mutations


WEIRD = [-1, 0, 1, 3, 7, 1 << 70, -(1 << 70), 0.5, 1e308, -0.0, float("inf"), float("nan"), True, "", "lru",
         "ful", "é" * 50, [], [0], [1, 2, 3], [[1]], {}, {"value": 1}, {"value": []}]  # fmt: skip


def places(table: Any) -> Iterator[tuple[Any, Any]]:
    """(table or list, key or index) of everything inside."""
    for key in list(table) if isinstance(table, dict) else range(len(table)):
        yield table, key
        if isinstance(table[key], (dict, list)):
            yield from places(table[key])


def mutated_values(name: str, rng: random.Random) -> bytes:
    machine = values(name)
    for _ in range(rng.randint(1, 3)):
        table, key = rng.choice(list(places(machine)))
        action = rng.choice(("set", "set", "set", "remove", "rename", "scale"))
        if action == "remove":
            del table[key]
        elif action == "rename" and isinstance(table, dict):
            table[key[1:] + key[:1]] = table.pop(key)
        elif action == "scale" and type(table[key]) in (int, float):
            table[key] = table[key] * rng.choice((2, 3, -1)) + rng.choice((0, 1))
        else:
            table[key] = copy.deepcopy(rng.choice(WEIRD))
    try:
        return tomlkit.dumps(machine).encode()
    except Exception:  # tomlkit cannot write lists of everything
        return repr(machine).encode()


def mutated_bytes(name: str, rng: random.Random) -> bytes:
    content = bytearray(FILES[name].read_bytes())
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(content))
        action = rng.randrange(4)
        if action == 0:
            content[at] = rng.randrange(256)
        elif action == 1:
            del content[at : at + rng.randint(1, 40)]
        elif action == 2:
            content[at:at] = rng.choice((b"=", b"[", b"]", b'"', b"\n", b"{", b"\0", b"9" * 5000, b"[" * 3000, b"e99"))
        else:
            other = rng.randrange(len(content))
            content[at:at] = content[other : other + rng.randint(1, 200)]
    return bytes(content)


@pytest.mark.parametrize("seed", range(40))
def test_whatever_a_file_holds_it_is_fine_or_refused(seed: int, tmp_path: Path) -> None:
    """Values, keys and bytes changed at random, ten files a seed: is each either a machine, which can be made native
    and written again, or an error that a user can act on?"""
    rng = random.Random(seed)
    for _ in range(10):
        content = rng.choice((mutated_values, mutated_bytes))(rng.choice(list(FILES)), rng)
        try:
            machine = load_content(content, tmp_path)
        except NearfieldError as error:
            assert isinstance(error, (ProfileError, UsageError)) and "mine.toml" in error.message
            assert all(len(line) < 1000 for line in error.message.splitlines())
            continue
        if machine.is_simulable:
            to_native(machine)
        assert load_content(to_toml(machine), tmp_path) == machine
