"""The settings file of the ingress as a cluster gets it: the operator's own text, with the region before it.

Owns what a file of a fleet must not say, because the fleet says it. The text is not written anew, so that comments stay
and what runs is what was checked.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator

from global_ingress.proxy.settings import file as settings
from global_ingress.proxy.settings.faults import Fault, SettingsFault
from global_ingress.proxy.settings.not_yet import NOT_YET
from global_ingress.proxy.settings.sections import Settings
from global_ingress.render.fleet import Cluster, Fleet

FOLDER = "/etc/global-ingress"
CONFIG = f"{FOLDER}/config"
DIRECTORY = "http://global-discovery:8080"


def checked(fleet: Fleet, text: str, *, name: str, not_yet: Iterable[str] = NOT_YET) -> Settings:
    """The settings of `text`, which fits the fleet. Raises SettingsFault with all faults."""
    read = settings.load(text, name=name, directory=CONFIG, not_yet=not_yet)
    faults = [Fault(name, 0, 0, path, message) for path, message in _faults(fleet, read)]
    for cluster in [] if faults else fleet.clusters:
        try:
            again = settings.load(for_cluster(cluster, text), name=name, directory=CONFIG, not_yet=not_yet)
        except SettingsFault:
            again = None
        if again is None or again.region != cluster.region:
            faults.append(Fault(name, 1, 1, "", "must have each key on its own line: region goes before them"))
            break
    if faults:
        raise SettingsFault(faults)
    return read


def for_cluster(cluster: Cluster, text: str) -> str:
    return f'region: "{cluster.region}"\n{text}'


def _faults(fleet: Fleet, read: Settings) -> Iterator[tuple[str, str]]:
    if read.region is not None:
        yield "region", "is each cluster's own, and set from the fleet; leave it out"
    taken = read.drain.delay + read.drain.timeout + fleet.ingress.pre_stop
    if fleet.ingress.grace <= taken:
        yield (
            "drain",
            f"takes {taken:g}s with ingress.pre_stop, and ingress.grace is {fleet.ingress.grace}s",
        )
    if read.log.access not in (None, "stdout") and not read.log.access.startswith("/tmp/"):
        yield "log.access", "must be stdout, off or a path in /tmp: the root file system is read-only"
    given = fleet.ingress
    upstream = read.upstream.tls
    yield from _secret("auth", given.auth_secret, [] if read.auth is None else [read.auth.keys_file])
    tls = [] if read.tls is None else [read.tls.certificate, read.tls.key, read.tls.client_ca]
    yield from _secret("tls", given.tls_secret, tls)
    files = [] if upstream is None else [upstream.ca, upstream.certificate, upstream.key]
    yield from _secret("upstream.tls", given.upstream_tls_secret, files)


def _secret(section: str, secret: str | None, files: list[str | None]) -> Iterator[tuple[str, str]]:
    word = section.partition(".")[0]
    key = f"ingress.{section.replace('.', '_')}_secret"
    named = [posixpath.normpath(file) for file in files if file is not None]
    if named and secret is None:
        yield section, f"names files, and the fleet has no {key} that they come from"
    elif secret is not None and not named:
        yield section, f"names no file, and the fleet has {key}"
    elif strange := [file for file in named if posixpath.dirname(file) != f"{FOLDER}/{word}"]:
        yield section, f"must name its files ../{word}/NAME, where {key} is mounted; got {', '.join(strange)}"
