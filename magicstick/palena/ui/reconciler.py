"""The reconciler of UIs: what it watches, and what it sees of one."""

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import Any, Final

from magicstick.api.kinds import (
    LITELLM_VIRTUAL_KEY,
    PALENA_GATEWAY,
    PALENA_MCP_SERVER,
    PALENA_MODEL,
    PALENA_UI,
)
from magicstick.api.palena.mcp_server import MCPConsumers, PalenaMCPServerSpec
from magicstick.api.palena.ui import PalenaUISpec
from magicstick.api.parse import InvalidSpec, parse
from magicstick.kube.errors import ApiError
from magicstick.kube.kinds import CONFIG_MAP, ObjectKey
from magicstick.kube.objects import Resource, View
from magicstick.palena.common.addresses import CLUSTER_DOMAIN
from magicstick.palena.common.children import text
from magicstick.palena.common.declaring import declare
from magicstick.palena.common.edges import definitions, gateway_changed, owned, read_secrets, schema
from magicstick.palena.common.facts import PalenaFacts
from magicstick.palena.common.frame import Subject
from magicstick.palena.common.gateways import find_gateway
from magicstick.palena.common.kinds import (
    DEPLOYMENT,
    INGRESS,
    PERSISTENT_VOLUME_CLAIM,
    SERVICE,
    STATEFUL_SET,
)
from magicstick.palena.common.model_refs import gateways_of
from magicstick.palena.common.owners import Owner, is_owned_by, owner_keys
from magicstick.palena.common.references import Target, resolve
from magicstick.palena.common.referrers import Reference as Referred
from magicstick.palena.common.referrers import Referrers
from magicstick.palena.common.secrets import SECRET, Entropy, draw
from magicstick.palena.common.storage_classes import classes, growing
from magicstick.palena.ui import secrets
from magicstick.palena.ui.decide import decide, decide_failure
from magicstick.palena.ui.names import Names
from magicstick.palena.ui.observation import FoundServer, UiObservation, VirtualKeys, places
from magicstick.runtime.plan import Plan
from magicstick.runtime.reads import Reads
from magicstick.runtime.reconciler import Declaration, Edge, meaning_changed

NAME: Final = "palena-ui"


class UiReconciler:
    """Keeps LibreChat and its stores for each PalenaUI, and its status.

    The watch needs: PalenaUIs, PalenaGateways, PalenaMCPServers and PalenaModels, the objects that are made
    for UIs, all Secrets, LiteLLMVirtualKeys and their definition.
    """

    def __init__(
        self, facts: PalenaFacts, reads: Reads, entropy: Entropy, *, domain: str = CLUSTER_DOMAIN
    ) -> None:
        self._facts = facts
        self._reads = reads
        self._entropy = entropy
        self._domain = domain
        self._referrers = Referrers(reads, PALENA_UI, references_of)
        self._models = Referrers(reads, PALENA_MODEL, gateways_of)
        self._masters = Referrers(reads, PALENA_GATEWAY, master_key_of)
        self._keys = Referrers(reads, LITELLM_VIRTUAL_KEY, _owner_of)
        self._declaration = self._declare()

    @property
    def declaration(self) -> Declaration:
        """See `runtime.reconciler.Reconciler`."""
        return self._declaration

    def follow(self, wake: Callable[[Iterable[ObjectKey]], None]) -> None:
        """Nothing but watched objects matters here."""

    async def observe(self, key: ObjectKey) -> UiObservation | None:
        """See `runtime.reconciler.Reconciler`."""
        live = self._facts.find(PALENA_UI, *key)
        return None if live is None else self._observation(live)

    def decide(self, observation: UiObservation, now: datetime) -> Plan:
        """See `decide.decide`."""
        return decide(observation, now)

    def decide_failure(self, observation: UiObservation, error: ApiError, now: datetime) -> Plan:
        """See `decide.decide_failure`."""
        return decide_failure(observation, error, now)

    # --- observing -------------------------------------------------------------------------------

    def _observation(self, live: Resource) -> UiObservation:
        spec = parse(PalenaUISpec, live)
        blind = self._facts.blind(READ)
        subject = Subject(live, spec, blind=blind)
        if blind:
            return UiObservation(subject, NOWHERE, VirtualKeys(unknown=blind))
        names, namespace = Names(live.metadata.name), live.metadata.namespace
        present = self._facts.present(namespace, places(names))
        gateway = NOWHERE
        if not isinstance(spec, InvalidSpec):
            gateway = find_gateway(self._facts, spec.gateway_ref, namespace).target
        return UiObservation(
            subject,
            gateway,
            self._virtual_keys(live, gateway),
            () if isinstance(spec, InvalidSpec) else tuple(self._servers(live, spec)),
            self._offered(gateway),
            present,
            self._named_secrets(live, gateway),
            draw(
                secrets.recipe(names, namespace, self._domain),
                present.get((SECRET, names.secrets)),
                self._entropy,
            ),
            growing(
                self._reads, (each for (kind, _), each in present.items() if kind == PERSISTENT_VOLUME_CLAIM)
            ),
            self._domain,
        )

    def _servers(self, live: Resource, spec: PalenaUISpec) -> Iterator[FoundServer]:
        home = live.metadata.namespace
        for reference in spec.mcp_server_refs:
            found = self._facts.find(PALENA_MCP_SERVER, *reference.place(home))
            server = None if found is None else parse(PalenaMCPServerSpec, found)
            if isinstance(server, PalenaMCPServerSpec):
                target = resolve(reference, home, found, server.allowed_consumers)
                yield FoundServer(reference, target, server.service.port)
            else:
                yield FoundServer(reference, resolve(reference, home, found, MCPConsumers()))

    def _virtual_keys(self, live: Resource, gateway: Target) -> VirtualKeys:
        names, facts = Names(live.metadata.name), self._facts
        owner = Owner.of(PALENA_UI, live)
        mine = (facts.find(LITELLM_VIRTUAL_KEY, *key) for key in self._keys.of(PALENA_UI, *live.metadata.key))
        return VirtualKeys(
            served=facts.prerequisites(LITELLM_VIRTUAL_KEY),
            schema=facts.schema(LITELLM_VIRTUAL_KEY),
            live=tuple(each for each in mine if each is not None and is_owned_by(each, owner)),
            wanted=facts.find(LITELLM_VIRTUAL_KEY, gateway.namespace, names.librechat),
            minted=facts.find(SECRET, gateway.namespace, names.gateway_key),
        )

    def _offered(self, gateway: Target) -> tuple[str, ...]:
        """What the models that refer to the gateway are called."""
        keys = self._models.of(PALENA_GATEWAY, gateway.namespace, gateway.name)
        models = (self._facts.find(PALENA_MODEL, *key) for key in keys)
        return tuple(sorted({_model_name(each) for each in models if each is not None}))

    def _named_secrets(self, live: Resource, gateway: Target) -> dict[str, Resource]:
        """Secrets beside the UI that its spec names, and the gateway's master key if it is there too."""
        home = live.metadata.namespace
        places = [*references_of(live), *(master_key_of(gateway.live) if gateway.live is not None else ())]
        found = {
            name: self._facts.find(SECRET, namespace, name)
            for kind, namespace, name in places
            if kind == SECRET and namespace == home
        }
        return {name: each for name, each in found.items() if each is not None}

    # --- waking ----------------------------------------------------------------------------------

    def _declare(self) -> Declaration:
        edges = (*_own_edges(), *self._surrounding_edges())
        return declare(NAME, PALENA_UI, edges=edges, writes=(*MADE, LITELLM_VIRTUAL_KEY))

    def _surrounding_edges(self) -> tuple[Edge[Any], ...]:
        wakes = self._referrers.wakes
        return (
            read_secrets(self._by_secret, "whether the keys that a chat is given are there, and the same"),
            Edge(
                PALENA_GATEWAY,
                wakes(PALENA_GATEWAY),
                "where the gateway is, and whether it is ready",
                gateway_changed,
            ),
            Edge(
                PALENA_MCP_SERVER,
                wakes(PALENA_MCP_SERVER),
                "where the tools are, and whether they are ready",
                server_changed,
            ),
            Edge(PALENA_MODEL, self._by_model, "what the gateway's models are called", meaning_changed),
            classes("whether the volumes of a chat may grow"),
            definitions((LITELLM_VIRTUAL_KEY,), self._everyone, "whether the gateway can mint keys"),
            schema(LITELLM_VIRTUAL_KEY, self._everyone),
        )

    def _everyone(self) -> Iterable[ObjectKey]:
        return self._facts.keys(PALENA_UI)

    def _by_secret(self, old: View | None, new: View | None) -> Iterable[ObjectKey]:
        """Those who name the Secret, and those on a gateway whose master key it is."""
        changed = new or old
        if changed is None:
            return ()
        place = (SECRET, *changed.metadata.key)
        gateways = self._masters.of(*place)
        behind = (key for each in gateways for key in self._referrers.of(PALENA_GATEWAY, *each))
        return dict.fromkeys((*self._referrers.of(*place), *behind))

    def _by_model(self, old: View | None, new: View | None) -> Iterable[ObjectKey]:
        """The chats on the gateways that a model names, and on those that it named before."""
        models = (each for each in (old, new) if isinstance(each, Resource))
        gateways = dict.fromkeys(place for each in models for place in gateways_of(each))
        return dict.fromkeys(key for place in gateways for key in self._referrers.of(*place))


MADE: Final = (
    SECRET,
    STATEFUL_SET,
    DEPLOYMENT,
    SERVICE,
    CONFIG_MAP,
    INGRESS,
    PERSISTENT_VOLUME_CLAIM,
)
"""What is made beside a UI."""

READ: Final = (*MADE, LITELLM_VIRTUAL_KEY, PALENA_GATEWAY, PALENA_MCP_SERVER, PALENA_MODEL)
"""What a decision rests on: none is made while one of these cannot be read."""

NOWHERE: Final = Target("", "")
"""The gateway of a UI whose spec cannot be read."""


def references_of(ui: Resource) -> Iterable[Referred]:
    """What a UI refers to: its gateway, its MCP servers, and Secrets, those beside the gateway included."""
    spec, (home, name) = parse(PalenaUISpec, ui), ui.metadata.key
    own = Names(name)
    found: list[Referred] = [(SECRET, home, own.secrets), (SECRET, home, own.gateway_key)]
    if isinstance(spec, InvalidSpec):
        return found
    namespace, gateway = spec.gateway_ref.place(home)
    found += [(PALENA_GATEWAY, namespace, gateway), (SECRET, namespace, own.gateway_key)]
    found += [(PALENA_MCP_SERVER, *each.place(home)) for each in spec.mcp_server_refs]
    return [*found, *((SECRET, home, each) for each in _secret_names(spec))]


def _secret_names(spec: PalenaUISpec) -> Iterator[str]:
    """Secrets beside the UI that its spec names."""
    oidc = spec.auth.oidc
    given = [spec.gateway_key.secret_ref, spec.mongodb.secret_ref, oidc.client_id_ref, oidc.client_secret_ref]
    yield from (each.name for each in given if each is not None)
    for variable in spec.extra_env:
        name = text(variable.value_from or {}, "secretKeyRef", "name")
        if name:
            yield name


def master_key_of(gateway: Resource) -> Iterable[Referred]:
    """The Secret of a gateway's master key."""
    name = text(gateway.status, "masterKeySecretRef", "name")
    return ((SECRET, gateway.metadata.namespace, name),) if name else ()


def _model_name(model: Resource) -> str:
    return text(model.spec, "modelName") or model.metadata.name


def _owner_of(key: Resource) -> Iterable[Referred]:
    return [(PALENA_UI, *found) for found in owner_keys(PALENA_UI, key)]


def server_changed(old: Resource | None, new: Resource | None) -> bool:
    """Predicate for UIs: an MCP server came, went, has another spec, or became ready or not."""
    return _seen(old) != _seen(new)


def _seen(server: Resource | None) -> object:
    if server is None:
        return None
    ready = Target("", "", server).ready
    return server.metadata.uid, server.metadata.generation, server.metadata.dying, ready


def _own_edges() -> tuple[Edge[Any], ...]:
    whys = {
        DEPLOYMENT: "whether LibreChat and MeiliSearch are ready",
        STATEFUL_SET: "whether MongoDB is ready",
        SERVICE: "whether they are reached as they should be",
        CONFIG_MAP: "whether the configuration is as it should be",
        INGRESS: "whether the chat is reached from outside",
        PERSISTENT_VOLUME_CLAIM: "whether the data lives, and how large its volumes are",
    }
    return (
        *(owned(kind, PALENA_UI, why) for kind, why in whys.items()),
        owned(SECRET, PALENA_UI, "whether what is generated is there", labelled=False),
        owned(LITELLM_VIRTUAL_KEY, PALENA_UI, "whether the chat's key is as it should be", labelled=False),
    )
