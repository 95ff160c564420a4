"""Is the comment of a pull request written once, replaced later, and a refusal no failure? A server on this machine
answers as GitHub's API does."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

POST = Path(__file__).parents[2] / "packaging/github-action/post"
MARKER = "<!-- nearfield: compare and advise -->"


class Comments(ThreadingHTTPServer):
    """The comments of pull request 7 of owner/app, in pages, for holders of the token."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answers)
        self.comments: list[dict[str, Any]] = []
        self.may_write = True

    def add(self, body: str, kind: str) -> None:
        self.comments.append({"id": 100 + len(self.comments), "user": {"type": kind}, "body": body})


class Answers(BaseHTTPRequestHandler):
    server: Comments

    def answer(self, status: int, data: object) -> None:
        body = json.dumps(data).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def body(self) -> str:
        return str(json.loads(self.rfile.read(int(self.headers["Content-Length"])))["body"])

    def do_GET(self) -> None:
        path, _, query = self.path.partition("?")
        if path != "/repos/owner/app/issues/7/comments" or self.headers["Authorization"] != "Bearer secret":
            return self.answer(404, {})
        words = dict(word.split("=") for word in query.split("&"))
        size, page = int(words["per_page"]), int(words["page"])
        return self.answer(200, self.server.comments[size * (page - 1) : size * page])

    def do_POST(self) -> None:
        text = self.body()
        if not self.server.may_write or self.path != "/repos/owner/app/issues/7/comments":
            return self.answer(403, {})
        self.server.add(text, "Bot")
        return self.answer(201, {})

    def do_PATCH(self) -> None:
        text, (head, _, number) = self.body(), self.path.rpartition("/")
        if not self.server.may_write or head != "/repos/owner/app/issues/comments":
            return self.answer(403, {})
        next(one for one in self.server.comments if one["id"] == int(number))["body"] = text
        return self.answer(200, {})

    def log_message(self, *words: object) -> None:
        pass


@pytest.fixture
def github() -> Iterator[Comments]:
    with Comments() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def post(github: Comments, folder: Path, text: str, token: str = "secret") -> str:
    (folder / "comment.md").write_text(text)
    variables = {"GITHUB_API_URL": f"http://127.0.0.1:{github.server_address[1]}", "GITHUB_REPOSITORY": "owner/app"}
    done = subprocess.run(
        [POST, "7", folder / "comment.md"], env={**os.environ, **variables, "GH_TOKEN": token, "no_proxy": "127.0.0.1"},
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_comment_is_written_once_and_then_replaced(github: Comments, tmp_path: Path) -> None:
    """Are comments of others left alone, also those of people who quote the first line, on any page?"""
    for number in range(130):
        github.add(f"comment {number}", "Bot")
    github.add(f"{MARKER}\nquoted", "User")
    others = [dict(one) for one in github.comments]
    assert post(github, tmp_path, f"{MARKER}\nfirst \u00e9\n") == ""
    assert post(github, tmp_path, f"{MARKER}\nsecond\n") == ""
    assert github.comments[:-1] == others and github.comments[-1]["body"] == f"{MARKER}\nsecond\n"


def test_a_refusal_is_a_warning(github: Comments, tmp_path: Path) -> None:
    """Does a token that may only read, or none that is valid, leave the job green with a warning?"""
    github.may_write = False
    assert "::warning::the comment is in the summary of the job only" in post(github, tmp_path, f"{MARKER}\nx\n")
    assert "404" in post(github, tmp_path, f"{MARKER}\nx\n", token="other") and not github.comments
