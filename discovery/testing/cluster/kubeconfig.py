"""A kubeconfig for a fake cluster."""

from __future__ import annotations

import base64

import yaml


def kubeconfig(url: str, *, token: str = "", ca: bytes | None = None, namespace: str = "default") -> str:
    """The text of a kubeconfig with one context, `fake`. `ca`: the PEM of who signed the server's certificate."""
    cluster: dict[str, object] = {"server": url}
    if ca is not None:
        cluster["certificate-authority-data"] = base64.b64encode(ca).decode()
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "fake",
            "clusters": [{"name": "fake", "cluster": cluster}],
            "users": [{"name": "fake", "user": {"token": token} if token else {}}],
            "contexts": [{"name": "fake", "context": {"cluster": "fake", "user": "fake", "namespace": namespace}}],
        },
        sort_keys=False,
    )
