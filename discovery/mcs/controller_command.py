"""The console script `mcs-controller`: the controller with the registry's client."""

from __future__ import annotations

from discovery.kit.metrics import Metrics
from discovery.mcs.client import RegistryClient, tls_context
from discovery.mcs.controller.command import controller_app
from discovery.mcs.controller.settings import Settings


def connect(settings: Settings, metrics: Metrics) -> RegistryClient:
    return RegistryClient(
        settings.registry,
        token_file=settings.registry_token_file,
        tls=tls_context(settings.registry_ca_file, settings.registry_cert_file, settings.registry_key_file),
        metrics=metrics,
    )


app = controller_app(connect)


def main() -> None:
    app(prog_name="mcs-controller")


if __name__ == "__main__":
    main()
