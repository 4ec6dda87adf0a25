"""The peers: the ingress, and the proxies it is measured beside.

Owns: their configuration (one worker or thread each, the same four mock frontends, round robin, answers passed on as
they come) and where their binaries come from: nginx and HAProxy from the distribution, Envoy from a wheel in
.venv-envoy.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.bench import machine
from tests.bench.instruments import MODEL
from tests.bench.peer import Direct, Peer, Unavailable

ROOT = Path(__file__).resolve().parents[2]
ENVOY_VENV = ROOT / ".venv-envoy"
ENVOY_LOCK = ROOT / "requirements" / "envoy.lock"


class Ours(Peer):
    """The ingress, one worker, all defaults on, access log to a file."""

    name = "ingress"
    workers = 1
    python = Path(sys.executable)

    def version(self) -> str:
        if importlib.util.find_spec("global_ingress.cli") is None:
            raise Unavailable("global_ingress has no command yet")
        run = subprocess.run(
            [sys.executable, "-m", "global_ingress", "serve", "--help"], capture_output=True, cwd=ROOT, check=False
        )
        if run.returncode:
            raise Unavailable(f"global-ingress serve does not start: {run.stderr.decode(errors='replace')[-500:]}")
        return importlib.metadata.version("global-ingress")

    def command(self) -> list[str]:
        pools = [
            {
                "cluster": f"cluster-{index}",
                "namespace": "bench",
                "name": "mock",
                "region": f"region-{index}",
                "frontends": [f"http://127.0.0.1:{port}"],
            }
            for index, port in enumerate(self.frontends)
        ]
        config = {
            "workers": self.workers,
            "discovery": {"pools": pools},
            "models": [{"id": MODEL}],
            "drain": {"delay": "1s", "timeout": "5s"},  # only shortens the pause between two peers
            "log": {"access": str(self.home / "access.log")},
        }
        (self.home / "access.log").unlink(missing_ok=True)
        path = self.home / "ingress.yaml"
        path.write_text(json.dumps(config, indent=1) + "\n")  # JSON is YAML
        admin = machine.free_ports(1)[0]
        return [
            *(str(self.python), "-m", "global_ingress", "serve", "--config", str(path)),
            *("--listen", f"127.0.0.1:{self.port}", "--admin", f"127.0.0.1:{admin}"),
        ]


class OursCompiled(Ours):
    """The same, compiled with mypyc, as the image has it."""

    name = "ingress-compiled"
    python = ROOT / ".venv-compiled" / "bin" / "python"

    def version(self) -> str:
        made = subprocess.run(["make", "-s", "compiled"], cwd=ROOT, capture_output=True, text=True, check=False)
        if made.returncode:
            raise Unavailable(f"it cannot be compiled here: {(made.stderr or made.stdout).strip()[-500:]}")
        return super().version()


class OursTwice(Ours):
    """Two workers: what sharing the order of the round robin costs."""

    name = "ingress-2"
    workers = 2


class Nginx(Peer):
    """nginx as packaged, one worker; request bodies stay in memory, answers pass as they come."""

    name = "nginx"
    access_log = False

    def binary(self) -> str:
        found = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")
        if found is None:
            raise Unavailable("nginx is not installed: apt-get install nginx-light")
        return found

    def version(self) -> str:
        run = subprocess.run([self.binary(), "-v"], capture_output=True, text=True, check=True)
        return run.stderr.strip().rpartition("/")[2]

    def command(self) -> list[str]:
        members = "\n".join(f"    server 127.0.0.1:{port};" for port in self.frontends)
        log = f"{self.home}/access.log" if self.access_log else "off"
        paths = "\n".join(
            f"  {kind}_temp_path {self.home}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        (self.home / "access.log").unlink(missing_ok=True)
        path = self.home / "nginx.conf"
        path.write_text(f"""\
daemon off;
worker_processes 1;
pid {self.home}/nginx.pid;
error_log {self.home}/error.log warn;
events {{
  worker_connections 10000;
}}
http {{
  access_log {log};
{paths}
  client_body_buffer_size 256k;
  keepalive_requests 100000000;
  upstream frontends {{
{members}
    keepalive 512;
    keepalive_requests 100000000;
  }}
  server {{
    listen 127.0.0.1:{self.port} backlog=4096;
    location / {{
      proxy_pass http://frontends;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_buffering off;
    }}
  }}
}}
""")
        return [self.binary(), "-e", f"{self.home}/error.log", "-c", str(path)]


class NginxLogging(Nginx):
    name = "nginx+log"
    access_log = True


class Haproxy(Peer):
    """HAProxy as packaged, one thread; `http-no-delay` since it would gather events otherwise."""

    name = "haproxy"

    def binary(self) -> str:
        found = shutil.which("haproxy", path="/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin")
        if found is None:
            raise Unavailable("haproxy is not installed: apt-get install haproxy")
        return found

    def version(self) -> str:
        run = subprocess.run([self.binary(), "-v"], capture_output=True, text=True, check=True)
        return run.stdout.split()[2].partition("-")[0]

    def command(self) -> list[str]:
        members = "\n".join(f"  server s{n} 127.0.0.1:{port}" for n, port in enumerate(self.frontends))
        path = self.home / "haproxy.cfg"
        path.write_text(f"""\
global
  nbthread 1
  maxconn 4000
defaults
  mode http
  option http-no-delay
  timeout connect 5s
  timeout client 120s
  timeout server 300s
listen data
  bind 127.0.0.1:{self.port} backlog 4096
  balance roundrobin
  http-reuse always
{members}
""")
        return [self.binary(), "-db", "-f", str(path)]


class Envoy(Peer):
    """Envoy from its wheel, one worker thread, its limits raised so that none is met."""

    name = "envoy"
    access_log = False

    def binary(self) -> Path:
        found = sorted(ENVOY_VENV.glob("lib/python*/site-packages/envoy/_bin/envoy"))
        if not found:
            raise Unavailable(f"no envoy binary in {ENVOY_VENV.name}: the wheel of this platform has none")
        return found[0]

    def version(self) -> str:
        self._install()
        run = subprocess.run([str(self.binary()), "--version"], capture_output=True, text=True, check=False)
        found = re.search(r"/(\d+\.\d+\.\d+)/", run.stdout)
        if run.returncode or found is None:
            raise Unavailable(f"envoy does not run here: {(run.stderr or run.stdout)[-500:]}")
        return found[1]

    @staticmethod
    def _install() -> None:
        stamp = ENVOY_VENV / ".ok"
        if stamp.exists() and stamp.read_text() == ENVOY_LOCK.read_text():
            return
        beside = Path(sys.executable).parent / "uv"
        uv = str(beside) if beside.exists() else shutil.which("uv")
        if uv is None:
            raise Unavailable("uv is missing: make .venv/.ok installs it")
        python = str(ENVOY_VENV / "bin" / "python")
        for words in (
            ["venv", "--quiet", "--clear", "--python", sys.executable, str(ENVOY_VENV)],
            ["pip", "install", "--quiet", "--python", python, "--require-hashes", "-r", str(ENVOY_LOCK)],
        ):
            run = subprocess.run([uv, *words], capture_output=True, text=True, check=False)
            if run.returncode:
                raise Unavailable(f"uv {' '.join(words[:2])} of requirements/envoy.lock failed: {run.stderr[-800:]}")
        stamp.write_text(ENVOY_LOCK.read_text())

    def command(self) -> list[str]:
        path = self.home / "envoy.json"
        path.write_text(json.dumps(self._config(), indent=1) + "\n")
        flags = ["--concurrency", "1", "--log-level", "error", "--use-dynamic-base-id"]
        return [str(self.binary()), "-c", str(path), *flags]

    def _config(self) -> dict[str, object]:
        def address(port: int) -> dict[str, object]:
            return {"socket_address": {"address": "127.0.0.1", "port_value": port}}

        most = 1_000_000
        limits = {"max_connections": most, "max_pending_requests": most, "max_requests": most}
        cluster = {
            "name": "frontends",
            "connect_timeout": "5s",
            "lb_policy": "ROUND_ROBIN",
            "circuit_breakers": {"thresholds": [limits]},
            "load_assignment": {
                "cluster_name": "frontends",
                "endpoints": [{"lb_endpoints": [{"endpoint": {"address": address(port)}} for port in self.frontends]}],
            },
        }
        chain = {"filters": [{"name": "http", "typed_config": self._connections()}]}
        listener = {"name": "data", "address": address(self.port), "filter_chains": [chain]}
        return {"static_resources": {"listeners": [listener], "clusters": [cluster]}}

    def _connections(self) -> dict[str, object]:
        """How clients' connections are served."""
        kinds = "type.googleapis.com/envoy.extensions"
        filters = f"{kinds}.filters"
        manager: dict[str, object] = {
            "@type": f"{filters}.network.http_connection_manager.v3.HttpConnectionManager",
            "stat_prefix": "bench",
            "generate_request_id": False,
            "http_filters": [
                {"name": "router", "typed_config": {"@type": f"{filters}.http.router.v3.Router"}},
            ],
            "route_config": {
                "virtual_hosts": [
                    {
                        "name": "all",
                        "domains": ["*"],
                        "routes": [{"match": {"prefix": "/"}, "route": {"cluster": "frontends", "timeout": "0s"}}],
                    }
                ]
            },
        }
        if self.access_log:
            (self.home / "access.log").unlink(missing_ok=True)
            sink = {
                "@type": f"{kinds}.access_loggers.file.v3.FileAccessLog",
                "path": str(self.home / "access.log"),
            }
            manager["access_log"] = [{"name": "file", "typed_config": sink}]
        return manager


class EnvoyLogging(Envoy):
    name = "envoy+log"
    access_log = True


PEERS: dict[str, type[Peer]] = {
    peer.name: peer
    for peer in (Ours, OursCompiled, Nginx, Haproxy, Envoy, Direct, OursTwice, NginxLogging, EnvoyLogging)
}
DEFAULT = ("ingress", "ingress-compiled", "nginx", "haproxy", "envoy", "direct")
FULL = (*DEFAULT, "ingress-2", "nginx+log", "envoy+log")
