"""A hub on this machine: what huggingface_hub asks of the Hugging Face hub, in little.

It serves the model's description, the listing of its files, and the files with the headers that
name their content and their commit. Written from what huggingface_hub 1 and 2 send and read.
"""

import contextlib
import hashlib
import http.server
import json
import re
import socket
import struct
import threading
import urllib.parse


class FakeHub:
    """Repositories by name, then revision, then path, and a note of each request.

    Set between calls: `gated`, by repository the token without which its files are refused; `cut`,
    by path how the connection ends in the middle of the file (`"end"`: closed, or `"reset"`), and
    how many more times; `down`, whether every request fails.
    """

    def __init__(self, repositories):
        self.repositories = repositories
        self.requests = []
        self.gated = {}
        self.cut = {}
        self.down = False
        self.url = ""

    def commit(self, repository, revision):
        key = f"{repository}@{revision}".encode()
        return hashlib.sha1(key).hexdigest()

    def files(self, repository, revision):
        """The files of a revision or a commit, or None."""
        for name, files in self.repositories[repository].items():
            if revision in (name, self.commit(repository, name)):
                return self.commit(repository, name), files
        return None

    def fetched(self):
        """Paths whose content was sent since the last call of this, sorted."""
        paths = [path for method, path in self.requests if method == "GET" and "/resolve/" in path]
        self.requests.clear()
        return sorted(re.sub(r".*/resolve/[^/]+/", "", path) for path in paths)


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: FakeHub

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        path = urllib.parse.urlsplit(self.path).path
        self.hub.requests.append((self.command, urllib.parse.unquote(path)))
        if self.hub.down:
            return self.refuse(500, "", "out of order")
        asked = re.fullmatch(r"/api/models/([^/]+/[^/]+)(?:/(revision|tree)/([^/]+))?/?", path)
        if asked:
            repository, kind, revision = asked.groups()
            return self.describe(repository, kind, urllib.parse.unquote(revision or "main"))
        asked = re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path)
        if asked:
            return self.send_file(*map(urllib.parse.unquote, asked.groups()))
        return self.refuse(404, "", "no such page")

    def describe(self, repository, kind, revision):
        if repository not in self.hub.repositories:
            return self.refuse(401, "RepoNotFound", "Repository not found")
        found = self.hub.files(repository, revision)
        if found is None:
            return self.refuse(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        commit, files = found
        if kind == "tree":
            answer = [
                {"type": "file", "path": path, "size": len(content), "oid": etag(content)}
                for path, content in files.items()
            ]
        else:
            siblings = [{"rfilename": path} for path in files]
            answer = {"id": repository, "sha": commit, "siblings": siblings}
        return self.send(200, json.dumps(answer).encode(), {"Content-Type": "application/json"})

    def send_file(self, repository, revision, path):
        token = self.hub.gated.get(repository)
        if token and self.headers.get("Authorization") != f"Bearer {token}":
            return self.refuse(403, "GatedRepo", "Access to this model is restricted")
        found = self.hub.files(repository, revision)
        if found is None or path not in found[1]:
            return self.refuse(404, "EntryNotFound", "Entry not found")
        commit, content = found[0], found[1][path]
        headers = {"ETag": f'"{etag(content)}"', "X-Repo-Commit": commit, "Accept-Ranges": "bytes"}
        start = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        if start:
            first = int(start[1])
            headers["Content-Range"] = f"bytes {first}-{len(content) - 1}/{len(content)}"
            return self.send(206, content[first:], headers, path)
        return self.send(200, content, headers, path)

    def refuse(self, status, code, message):
        self.send(status, b"", {"X-Error-Code": code, "X-Error-Message": message})

    def send(self, status, content, headers, path=None):
        self.send_response(status)
        for name, value in ({"Content-Length": len(content)} | headers).items():
            self.send_header(name, str(value))
        self.end_headers()
        if self.command == "HEAD":
            return
        how, times = self.hub.cut.get(path, (None, 0))
        if not times:
            self.wfile.write(content)
            return
        self.hub.cut[path] = (how, times - 1)
        self.wfile.write(content[: len(content) // 2])
        self.wfile.flush()
        self.close_connection = True
        if how == "reset":
            linger = struct.pack("ii", 1, 0)
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            self.connection.close()

    def log_message(self, *arguments):
        pass


def etag(content):
    """The name that git gives a content, which is a small file's ETag on the hub."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


@contextlib.contextmanager
def serve(repositories):
    """Serves repositories (by name, revision and path, the bytes) on a free port of loopback."""
    hub = FakeHub(repositories)
    handler = type("Handler", (_Handler,), {"hub": hub})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    hub.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
