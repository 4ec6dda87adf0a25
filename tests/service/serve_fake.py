"""`serve` with the fake worker: `serve_fake.py CONFIG [LISTEN [ADMIN [WORKERS]]]`, `-` for what is not given."""

from __future__ import annotations

import sys
from pathlib import Path

from global_ingress.proxy.app import serve_command

if __name__ == "__main__":
    config, listen, admin, workers = [None if arg == "-" else arg for arg in (*sys.argv[1:], "-", "-", "-", "-")[:4]]
    fake = str(Path(__file__).with_name("fake_worker.py"))
    sys.exit(serve_command(config, listen, admin, workers, worker=(sys.executable, fake)))
