"""Which activations must be made so that what somebody needs can come (spec: modules-and-apps §4).

The seam for everyone who needs modules: module activations here, instances, models and hardware later.
Modules are only ever added: an activation that exists, in whatever state, is left entirely alone, which
is how `enabled: false` stays a user's last word.
"""

from collections import deque
from collections.abc import Iterable, Iterator

from magicstick.api.kinds import MODULE_ACTIVATION
from magicstick.modules.facts import ModuleFacts
from magicstick.modules.objects import auto_activation
from magicstick.runtime.plan import Create


def missing_modules(modules: Iterable[str], facts: ModuleFacts) -> tuple[str, ...]:
    """The modules among `modules`, and among all that they require, whose activation is to be made.

    Keys or aliases go in; canonical keys come out, requirements after what requires them. Static and
    unknown modules never have one. The requirements of a module that has an activation are that
    activation's own business: a disabled one needs nothing.

    Guarantees: () while anything cannot be read, since absence is then not known.
    """
    if facts.catalog is None or facts.blind():
        return ()
    return tuple(dict.fromkeys(_walk(modules, facts)))


def request_modules(
    modules: Iterable[str], facts: ModuleFacts, *, source: str | None = None
) -> tuple[Create, ...]:
    """The steps that make `missing_modules`. `source` marks the modules named, not what they require."""
    named = {facts.canonical(module) for module in modules}
    return tuple(
        Create(MODULE_ACTIVATION, auto_activation(module, facts.site, source if module in named else None))
        for module in missing_modules(sorted(named), facts)
    )


def _walk(modules: Iterable[str], facts: ModuleFacts) -> Iterator[str]:
    catalog = facts.catalog
    if catalog is None:
        return
    waiting, seen = deque(map(catalog.canonical, modules)), set[str]()
    while waiting:
        module = waiting.popleft()
        definition = catalog.modules.get(module)
        if module in seen or definition is None or definition.static or not facts.may_activate(module):
            continue
        seen.add(module)
        yield module
        waiting += catalog.requires(module)
