"""A judge server for tests and benchmarks: OpenAI-compatible, over real HTTP, on loopback.

In a test: ``with JudgeServer(latency_ms=200) as judge: ... judge.base_url``. As a process::

    python -m tests.stand_ins.judge_server --port 0 --print-port [--latency-ms N] [--fault NAME]

Serves /health, /version, /v1/models, /tokenize and /v1/chat/completions. ``POST /control``
switches ``fault`` (with ``times``: for the next N questions only), ``latency_ms``, ``retry_after``,
``content`` (said verbatim instead of an answer) and ``memo`` (how `memo_answers` answers) at run
time, or resets the counters with ``reset``; ``GET /counters`` reports connections, requests,
questions, pairs of tip and script asked about, distinct ones, and the highest number in flight. A
request may ask for its own fault by ``judge-fault=NAME`` in its text. Answers are those of
`judge_answers` and `memo_answers`: never a judgement. Shaped by patched HTTP libraries, which never
reset a connection in mid-body.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import json
import socket
import struct
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from tests.stand_ins import judge_faults, judge_protocol, memo_answers

SLOW_S = 1.0
DRIP_S = 0.05
COUNTED = (
    "connections",
    "requests",
    "questions",
    "pairs",
    "in_flight",
    "in_flight_max",
    "answered",
    "faults",
)


@dataclass
class Seen:
    """One chat request as it arrived."""

    headers: dict[str, str]
    body: bytes


@dataclass
class _State:
    model: str
    api_key: str | None
    max_model_len: int
    latency_ms: float
    fault: str | None
    times: int | None = None
    retry_after: str = "1"
    content: str | None = None
    memo: str = "honest"
    lock: threading.Lock = field(default_factory=threading.Lock)
    stopping: threading.Event = field(default_factory=threading.Event)
    counts: Counter[str] = field(default_factory=Counter)
    asked: set[str] = field(default_factory=set)
    seen: list[Seen] = field(default_factory=list)

    def fault_for(self, question: judge_protocol.Question) -> str | None:
        """Return the fault of this question; one that is scripted N times is used up."""
        with self.lock:
            name = question.fault or self.fault
            if name and not question.fault and self.times is not None:
                self.times -= 1
                if self.times <= 0:
                    self.fault, self.times = None, None
        return name

    def control(self, wanted: dict[str, Any]) -> None:
        """Apply a control message; raises ValueError on what it does not know."""
        fault = wanted.get("fault", self.fault)
        if fault is not None and fault not in judge_faults.NAMES:
            raise ValueError(f"unknown fault {fault!r}; known: {sorted(judge_faults.NAMES)}")
        if wanted.get("memo", self.memo) not in memo_answers.MODES:
            raise ValueError(f"unknown mode of memos {wanted['memo']!r}")
        known = {"fault", "times", "latency_ms", "retry_after", "content", "memo", "reset"}
        if unknown := wanted.keys() - known:
            raise ValueError(f"unknown control fields {sorted(unknown)}")
        with self.lock:
            self.fault = fault
            if "fault" in wanted:
                self.times = wanted.get("times")
            self.latency_ms = float(wanted.get("latency_ms", self.latency_ms))
            self.retry_after = str(wanted.get("retry_after", self.retry_after))
            self.content = wanted.get("content", self.content)
            self.memo = wanted.get("memo", self.memo)
            if wanted.get("reset"):
                self.counts.clear()
                self.asked.clear()
                self.seen.clear()

    def counters(self) -> dict[str, int]:
        """Return the counters, with the number of distinct (tip, script) pairs."""
        with self.lock:
            return {name: self.counts[name] for name in COUNTED} | {"distinct": len(self.asked)}

    @contextlib.contextmanager
    def in_flight(self) -> Any:
        """Count a question while it is being answered."""
        with self.lock:
            self.counts["in_flight"] += 1
            self.counts["in_flight_max"] = max(
                self.counts["in_flight_max"], self.counts["in_flight"]
            )
        try:
            yield
        finally:
            with self.lock:
                self.counts["in_flight"] -= 1


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # one packet a reply: else Nagle and the delayed ACK add 40 ms
    disable_nagle_algorithm = True
    server: _Server

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        state = self.server.state
        with state.lock:
            state.counts["requests"] += 1
        match self.path:
            case "/health":
                self._send(200, "")
            case "/version":
                self._send(200, {"version": judge_protocol.FINGERPRINT})
            case "/counters":
                self._send(200, state.counters())
            case "/v1/models" if self._authorized():
                self._send(200, judge_protocol.models(state.model, state.max_model_len))
            case "/v1/chat/completions":
                self._send(405, {"detail": "Method Not Allowed"})
            case "/v1/models":
                self._send(401, {"error": "Unauthorized"})
            case _:
                self._send(404, {"detail": "Not Found"})

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        state = self.server.state
        with state.lock:
            state.counts["requests"] += 1
        try:
            match self.path:
                case "/control":
                    state.control(json.loads(raw))
                    self._send(200, state.counters())
                case "/tokenize":
                    self._send(200, judge_protocol.tokenized(raw, state.max_model_len))
                case "/v1/chat/completions":
                    self._chat(raw)
                case _:
                    self._send(404, {"detail": "Not Found"})
        except judge_protocol.Refusal as refusal:
            self._send(refusal.status, refusal.body)
        except ValueError as exc:
            self._send(400, {"error": str(exc)})

    def _authorized(self) -> bool:
        key = self.server.state.api_key
        return key is None or self.headers.get("Authorization") == f"Bearer {key}"

    def _chat(self, raw: bytes) -> None:
        state, arrived = self.server.state, time.monotonic()
        with state.lock:
            state.counts["questions"] += 1
            state.seen.append(Seen(dict(self.headers.items()), raw))
            del state.seen[:-200]
        if not self._authorized():
            raise judge_protocol.Refusal(401, {"error": "Unauthorized"})
        question = judge_protocol.read_question(
            raw, model=state.model, max_model_len=state.max_model_len
        )
        fault = state.fault_for(question)
        with state.in_flight():
            # a call takes its latency from the last byte of the question: reading it is part of it
            left = state.latency_ms / 1000 - (time.monotonic() - arrived)
            if left > 0:
                state.stopping.wait(left)
            with state.lock:
                state.asked.update(question.digests)
                state.counts["pairs"] += len(question.digests)
                state.counts["faults" if fault else "answered"] += 1
            self._answer(question, fault)

    def _answer(self, question: judge_protocol.Question, fault: str | None) -> None:
        if fault in judge_faults.STATUS:
            status, body = judge_faults.STATUS[fault]
            self._send(status, body, self._headers_of(fault))
            return
        state = self.server.state
        content, finish = memo_answers.answer(question, state.memo)
        if state.content is not None:
            content, finish = state.content, "stop"
        body = judge_protocol.completion(
            question, model=state.model, content=content, finish=finish
        )
        if fault in judge_faults.WIRE:
            self._wire_fault(fault, json.dumps(body).encode())
            return
        self._send(200, judge_faults.spoil(fault, body))

    def _headers_of(self, fault: str) -> dict[str, str]:
        state = self.server.state
        if fault == "429":
            return {"Retry-After": state.retry_after}
        if fault == "429_date":
            # HTTP dates are whole seconds: rounded up, so that the pause is never too short.
            when = -(-(time.time() + float(state.retry_after)) // 1)
            return {"Retry-After": formatdate(when, usegmt=True)}
        return {"Location": "http://127.0.0.1:9/v1/chat/completions"} if fault == "redirect" else {}

    def _wire_fault(self, fault: str, body: bytes) -> None:
        stopping = self.server.state.stopping
        self.close_connection = True
        if fault in {"hang", "slow"}:
            stopping.wait(600 if fault == "hang" else SLOW_S)
        if fault == "slow":
            self._send(200, body)
        elif fault == "gzip":
            self._send(200, gzip.compress(body), {"Content-Encoding": "gzip"})
        elif fault in {"chunked", "bad_chunk"}:
            self._chunks(body, ends=fault == "chunked")
        elif fault == "not_http":
            self.wfile.write(b"SSH-2.0-OpenSSH_9.9\r\n")
        elif fault != "hang":
            self._part(fault, body)

    def _chunks(self, body: bytes, *, ends: bool) -> None:
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for start in range(0, len(body), 100):
            piece = body[start : start + 100]
            self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
        self.wfile.write(b"0\r\n\r\n" if ends else b"oops\r\n")

    def _part(self, fault: str, body: bytes) -> None:
        """Promise the whole body; send it byte by byte, or half of it."""
        self._head(200, len(body), {"Content-Type": "application/json"})
        self.wfile.flush()
        if fault == "drip":
            for number in range(len(body)):
                self.wfile.write(body[number : number + 1])
                self.wfile.flush()
                if self.server.state.stopping.wait(DRIP_S):
                    return
        self.wfile.write(body[: len(body) // 2])
        self.wfile.flush()
        if fault == "reset":
            linger = struct.pack("ii", 1, 0)
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)

    def _head(self, status: int, length: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(length))
        self.end_headers()

    def _send(self, status: int, body: object, headers: dict[str, str] | None = None) -> None:
        kind = "text/html" if isinstance(body, str) else "application/json"
        raw = (
            body
            if isinstance(body, bytes)
            else (body.encode() if isinstance(body, str) else json.dumps(body).encode())
        )
        self._head(status, len(raw), {"Content-Type": kind} | (headers or {}))
        self.wfile.write(raw)


class _Server(ThreadingHTTPServer):
    request_queue_size = 128
    daemon_threads = True

    def __init__(self, port: int, state: _State) -> None:
        self.state = state
        self._open: set[socket.socket] = set()
        super().__init__(("127.0.0.1", port), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open.add(request)
        with self.state.lock:
            self.state.counts["connections"] += 1
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        if request.getsockopt(socket.SOL_SOCKET, socket.SO_LINGER, 8) == struct.pack("ii", 1, 0):
            request.close()  # no FIN first: the client must see a reset
        else:
            super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up in mid-reply is what many tests are about."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)

    def end_connections(self) -> None:
        """End what keeps its connection alive, so that no thread waits for a next request."""
        for request in list(self._open):
            with contextlib.suppress(OSError):
                request.shutdown(socket.SHUT_RDWR)


class JudgeServer:
    """The stand-in in this process: a context manager, on a free port of 127.0.0.1."""

    def __init__(
        self,
        *,
        model: str = "stand-in-judge",
        api_key: str | None = None,
        latency_ms: float = 0,
        fault: str | None = None,
        max_model_len: int = 32_768,
        port: int = 0,
    ) -> None:
        self.state = _State(model, api_key, max_model_len, latency_ms, None)
        self.state.control({"fault": fault})
        self._server = _Server(port, self.state)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    @property
    def port(self) -> int:
        """The port that is listened on."""
        return int(self._server.server_address[1])

    @property
    def base_url(self) -> str:
        """The address to configure as JUDGE_BASE_URL."""
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def seen(self) -> list[Seen]:
        """The last 200 chat requests."""
        with self.state.lock:
            return list(self.state.seen)

    def control(self, **wanted: Any) -> None:
        """As ``POST /control``."""
        self.state.control(wanted)

    def counters(self) -> dict[str, int]:
        """As ``GET /counters``."""
        return self.state.counters()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.state.stopping.set()
        self._server.shutdown()
        self._server.end_connections()
        self._server.server_close()
        self._thread.join()


def main() -> None:
    """Serve until the process is ended."""
    parser = argparse.ArgumentParser(description="OpenAI-compatible stand-in for a judge server.")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--print-port", action="store_true", help="first line of stdout: the port")
    parser.add_argument("--model", default="stand-in-judge")
    parser.add_argument("--api-key")
    parser.add_argument("--latency-ms", type=float, default=0)
    parser.add_argument("--fault", choices=sorted(judge_faults.NAMES))
    parser.add_argument("--max-model-len", type=int, default=32_768)
    wanted = vars(parser.parse_args())
    print_port = wanted.pop("print_port")
    with JudgeServer(**wanted) as server:
        if print_port:
            sys.stdout.write(f"{server.port}\n")
            sys.stdout.flush()
        with contextlib.suppress(KeyboardInterrupt):
            threading.Event().wait()


if __name__ == "__main__":
    main()
