"""The decision about one UI (spec: palena §6.2, §6.5).

What runs is never taken away because something around it fails: without a gateway the last configuration
stays, and so do Pods whose Secret is gone. LibreChat itself is first made when its configuration could be
rendered and its key is there.
"""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from magicstick.api.kinds import LITELLM_VIRTUAL_KEY, PALENA_UI
from magicstick.api.palena.ui import PalenaUISpec
from magicstick.kube.errors import ApiError
from magicstick.kube.kinds import CONFIG_MAP, Kind, ObjectKey
from magicstick.palena.common import frame
from magicstick.palena.common.children import Replicas, replicas
from magicstick.palena.common.desired import Desired, applied, conflict, removed
from magicstick.palena.common.frame import Findings, KindFrame
from magicstick.palena.common.gateways import GATEWAY_READY, gateway_ready
from magicstick.palena.common.growth import Volume
from magicstick.palena.common.hashes import config_hash, secret_hash
from magicstick.palena.common.kinds import DEPLOYMENT, INGRESS, PERSISTENT_VOLUME_CLAIM, SERVICE, STATEFUL_SET
from magicstick.palena.common.owners import is_owned_by, metadata
from magicstick.palena.common.retention import released, spared
from magicstick.palena.common.secrets import NAME_CONFLICT, SECRET, read_key, values_of
from magicstick.palena.common.teardown import Stage, Target
from magicstick.palena.common.verdicts import Verdict, failed, fine, waiting
from magicstick.palena.ui.configuration import configured, mcp_entry
from magicstick.palena.ui.gateway_key import CONFIG_GENERATED, gateway_key
from magicstick.palena.ui.names import MEILISEARCH, MONGODB, MONGODB_PORT
from magicstick.palena.ui.objects import (
    ChatShape,
    chat_deployment,
    chat_ingress,
    chat_service,
    configuration,
    data_claim,
    environment,
    meilisearch_url,
    referred,
)
from magicstick.palena.ui.observation import FoundServer, UiObservation
from magicstick.palena.ui.storage import MEILISEARCH_READY, MONGODB_READY, Stores
from magicstick.runtime.conditions import READY
from magicstick.runtime.plan import Notice, Plan, Step

IMMUTABLE_FIELD_IGNORED: Final = "ImmutableFieldIgnored"


def _blames(kind: Kind, key: ObjectKey) -> str:
    """The condition that tells of a write that failed."""
    if key.name.endswith(f"-{MEILISEARCH}"):
        return MEILISEARCH_READY
    mongodb = kind == STATEFUL_SET or key.name.endswith(
        (f"-{MONGODB}", f"-{MONGODB}-0", "-librechat-secrets")
    )
    return MONGODB_READY if mongodb else CONFIG_GENERATED


FRAME: Final = KindFrame(
    kind=PALENA_UI,
    order=(GATEWAY_READY, MONGODB_READY, MEILISEARCH_READY, CONFIG_GENERATED, READY),
    ready_reason="UIReady",
    ready_message="the chat is ready",
    blames=_blames,
)


def decide(o: UiObservation, now: datetime) -> Plan:
    """What to do next for this UI, and the status that it has now."""
    return frame.decide(
        o.subject, FRAME, findings=lambda spec: _Chat(o, spec).findings(), stages=lambda: stages(o), now=now
    )


def decide_failure(o: UiObservation, error: ApiError, now: datetime) -> Plan:
    """What to report after a step failed."""
    return frame.decide_failure(o.subject, FRAME, error, now)


def stages(o: UiObservation) -> tuple[Stage, ...]:
    """The virtual key and its copy go; what is to outlive the UI is let go; the rest is collected."""
    keys = [Target(LITELLM_VIRTUAL_KEY, each) for each in o.keys.live]
    copy = o.live.get((SECRET, o.names.gateway_key))
    copies = [Target(SECRET, copy)] if copy is not None and is_owned_by(copy, o.owner) else []
    return (
        Stage("the virtual key", targets=keys, unknown=o.keys.unknown),
        Stage("the copy of the virtual key", targets=copies),
        Stage("the data that is kept", steps=tuple(_kept(o))),
    )


def _kept(o: UiObservation) -> Iterator[Step]:
    """Conversations, and the Secret without which nobody can read them, for a UI of the same name.

    They are kept whenever it is not clear that they are to be deleted.
    """
    if o.subject.live.spec.get("deletionPolicy", "Retain") == "Delete":
        return
    volume = o.live.get((PERSISTENT_VOLUME_CLAIM, o.names.mongodb_claim))
    yield from spared(o.owner, o.live.get((STATEFUL_SET, o.names.mongodb)), volume)
    yield from released(o.owner, [(SECRET, o.live.get((SECRET, o.names.secrets)))])


class _Chat:
    """One live UI with a spec that can be read."""

    def __init__(self, o: UiObservation, spec: PalenaUISpec) -> None:
        self._o = o
        self._spec = spec
        self._stores = Stores(o, spec, self._describe)
        self._key = gateway_key(o, spec)
        self._configuration = configured(o, spec)
        self._hash = config_hash(self._configuration.text) if self._configuration.text else ""
        self._shape = ChatShape(
            names=o.names,
            namespace=o.namespace,
            spec=spec,
            describe=self._describe,
            api_key=self._key.place,
            mongo_uri=self._stores.mongo_uri,
            config_hash=self._hash,
            domain=o.domain,
        )

    def _describe(self, name: str, component: str) -> dict[str, Any]:
        return metadata(self._o.owner, name, component)

    def findings(self) -> Findings:
        """All steps, and what they came to."""
        stores = self._stores
        verdicts = (
            gateway_ready(self._o.gateway, self._o.namespace),
            stores.mongodb_ready(),
            stores.meilisearch_ready(),
            self._config_generated(),
            *self._available(),
        )
        steps = (
            *self._key.steps,
            *stores.secret.steps,
            *stores.mongodb_steps(),
            *stores.meilisearch_steps(),
            *applied(self._o.owner, self._chat()),
            *self._superfluous(),
            *stores.growth(),
        )
        return Findings(verdicts, steps, self._fields(), self._notices())

    # --- LibreChat -----------------------------------------------------------------------------------

    def _chat(self) -> tuple[Desired, ...]:
        """LibreChat and what it mounts, its configuration first, so that no Pod starts with the last one."""
        if not self._configuration.text:
            return ()
        text = configuration(self._o.names, self._describe, self._configuration.text)
        volume = self._data() if self._spec.persistence.enabled else ()
        deployment = self._deployment()
        runs = deployment or self._o.ours(DEPLOYMENT, self._o.names.librechat) is not None
        return (self._o.desired(CONFIG_MAP, text), *volume, *deployment, *(self._ways_in() if runs else ()))

    def _data(self) -> tuple[Desired, ...]:
        volume = self._data_volume()
        return (
            self._o.desired(
                PERSISTENT_VOLUME_CLAIM, data_claim(self._shape, volume.size, volume.storage_class)
            ),
        )

    def _data_volume(self) -> Volume:
        wanted = Volume(self._spec.persistence.size, self._spec.persistence.storage_class_name)
        return self._stores.fitting(self._o.names.data, wanted)

    def _deployment(self) -> tuple[Desired, ...]:
        """Only with everything that its environment is made from: what runs keeps its last one meanwhile."""
        stores = self._stores
        if self._key.verdict is not None or not stores.secret.complete or stores.secret.problem:
            return ()
        if stores.mongo_uri.secret != self._o.names.secrets and not stores.external_uri.valid:
            return ()
        shape = replace(self._shape, secret_hash=secret_hash(self._secret_values()))
        return (self._o.desired(DEPLOYMENT, chat_deployment(shape)),)

    def _ways_in(self) -> tuple[Desired, ...]:
        service = self._o.desired(SERVICE, chat_service(self._shape))
        if not self._spec.ingress.enabled:
            return (service,)
        return service, self._o.desired(INGRESS, chat_ingress(self._shape))

    def _superfluous(self) -> tuple[Step, ...]:
        name = self._o.names.librechat
        ingress = None if self._spec.ingress.enabled else self._o.live.get((INGRESS, name))
        return removed(self._o.owner, [(INGRESS, ingress)])

    def _secret_values(self) -> dict[str, str]:
        """What comes from Secrets into LibreChat's environment; what does not exist counts as empty."""
        return {
            f"{each.secret}/{each.key}": self._values(each.secret).get(each.key, "")
            for each in referred(environment(self._shape))
        }

    def _values(self, secret: str) -> dict[str, str]:
        if secret == self._o.names.secrets:
            return dict(self._stores.secret.values)
        return values_of(self._o.secrets.get(secret) or self._o.live.get((SECRET, secret)))

    # --- what it came to -----------------------------------------------------------------------------

    def _config_generated(self) -> Verdict:
        """The first trouble, errors before what passes by itself."""
        found = [self._key.verdict, self._configuration.verdict, *self._sign_in(), self._taken()]
        troubles = [each for each in found if each is not None]
        if troubles:
            return max(troubles, key=lambda each: each.weight)
        return fine(CONFIG_GENERATED, "ConfigGenerated", f"configuration {self._hash[:12]} is generated")

    def _sign_in(self) -> list[Verdict]:
        """Secrets of the sign-in without which LibreChat's Pods do not start."""
        oidc = self._spec.auth.oidc
        references = [oidc.client_id_ref, oidc.client_secret_ref] if oidc.enabled else []
        found = [
            read_key(self._o.secrets.get(each.name), self._o.namespace, each.name, each.key)
            for each in references
            if each is not None
        ]
        return [each.verdict(CONFIG_GENERATED) for each in found if not each.valid]

    def _taken(self) -> Verdict | None:
        taken = conflict(self._o.owner, self._chat())
        return failed(CONFIG_GENERATED, NAME_CONFLICT, taken) if taken else None

    def _available(self) -> tuple[Verdict, ...]:
        """What readiness needs beyond the conditions: LibreChat itself, rolled out."""
        found = self._replicas
        if found.available:
            return ()
        message = f"{found.ready} of {self._spec.replicas} replicas of LibreChat are ready"
        return (waiting(READY, "DeploymentNotReady", message),)

    @property
    def _replicas(self) -> Replicas:
        return replicas(self._o.ours(DEPLOYMENT, self._o.names.librechat))

    def _notices(self) -> tuple[Notice, ...]:
        told = [
            *self._stores.ignored(),
            self._data_volume().ignored if self._spec.persistence.enabled else "",
        ]
        return tuple(Notice(IMMUTABLE_FIELD_IGNORED, each) for each in told if each)

    def _fields(self) -> dict[str, Any]:
        names, o = self._o.names, self._o
        meilisearch = meilisearch_url(names, o.namespace, o.domain) if self._spec.meilisearch.enabled else ""
        managed = self._spec.mongodb.mode == "managed"
        mongodb = f"{names.mongodb}.{o.namespace}.svc.{o.domain}:{MONGODB_PORT}" if managed else ""
        return {
            "url": self._shape.url,
            "serviceName": names.librechat,
            "configHash": self._hash,
            "endpoints": {"mongodb": mongodb, "meilisearch": meilisearch},
            "mcpServers": [_told(each, o.domain) for each in o.servers],
            "replicas": self._spec.replicas,
            "readyReplicas": self._replicas.ready,
        }


def _told(server: FoundServer, domain: str) -> dict[str, Any]:
    return {
        "name": server.target.name,
        "namespace": server.target.namespace,
        "alias": server.reference.key,
        "url": mcp_entry(server, domain).url if server.usable else "",
        "found": server.usable,
        "ready": server.usable and server.target.ready,
    }
