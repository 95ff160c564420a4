"""Does `nearfield rewrite --report` write one page with both versions of each place, the reason, and what stays?"""

import html
import re
from pathlib import Path

from typer.testing import CliRunner

from nearfield.cli.verbs import app

LISTING = Path(__file__).parents[1] / "programs" / "listing1.c"


def test_the_page_has_both_versions_and_the_reason(tmp_path: Path) -> None:
    page, words = tmp_path / "page.html", ["rewrite", str(LISTING), "--report"]
    assert CliRunner().invoke(app, [*words, str(page)]).exit_code == 0
    text = page.read_text()
    assert not re.search(r"(src|href)=\"(?!#|data:)", text), "it needs nothing else"
    first = text.split("<details")[0]
    old, new = (
        html.unescape(" ".join(re.findall(rf'<td class="{kind}"><code>(.*?)</code>', first)))
        for kind in ("gone", "new")
    )
    assert "for (unsigned i = 0; i < ROWS-1; ++i)" in old and "i = 1; i < ROWS - 1; ++i)" in new
    assert "Sends while the data are in the cache" in first and "<dt>conditions</dt><dd>ROWS &gt;= 3" in first
    assert "the integer set library, proves it" in first, "it says what proves an order"
    lines = re.findall(r'<td class="number (?:gone|new)">([-+])</td>', first)
    assert lines.count("+") == 6 and lines.count("-") == 1, "a narrow screen has both versions in one column"
    assert all(f"Also legal here: {name}" in text for name in ("overlap", "late-receive", "reverse"))


def test_the_page_says_what_stays_and_why(tmp_path: Path) -> None:
    source, page = tmp_path / "step.c", tmp_path / "page.html"
    source.write_text(
        "#include <mpi.h>\nvoid step(int n, double *a, double *b) {\n"
        "MPI_Sendrecv(a, n, MPI_DOUBLE, 0, 0, b, n, MPI_DOUBLE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);\n"
        "for (int i = 0; i < n; i++) b[i] = a[i] < 1;\n}\n"
    )
    assert CliRunner().invoke(app, ["rewrite", str(source), "--report", str(page)]).exit_code == 0
    text = page.read_text()
    assert "communication stays where it is" in text and "may overlap" in text and "--assume-noalias a,b" in text
