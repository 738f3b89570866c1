"""Finds the value at a path as `kube.differ` writes it: `spec.items[name=a].size`, `metadata.labels.a/b`."""

from collections.abc import Iterator, Mapping, Sequence


def at(path: str, value: object, absent: object) -> object:
    """The value there; `absent` where there is none. Names of members may have dots in them."""
    return next(_found(path, value), absent)


def _found(path: str, value: object) -> Iterator[object]:
    path = path.removeprefix(".")
    if not path:
        yield value
    elif isinstance(value, Mapping):
        # The longest name first: a member whose name has a dot is meant before the member of a member.
        for name in sorted(value, key=len, reverse=True):
            rest = path[len(name) :]
            if path.startswith(name) and (not rest or rest[0] in ".["):
                yield from _found(rest, value[name])
    elif isinstance(value, list | tuple) and path.startswith("["):
        key, closed, rest = path[1:].partition("]")
        if closed:
            yield from (each for item in _items(key, value) for each in _found(rest, item))


def _items(key: str, value: Sequence[object]) -> Iterator[object]:
    """The items of a list with these keys, at this position, or with this value."""
    if key.isdecimal():
        yield from value[int(key) : int(key) + 1]
        return
    for item in value:
        if isinstance(item, Mapping):
            pairs = [pair.partition("=") for pair in key.split(",")]
            if all(str(item.get(name)) == text for name, _, text in pairs):
                yield item
        elif str(item) == key:
            yield item
