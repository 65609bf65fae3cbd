"""Start a RabbitMQ and a Redis of our own for the fault tests: ``python -m tests.faults.services DIR``.

Prints shell assignments (``export CONTEXTGRAPH_TEST_AMQP_URL=…``, pids in ``started``) for .ci/run to
eval. Ports are free ones, all on loopback; data lies below DIR; a server that already runs on this
machine is left alone. The servers end when the pids are killed.
"""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

RABBIT_BINARIES = ("/usr/lib/rabbitmq/bin/rabbitmq-server", "rabbitmq-server")
START_S = 90.0


def free_port() -> int:
    """A loopback port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def answers(port: int) -> bool:
    """Whether something accepts connections on the loopback port."""
    with socket.socket() as probe:
        probe.settimeout(0.5)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def start_redis(folder: Path) -> tuple[str, int]:
    """Redis with an append-only file; returns its URL (database 0) and pid."""
    port = free_port()
    home = folder / "redis"
    home.mkdir()
    binary = shutil.which("redis-server") or shutil.which("valkey-server")
    if binary is None:
        sys.exit("no redis-server or valkey-server on PATH: apt-get install redis-server")
    server = subprocess.Popen(
        [binary, "--port", str(port), "--bind", "127.0.0.1", "--dir", str(home), "--save", "",
         "--appendonly", "yes", "--maxmemory-policy", "noeviction"],
        stdout=(home / "log").open("wb"), stderr=subprocess.STDOUT, start_new_session=True,
    )  # fmt: skip
    _wait(port, server, home / "log")
    return f"redis://127.0.0.1:{port}/0", server.pid


def start_rabbitmq(folder: Path) -> tuple[str, int]:
    """RabbitMQ under a node name of its own; returns its URL and pid."""
    port, dist = free_port(), free_port()
    home = folder / "rabbitmq"
    home.mkdir()
    binary = next((b for b in RABBIT_BINARIES if shutil.which(b)), None)
    if binary is None:
        sys.exit("no rabbitmq-server found: apt-get install rabbitmq-server")
    config = home / "rabbitmq.conf"
    config.write_text(
        f"listeners.tcp.1 = 127.0.0.1:{port}\nvm_memory_high_watermark.absolute = 1GB\n"
    )
    environment = os.environ | {
        "HOME": str(home),
        "RABBITMQ_NODENAME": f"cgtest{port}@localhost",
        "RABBITMQ_MNESIA_BASE": str(home / "data"),
        "RABBITMQ_LOG_BASE": str(home / "logs"),
        "RABBITMQ_CONFIG_FILE": str(config.with_suffix("")),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(home / "enabled_plugins"),
        "RABBITMQ_PID_FILE": str(home / "pid"),
        "RABBITMQ_DIST_PORT": str(dist),
        "RABBITMQ_CONF_ENV_FILE": "/dev/null",
        "ERL_EPMD_ADDRESS": "127.0.0.1",
    }
    (home / "enabled_plugins").write_text("[].\n")
    user = "rabbitmq" if os.geteuid() == 0 and _exists("rabbitmq") else None
    if user:
        account = pwd.getpwnam(user)
        for path in (home, *home.iterdir()):
            os.chown(path, account.pw_uid, account.pw_gid)
    server = subprocess.Popen(
        [binary], env=environment, cwd=home, start_new_session=True,
        stdout=(folder / "rabbitmq.log").open("wb"), stderr=subprocess.STDOUT,
        user=user, group=user, extra_groups=[] if user else None,
    )  # fmt: skip
    _wait(port, server, folder / "rabbitmq.log")
    return f"amqp://guest:guest@127.0.0.1:{port}//", server.pid


def _exists(user: str) -> bool:
    try:
        pwd.getpwnam(user)
    except KeyError:
        return False
    return True


def _wait(port: int, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_S
    while not answers(port):
        if server.poll() is not None or time.monotonic() > deadline:
            sys.exit(
                f"server on port {port} did not start:\n{log.read_text(errors='replace')[-2000:]}"
            )
        time.sleep(0.2)


def main() -> None:
    """Start both and print assignments for a shell."""
    folder = Path(sys.argv[1])
    redis_url, redis_pid = start_redis(folder)
    amqp_url, rabbit_pid = start_rabbitmq(folder)
    sys.stdout.write(
        f"export CONTEXTGRAPH_TEST_REDIS_URL={redis_url}\n"
        f"export CONTEXTGRAPH_TEST_AMQP_URL={amqp_url}\n"
        f"started+=({redis_pid} {rabbit_pid})\n"
    )


if __name__ == "__main__":
    main()
