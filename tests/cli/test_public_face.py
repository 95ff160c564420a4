"""Is what strangers see whole: README, pages, links, manual pages, versions, the picture?"""

from __future__ import annotations

import importlib
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import interrupting
import pytest
from doc_consoles import PAGES, ROOT

from nearfield.cli.help import VERBS, VERBS_BY_TASK

DOCS = ROOT / "docs"
LONGEST = 120  # lines of the README
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
OTHER_FILES = ("CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")


def script(name: str) -> ModuleType:
    """Returns a script of docs/."""
    sys.path.insert(0, str(DOCS))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(DOCS))


def generated() -> dict[str, str]:
    return {f"docs/{name}": text for name, text in script("generate_reference").site_pages().items()}


def text_of(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def anchors(text: str) -> set[str]:
    """Returns the anchors of a page's headings, as MkDocs makes them."""
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)
    titles = re.findall(r"^#+ (.*)$", prose, re.MULTILINE)
    return {re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", title).strip().lower()) for title in titles}


def named_by_nav() -> list[str]:
    """Returns the pages that mkdocs.yml names, without reading YAML, for which nearfield needs no package."""
    nav = text_of("mkdocs.yml").partition("\nnav:\n")[2]
    return [f"docs/{name}" for name in re.findall(r": ([\w/-]+\.md)$", nav, re.MULTILINE)]


def test_the_readme_is_short() -> None:
    """Can a stranger read it to its end?"""
    assert len(text_of("README.md").splitlines()) <= LONGEST


def test_the_readme_names_what_a_stranger_looks_for() -> None:
    """Are the first command, the way to one's own program and the halo library in it, in this order?"""
    text = text_of("README.md")
    places = [text.index(word) for word in ("make demo", "nearfield doctor", "nearfield tune", "nearfield compare",
              "nearfield run", "nearfield::Grid", "docs/tutorials/halo.md", "include/nearfield/halo.h")]  # fmt: skip
    assert places == sorted(places)
    rows = [
        re.findall(r"`([a-z]+)`", cells[2])
        for cells in (line.split("|") for line in text.splitlines())
        if len(cells) == 5
    ]
    assert sorted(filter(None, rows)) == sorted(map(list, VERBS_BY_TASK.values())), "the help has other tasks"


def test_every_verb_is_interrupted() -> None:
    """Is each verb among those that tests end at random moments? `cxx` and `fc` do what `cc` does."""
    assert {one.words.split()[0] for one in interrupting.VERBS.values()} >= {*VERBS} - {"cxx", "fc"}


def test_the_page_of_scenarios_is_complete() -> None:
    """Does it list each live scenario, the one that is only simulated, and no other?"""
    files = (ROOT / "src" / "probe" / "scenarios").glob("*.cpp")
    listed = re.findall(r"^\| `([a-z-]+)` \|", text_of("docs/reference/scenarios.md"), re.MULTILINE)
    assert sorted(listed) == sorted([*(file.stem.replace("_", "-") for file in files), "node-collective"])


def test_the_navigation_names_every_page() -> None:
    """Is there no page that nobody finds, and no entry without a page?"""
    pages = [page for page in PAGES if page.startswith("docs/")]
    assert sorted(named_by_nav()) == sorted([*pages, *generated()])


@pytest.mark.parametrize("page", [*PAGES, *OTHER_FILES])
def test_every_link_leads_somewhere(page: str) -> None:
    """Is there a file, and in it the heading, for each link to another page?"""
    made = generated()
    for target in LINK.findall(re.sub(r"^```.*?^```$", "", text_of(page), flags=re.DOTALL | re.MULTILINE)):
        if target.startswith(("https://", "http://")):
            continue
        name, _, anchor = target.partition("#")
        path = (ROOT / page).parent / name if name else ROOT / page
        relative = str(path.resolve().relative_to(ROOT))
        assert path.exists() or relative in made, f"{page} links to {target}"
        if anchor and not (relative == "docs/reference/python.md" and anchor.startswith("nearfield.")):
            assert anchor in anchors(made.get(relative) or text_of(relative)), f"{page} links to {target}"


def test_the_sources_name_pages_that_exist() -> None:
    """Does every hint, comment and file that names a page of docs/ name one that is there?"""
    made = set(generated())
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, timeout=30)
    if listed.returncode:
        pytest.skip("not in a git working copy")
    wrong = []
    for name in listed.stdout.splitlines():
        path = ROOT / name
        if path.suffix in (".parquet", ".png", ".gz") or name == "CHANGELOG.md" or not path.is_file():
            continue
        for page in re.findall(r"\bdocs/[\w/-]+\.md\b", path.read_text(encoding="utf-8", errors="replace")):
            if page not in made and not (ROOT / page).is_file():
                wrong.append(f"{name}: {page}")
    assert not wrong


def test_there_is_one_version() -> None:
    """Is it stated in halo.h only, and does CITATION.cff agree?"""
    header = text_of("include/nearfield/halo.h")
    numbers = re.findall(r"#define NEARFIELD_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)\n", header)
    version = ".".join(numbers)
    assert len(numbers) == 3 and re.search(rf"^version: {re.escape(version)}$", text_of("CITATION.cff"), re.MULTILINE)
    assert 'dynamic = ["version"]' in text_of("pyproject.toml")
    assert "project(nearfield VERSION ${version} " in text_of("CMakeLists.txt")
    assert version not in text_of("pyproject.toml") and version not in text_of("CMakeLists.txt")


def test_every_command_has_a_manual_page() -> None:
    """Do the pages name every verb, and does groff read them without a complaint?"""
    pages = script("generate_reference").manual_pages()
    assert {"nearfield.1", "nearfield-simulate-run.1", *(f"nearfield-{verb}.1" for verb in VERBS)} <= set(pages)
    if shutil.which("groff") is None:
        return
    for name, text in pages.items():
        done = subprocess.run(
            ["groff", "-man", "-ww", "-z", "-Tutf8"], input=text, capture_output=True, text=True, timeout=30
        )
        assert done.returncode == 0 and not done.stderr, f"{name}: {done.stderr}"


def test_the_halo_interfaces_are_whole() -> None:
    """Does the page of each language have every function, class and procedure that its header has?"""
    made = generated()
    functions = set(re.findall(r"NF_API .*?\b(nf_\w+)\(", text_of("include/nearfield/halo.h"), re.DOTALL))
    assert not [name for name in functions if f"{name}(" not in made["docs/reference/halo-c.md"]]
    header = text_of("include/nearfield/halo.hpp")
    types = set(re.findall(r"^(?:class|struct) (\w+)", header.partition("namespace nearfield {")[2], re.MULTILINE))
    assert not [name for name in types - {"Cell"} if f"`{name}`" not in made["docs/reference/halo-cpp.md"]]
    assert "first_" not in made["docs/reference/halo-cpp.md"], "a private member is shown"
    for name in ("grid%create", "grid%exchange", "field%create", "field%cells"):
        assert f"`{name}`" in made["docs/reference/halo-fortran.md"]


def test_the_picture_shows_the_table() -> None:
    """Is docs/images/gain.svg drawn from the table of today? (python docs/gain_picture.py)"""
    picture = script("gain_picture")
    assert (DOCS / "images/gain.svg").read_text(encoding="utf-8") == picture.picture()
    sizes, curves = picture.table()
    assert len(sizes) == 7 and len(curves) == 3 and all(len(gains) == len(sizes) for gains in curves.values())


def test_the_site_asks_no_other_host() -> None:
    """Do theme and pages load their fonts, scripts and pictures from the site itself?"""
    settings = text_of("mkdocs.yml")
    assert "font: false" in settings and "iframe-worker" in settings and "http" not in settings
    for page in PAGES:
        assert not re.search(r"!\[[^\]]*\]\(https?:|<(?:script|img|iframe|link)\b", text_of(page)), page


def test_what_a_repository_needs_is_there() -> None:
    for name in (*OTHER_FILES, "LICENSE", "CITATION.cff", ".editorconfig"):
        assert Path(ROOT / name).is_file(), name
