"""A model on one gateway: what is to be there, and how far it is (spec: palena §5.3, §5.4).

An entry that cannot be brought on leaves what stands of it: only a gateway that is gone, or that does not
admit the model any more, takes the child with it.
"""

from dataclasses import dataclass, field, replace
from typing import Any, Final

from magicstick.api.kinds import LITELLM_MODEL
from magicstick.api.palena.model import PalenaModelSpec
from magicstick.kube.kinds import Kind, ObjectKey
from magicstick.palena.common.children import condition_of, text
from magicstick.palena.common.desired import Desired, applied, conflict
from magicstick.palena.common.hashes import secret_hash
from magicstick.palena.common.labels import SECRET_HASH
from magicstick.palena.common.owners import is_foreign, metadata
from magicstick.palena.common.phases import Weight
from magicstick.palena.common.prerequisites import CRD_MISSING
from magicstick.palena.common.references import GATEWAY_NOT_FOUND, GATEWAY_NOT_READY, REF_NOT_PERMITTED
from magicstick.palena.common.schemas import fit
from magicstick.palena.common.secrets import NAME_CONFLICT, SECRET, copy_of
from magicstick.palena.common.verdicts import Verdict, absent, failed, fine, waiting
from magicstick.palena.model import names
from magicstick.palena.model.objects import KeySecret, Source, litellm_model
from magicstick.palena.model.observation import GatewayRef, ModelObservation
from magicstick.runtime.plan import Step

SYNCED: Final = "Synced"
SYNCING: Final = "Syncing"
SYNC_FAILED: Final = "SyncFailed"
LICENSE_REQUIRED: Final = "EnterpriseLicenseRequired"
UNHEALTHY: Final = "unhealthy"
COMPONENT: Final = "litellm"

Place = tuple[Kind, ObjectKey]


@dataclass(frozen=True, slots=True)
class Entry:
    """What one gateway came to."""

    ref: GatewayRef
    child: str
    """Name of the LiteLLMModel."""
    verdict: Verdict
    """Of type Synced, about this gateway alone."""
    steps: tuple[Step, ...] = field(default=(), repr=False)
    kept: frozenset[Place] = frozenset()
    """What is not superfluous."""
    dropped: tuple[str, ...] = ()
    """Fields that the LiteLLM operator does not know."""

    @property
    def synced(self) -> bool:
        """Whether the gateway serves the model."""
        return self.verdict.holds

    @property
    def healthy(self) -> bool:
        """Whether the gateway does not know it to be unhealthy."""
        return self._told("health") != UNHEALTHY

    @property
    def ready(self) -> bool:
        """Whether it can be used."""
        return self.synced and self.healthy and self.ref.target.ready

    @property
    def status(self) -> dict[str, Any]:
        """As it stands in `status.gateways`."""
        return {
            "name": self.ref.target.name,
            "namespace": self.ref.namespace,
            "litellmModelRef": self.child,
            "synced": self.synced,
            "ready": self.ready,
            "modelId": self._told("litellmModelId"),
            "health": self._told("health"),
            "reason": self.verdict.reason,
            "message": self.verdict.message,
        }

    def _told(self, name: str) -> str:
        live = self.ref.child
        return text(live.status, name) if live is not None and self.kept else ""


def entry(o: ModelObservation, spec: PalenaModelSpec, ref: GatewayRef) -> Entry:
    """The model on the gateway that `ref` leads to."""
    child = names.child(o.name, ref.target.name)
    found = _unreachable(o, spec, ref, child) or _on_gateway(o, spec, ref, child)
    refused = o.refused.get(ObjectKey(ref.namespace, child)) or o.refused.get(
        ObjectKey(ref.namespace, names.credentials(o.name, ref.target.name))
    )
    return found if refused is None else replace(found, verdict=refused)


def _unreachable(o: ModelObservation, spec: PalenaModelSpec, ref: GatewayRef, child: str) -> Entry | None:
    """Where there is to be no child, and one that there is goes, unless the reason cannot be read."""
    place = ObjectKey(ref.namespace, ref.target.name)
    if ref.target.live is None:
        return Entry(ref, child, absent(SYNCED, GATEWAY_NOT_FOUND, f"PalenaGateway {place} does not exist."))
    if not ref.target.permitted:
        message = f"PalenaGateway {place} does not admit this namespace: see its spec.allowedConsumers."
        kept = _kept(o, ref, child, copies=_copies(o, spec, ref)) if ref.target.unread else frozenset()
        return Entry(ref, child, failed(SYNCED, REF_NOT_PERMITTED, message), kept=kept)
    return None


def _on_gateway(o: ModelObservation, spec: PalenaModelSpec, ref: GatewayRef, child: str) -> Entry:
    kept = _kept(o, ref, child, copies=_copies(o, spec, ref))
    if not ref.target.instance:
        message = f"PalenaGateway {ObjectKey(ref.namespace, ref.target.name)} has no LiteLLM yet."
        return Entry(ref, child, waiting(SYNCED, GATEWAY_NOT_READY, message), kept=kept)
    source = _source(o, spec)
    if isinstance(source, Verdict):
        return Entry(ref, child, source, kept=kept)
    if o.api_key is not None and not o.api_key.valid:
        return Entry(ref, child, o.api_key.verdict(SYNCED), kept=kept)
    return _served(o, spec, Entry(ref, child, _state(o, ref), kept=kept), source)


def _served(o: ModelObservation, spec: PalenaModelSpec, found: Entry, source: Source) -> Entry:
    """With everything that is needed known: the copied key first, then the child."""
    ref = found.ref
    key = _key(o, spec, ref)
    notes = {}
    if o.api_key is not None and key is not None:
        # LiteLLM's operator does not watch the Secret: another value is another object for it.
        notes[SECRET_HASH] = secret_hash({key.key: o.api_key.value})
    described = metadata(o.owner, found.child, COMPONENT, namespace=ref.namespace, annotations=notes)
    body = fit(
        litellm_model(o.name, spec, described, instance=ref.target.instance, source=source, api_key=key),
        o.schema,
    )
    wanted = (*_copied(o, spec, ref), Desired(LITELLM_MODEL, body.value, ref.child))
    if taken := conflict(o.owner, wanted):
        return replace(found, verdict=failed(SYNCED, NAME_CONFLICT, taken))
    return replace(found, steps=applied(o.owner, wanted), dropped=body.dropped)


def _kept(o: ModelObservation, ref: GatewayRef, child: str, *, copies: bool) -> frozenset[Place]:
    kept: set[Place] = {(LITELLM_MODEL, ObjectKey(ref.namespace, child))}
    if copies:
        kept.add((SECRET, ObjectKey(ref.namespace, names.credentials(o.name, ref.target.name))))
    return frozenset(kept)


def _source(o: ModelObservation, spec: PalenaModelSpec) -> Source | Verdict:
    if o.bridged is None:
        return Source(spec.provider.model or "", spec.provider.api_base)
    if o.bridged.source is not None:
        return o.bridged.source
    told = failed if o.bridged.reason == CRD_MISSING else waiting
    return told(SYNCED, o.bridged.reason, o.bridged.message)


# --- the provider's key ------------------------------------------------------------------------------


def _copies(o: ModelObservation, spec: PalenaModelSpec, ref: GatewayRef) -> bool:
    """Whether the key has to be copied: LiteLLM reads Secrets in its own namespace alone."""
    return spec.provider.api_key_secret_ref is not None and ref.namespace != o.namespace


def _key(o: ModelObservation, spec: PalenaModelSpec, ref: GatewayRef) -> KeySecret | None:
    given = spec.provider.api_key_secret_ref
    if given is None:
        return None
    copies = _copies(o, spec, ref)
    return KeySecret(names.credentials(o.name, ref.target.name) if copies else given.name, given.key)


def _copied(o: ModelObservation, spec: PalenaModelSpec, ref: GatewayRef) -> tuple[Desired, ...]:
    """Only the key that is needed, whatever else the Secret holds."""
    given = spec.provider.api_key_secret_ref
    if given is None or o.api_key is None or not _copies(o, spec, ref):
        return ()
    body = copy_of(
        o.owner,
        names.credentials(o.name, ref.target.name),
        COMPONENT,
        ref.namespace,
        {given.key: o.api_key.value},
    )
    return (Desired(SECRET, body, ref.credentials),)


# --- what its operator says --------------------------------------------------------------------------


def _state(o: ModelObservation, ref: GatewayRef) -> Verdict:
    """By its condition: `status.synced` stays true after a later failure (spec: palena §3.3)."""
    child = None if is_foreign(ref.child, o.owner) else ref.child
    told = condition_of(child, SYNCED)
    if told.get("status") == "True":
        return fine(SYNCED, "Synced", f"Gateway {ref.target.name} serves the model.")
    reason = text(told, "reason")
    message = text(told, "message") or f"Waiting for gateway {ref.target.name} to take the model."
    known = {
        SYNC_FAILED: SYNC_FAILED,
        LICENSE_REQUIRED: LICENSE_REQUIRED,
        "InstanceNotReady": GATEWAY_NOT_READY,
    }
    return Verdict(SYNCED, "False", known.get(reason, SYNCING), message, Weight.WAITING)
