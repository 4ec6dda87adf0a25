"""The slices known now, per source: what lists and watches have told.

Owns one record per slice, known by namespace, name and uid. Only a whole list or an event removes; a list that fails
half-way changes nothing. Resource versions are compared for equality alone: older servers promise no order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from discovery.slices import Slice


class Records:
    """Current slices by source. Not shared between threads; every call is whole before it returns."""

    def __init__(self) -> None:
        self._sources: dict[str, dict[tuple[str, str], Slice]] = {}

    def __repr__(self) -> str:
        counts = ", ".join(f"{source}={len(slices)}" for source, slices in sorted(self._sources.items()))
        return f"<Records {counts or 'none'}>"

    def __len__(self) -> int:
        return sum(len(slices) for slices in self._sources.values())

    def __iter__(self) -> Iterator[tuple[str, Slice]]:
        """Every slice with its source, as `assemble` takes them."""
        for source, slices in self._sources.items():
            for slice_ in slices.values():
                yield source, slice_

    def replace_all(self, source: str, slices: Iterable[Slice], *, namespace: str | None = None) -> None:
        """A whole list of a source (or of one namespace of it): what is not in it is gone.

        When `slices` raises, nothing has changed. Slices that are being deleted count as gone. Slices that are equal
        to the ones before stay the same objects.
        """
        before = self._sources.get(source, {})
        listed: dict[tuple[str, str], Slice] = {}
        if namespace is not None:
            listed |= {key: slice_ for key, slice_ in before.items() if key[0] != namespace}
        for slice_ in slices:
            if namespace is not None and slice_.namespace != namespace:
                raise ValueError(f"{slice_.namespace}/{slice_.name} is in a list of namespace {namespace}")
            if not slice_.deleting:
                key = (slice_.namespace, slice_.name)
                listed[key] = _kept(before.get(key), slice_)
        self._sources[source] = listed

    def upsert(self, source: str, slice_: Slice) -> bool:
        """An ADDED or MODIFIED event; one with a deletion time removes. True when something changed."""
        if slice_.deleting:
            return self.delete(source, slice_)
        known = self._sources.setdefault(source, {})
        key = (slice_.namespace, slice_.name)
        before = known.get(key)
        kept = _kept(before, slice_)
        known[key] = kept
        return kept is not before

    def delete(self, source: str, slice_: Slice) -> bool:
        """A DELETED event: removes by name, whatever labels the event shows. True when something changed.

        The end of an older object of this name is no end of the one that came after it: their uids differ.
        """
        return self.remove(source, slice_.namespace, slice_.name, slice_.uid)

    def remove(self, source: str, namespace: str, name: str, uid: str) -> bool:
        """As `delete`, by name and uid alone ("" when the event does not say)."""
        known = self._sources.get(source, {})
        before = known.get((namespace, name))
        if before is None or (before.uid and uid and before.uid != uid):
            return False
        del known[namespace, name]
        return True

    def get(self, source: str, namespace: str, name: str) -> Slice | None:
        return self._sources.get(source, {}).get((namespace, name))

    def of(self, source: str) -> Mapping[tuple[str, str], Slice]:
        """The slices of one source by namespace and name, as they are now: not to be kept."""
        return self._sources.get(source, {})


def _kept(before: Slice | None, now: Slice) -> Slice:
    # By content, not by version: a file may be edited under its old resourceVersion.
    return before if before is not None and before == now else now
