"""A hub on loopback that can cut a transfer short, refuse, and move a branch; it counts what it was asked for."""

from __future__ import annotations

import hashlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

NAME = "someone/small"


class FakeHub:
    def __init__(self) -> None:
        self.commits: dict[str, dict[str, bytes]] = {}  # commit -> its files
        self.branches: dict[str, str] = {}
        self.requests: list[str] = []
        self.cut: set[str] = set()  # files whose transfer ends in the middle
        self.status = 200  # of whatever is asked for
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), handler_of(self))
        self.address = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def push(self, files: dict[str, bytes], branch: str = "main") -> str:
        commit = hashlib.sha1(repr(sorted(files.items())).encode()).hexdigest()
        self.commits[commit], self.branches[branch] = files, commit
        return commit

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


def handler_of(hub: FakeHub) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            path = unquote(urlsplit(self.path).path)
            hub.requests.append(f"{self.command} {path}")
            api, resolve = f"/api/models/{NAME}/", f"/{NAME}/resolve/"
            if hub.status != 200:
                self.answer(b"{}", hub.status)
            elif path.startswith(api + "revision/"):
                self.revision(path.removeprefix(api + "revision/"))
            elif path.startswith(api + "tree/"):
                self.tree(path.removeprefix(api + "tree/"))
            elif path.startswith(resolve):
                self.file(*path.removeprefix(resolve).split("/", 1))
            else:
                self.answer(b"{}", 404, {"X-Error-Code": "RepoNotFound"})

        do_HEAD = do_GET

        def revision(self, revision: str) -> None:
            commit = hub.branches.get(revision, revision)
            if commit not in hub.commits:
                return self.answer(b"{}", 404, {"X-Error-Code": "RevisionNotFound"})
            siblings = [{"rfilename": name} for name in hub.commits[commit]]
            self.answer(json.dumps({"id": NAME, "sha": commit, "siblings": siblings}).encode())

        def tree(self, commit: str) -> None:
            files = hub.commits[commit].items()
            rows = [{"type": "file", "path": name, "size": len(data), "oid": oid(data)} for name, data in files]
            self.answer(json.dumps(rows).encode())

        def file(self, commit: str, name: str) -> None:
            data = hub.commits[commit][name]
            headers = {"ETag": f'"{oid(data)}"', "X-Repo-Commit": commit, "Accept-Ranges": "bytes"}
            if self.command == "GET" and name in hub.cut:
                return self.cut_short(data, headers)
            start = self.headers.get("Range", "bytes=0-").removeprefix("bytes=").split("-")[0]
            if self.command == "GET" and int(start):
                headers["Content-Range"] = f"bytes {start}-{len(data) - 1}/{len(data)}"
                return self.answer(data[int(start) :], 206, headers)
            self.answer(data, 200, headers)

        def cut_short(self, data: bytes, headers: dict[str, str]) -> None:
            self.send_response(200)
            for name, value in (headers | {"Content-Length": str(len(data))}).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data[: len(data) // 2])
            self.close_connection = True

        def answer(self, body: bytes, status: int = 200, headers: dict[str, str] | None = None) -> None:
            self.send_response(status)
            for name, value in ({"Content-Length": str(len(body))} | (headers or {})).items():
                self.send_header(name, value)
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    return Handler


def oid(data: bytes) -> str:
    return hashlib.sha1(data).hexdigest()
