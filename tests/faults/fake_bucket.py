"""A bucket of Google Cloud Storage on this machine, for gcsfs, tensorstore and orbax.

It serves the part of the JSON interface that they use, conditions on generations
included: https://cloud.google.com/storage/docs/json_api/v1.
"""

import email
import itertools
import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

NAME = "bucket"
OBJECTS = re.compile(rf"(?:/upload|/download)?/storage/v1/b/{NAME}/o(?:/(.*))?")
MOVED = re.compile(rf"(.*)/(?:rewriteTo|copyTo|moveTo)(?:/b/{NAME})?/o/(.*)")


class FakeBucket(ThreadingHTTPServer):
    """The server; `contents` has a generation and the bytes of each object."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.contents: dict[str, tuple[int, bytes]] = {}
        self.uploads: dict[str, tuple[str, bytes]] = {}
        self.numbers = itertools.count(1)
        self.lock = threading.Lock()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def environment(self) -> dict[str, str]:
        """Variables with which clients write here instead of to Google."""
        address = f"http://127.0.0.1:{self.server_port}"
        return {
            "STORAGE_EMULATOR_HOST": address,
            "TENSORSTORE_GCS_HTTP_URL": address,
            "GOOGLE_AUTH_TOKEN_FOR_TESTING": "none",
            "GOOGLE_CLOUD_PROJECT": "none",
            "GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT": "false",  # asks another server
        }

    def describe(self, name: str) -> dict[str, str]:
        """Return what the interface calls the object's resource."""
        generation, content = self.contents[name]
        return {
            "kind": "storage#object",
            "bucket": NAME,
            "name": name,
            "size": str(len(content)),
            "generation": str(generation),
            "metageneration": "1",
            "updated": "2026-01-01T00:00:00.000Z",
            "timeCreated": "2026-01-01T00:00:00.000Z",
        }


class _Handler(BaseHTTPRequestHandler):
    server: FakeBucket
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        """Print nothing."""

    def handle_one(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        with self.server.lock:
            status, headers, answer = self.answer(self.command, self.path, body)
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(answer))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(answer)

    do_GET = do_POST = do_PUT = do_DELETE = handle_one

    def answer(self, method: str, url: str, body: bytes):
        parts, contents = urlsplit(url), self.server.contents
        query = {key: values[0] for key, values in parse_qs(parts.query).items()}
        if parts.path == "/batch/storage/v1":
            return self.batch(body)
        if parts.path == f"/storage/v1/b/{NAME}":
            return _json({"kind": "storage#bucket", "name": NAME})
        match = OBJECTS.fullmatch(parts.path)
        if match is None:
            return _json({}, 403 if "/b/private" in parts.path else 404)
        if match[1] is None:
            return self.list(query) if method == "GET" else self.upload(query, body)
        moved = MOVED.fullmatch(match[1]) if method == "POST" else None
        name, *target = map(unquote, moved.groups() if moved else [match[1]])
        generation, content = contents.get(name, (0, b""))
        if int(query.get("ifGenerationMatch", generation)) != generation:
            return _json({}, 412)
        if name not in contents:
            return _json({}, 404)
        if method == "DELETE":
            del contents[name]
            return 204, {}, b""
        if target:
            contents[target[0]] = next(self.server.numbers), content
            if "/moveTo/" in parts.path:
                del contents[name]
            resource = self.server.describe(target[0])
            return _json({"done": True, "resource": resource, **resource})
        if query.get("ifGenerationNotMatch") == str(generation):
            return 304, {}, b""
        if query.get("alt") != "media":
            return _json(self.server.describe(name))
        headers, size = {"x-goog-generation": str(generation)}, len(content)
        between = re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range") or "")
        if between is None:
            return 200, headers, content
        first, last = between.groups()
        start = int(first) if first else max(size - int(last), 0)
        end = min(int(last) + 1, size) if first and last else size
        headers["Content-Range"] = f"bytes {start}-{end - 1}/{size}"
        return (206, headers, content[start:end]) if start < size else _json({}, 416)

    def list(self, query: dict[str, str]):
        """List what begins with a prefix, up to a delimiter."""
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter")
        first, end = query.get("startOffset", ""), query.get("endOffset", "\U0010ffff")
        names = [name for name in self.server.contents if name.startswith(prefix)]
        names = sorted(name for name in names if first <= name < end)
        deeper = {
            prefix + name[len(prefix) :].split(delimiter)[0] + delimiter
            for name in names
            if delimiter and delimiter in name[len(prefix) :]
        }
        names = [n for n in names if not any(n.startswith(d) for d in deeper)]
        items = [self.server.describe(name) for name in names]
        return _json({"items": items, "prefixes": sorted(deeper)})

    def upload(self, query: dict[str, str], body: bytes):
        """Store an object that comes whole, in two parts, or piece by piece."""
        if "upload_id" in query:
            name, before = self.server.uploads[query["upload_id"]]
            self.server.uploads[query["upload_id"]] = name, before + body
            if self.headers.get("Content-Range", "").endswith("/*"):
                size = len(before + body)
                return 308, {"Range": f"bytes=0-{size - 1}"}, b""
            return self.store(name, before + body, {})
        if query["uploadType"] == "resumable":
            name = query.get("name") or json.loads(body)["name"]
            number = str(next(self.server.numbers))
            self.server.uploads[number] = name, b""
            address = f"http://{self.headers['Host']}{self.path}&upload_id={number}"
            return 200, {"Location": address}, b""
        if query["uploadType"] == "multipart":
            described, content = _parts(self.headers["Content-Type"], body)
            return self.store(json.loads(described)["name"], content, query)
        return self.store(query["name"], body, query)

    def store(self, name: str, content: bytes, query: dict[str, str]):
        """Store an object, unless another generation is expected."""
        generation, _ = self.server.contents.get(name, (0, b""))
        if int(query.get("ifGenerationMatch", generation)) != generation:
            return _json({}, 412)
        self.server.contents[name] = next(self.server.numbers), content
        return _json(self.server.describe(name))

    def batch(self, body: bytes):
        """Answer several requests, which are deletions."""
        answers = []
        for part in _parts(self.headers["Content-Type"], body):
            method, url, _ = part.split(b"\r\n")[0].decode().split(" ")
            status = self.answer(method, url, b"")[0]
            answers.append(
                "--answers\r\nContent-Type: application/http\r\n\r\n"
                f"HTTP/1.1 {status} -\r\nContent-Length: 0\r\n\r\n\r\n"
            )
        text = "".join(answers) + "--answers--\r\n"
        kind = "multipart/mixed; boundary=answers"
        return 200, {"Content-Type": kind}, text.encode()


def _json(value: object, status: int = 200):
    content = json.dumps(value).encode()
    return status, {"Content-Type": "application/json"}, content


def _parts(kind: str, body: bytes) -> list[bytes]:
    head = f"Content-Type: {kind}\r\n\r\n".encode()
    parts = email.message_from_bytes(head + body).get_payload()
    return [part.get_payload(decode=True) for part in parts]
