"""Headless Chromium, driven by its DevTools protocol over a pipe."""

import contextlib
import fcntl
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))),
    None,
)
_FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe")


class Browser:
    """One page of a browser.

    Attributes:
      errors: messages of the page's console, exceptions and failed requests.
    """

    def __init__(self, reading: int, writing: int):
        self._reading, self._writing = reading, writing
        self._rest, self._number, self._session = b"", 0, None
        self._events: list[str] = []
        self.errors: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._writing, json.dumps(message).encode() + b"\0")
        while True:
            reply = self._next()
            if reply.get("id") == self._number:
                assert "error" not in reply, (method, reply)
                return reply["result"]

    def open(self, page: Path | str, width: int, scheme: str = "light") -> None:
        """Open a file or an address, in a window of a width and a colour scheme."""
        self.errors.clear()
        self.resize(width)
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self.call("Emulation.setEmulatedMedia", media="screen", features=[feature])
        self._events.clear()
        url = page if isinstance(page, str) else page.as_uri()
        self.call("Page.navigate", url=url)
        while "Page.loadEventFired" not in self._events:
            self._next()

    def resize(self, width: int) -> None:
        size = {"width": width, "height": 900, "deviceScaleFactor": 1}
        self.call("Emulation.setDeviceMetricsOverride", **size, mobile=False)

    def evaluate(self, script: str) -> Any:
        reply = self.call("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in reply, reply["exceptionDetails"]
        return reply["result"].get("value")

    def press(self, key: str, code: int) -> None:
        text = {"text": "\r"} if key == "Enter" else {}
        keys = {"key": key, "code": key, "windowsVirtualKeyCode": code}
        self.call("Input.dispatchKeyEvent", type="keyDown", **keys, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", **keys)

    def _next(self, patience: float = 30) -> dict[str, Any]:
        """Return the next message, and note events and errors."""
        end = time.monotonic() + patience
        while b"\0" not in self._rest:
            left = max(end - time.monotonic(), 0)
            ready, _, _ = select.select([self._reading], [], [], left)
            part = os.read(self._reading, 1 << 20) if ready else b""
            assert part, "Chromium says nothing"
            self._rest += part
        line, _, self._rest = self._rest.partition(b"\0")
        message = json.loads(line)
        method, params = message.get("method"), message.get("params", {})
        self._events.append(method)
        if method == "Runtime.exceptionThrown":
            self.errors.append(params["exceptionDetails"]["text"])
        elif method == "Runtime.consoleAPICalled" and params["type"] == "error":
            self.errors.append(str(params["args"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.errors.append(params["entry"]["text"])
        elif method == "Network.loadingFailed":
            self.errors.append(params["errorText"])
        return message


@contextlib.contextmanager
def started() -> Iterator[Browser]:
    """Start Chromium, and end it with all it has written."""
    ours, theirs = os.pipe(), os.pipe()
    # The protocol's descriptors are 3 and 4; copies above them are in no one's way.
    reads, writes = (fcntl.fcntl(fd, fcntl.F_DUPFD, 10) for fd in (ours[0], theirs[1]))
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        script = f'exec "$0" "$@" 3<&{reads} 4>&{writes}'
        flags = [*_FLAGS, f"--user-data-dir={folder}"]
        process = subprocess.Popen(
            ["bash", "-c", script, str(CHROMIUM), *flags],
            pass_fds=(reads, writes),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for fd in (ours[0], theirs[1], reads, writes):
            os.close(fd)
        try:
            yield Browser(theirs[0], ours[1])
        finally:
            process.terminate()
            process.wait(timeout=30)
            os.close(theirs[0])
            os.close(ours[1])
