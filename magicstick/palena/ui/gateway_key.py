"""The key with which a UI asks its gateway (spec: palena §6.2).

One that the gateway mints is made beside the gateway, and copied to the UI where that is elsewhere. None of
the ways falls back to another: a UI never gets more rights than it was given.
"""

from dataclasses import dataclass, field
from typing import Any, Final

from magicstick.api.kinds import LITELLM_VIRTUAL_KEY
from magicstick.api.palena.ui import GatewayKey, PalenaUISpec
from magicstick.palena.common.children import text
from magicstick.palena.common.desired import Desired, applied, conflict, removed
from magicstick.palena.common.owners import manifest, metadata
from magicstick.palena.common.references import REF_NOT_PERMITTED
from magicstick.palena.common.schemas import fit
from magicstick.palena.common.secrets import NAME_CONFLICT, SECRET, SecretValue, copy_of, read_key
from magicstick.palena.common.verdicts import Verdict, failed, waiting
from magicstick.palena.ui.names import GATEWAY_KEY, LIBRECHAT
from magicstick.palena.ui.objects import SecretKey
from magicstick.palena.ui.observation import UiObservation
from magicstick.runtime.plan import Step

CONFIG_GENERATED: Final = "ConfigGenerated"
WAITING_FOR_KEY: Final = "WaitingForGatewayKey"
WAITING_FOR_GATEWAY: Final = "WaitingForGateway"


@dataclass(frozen=True, slots=True)
class KeyState:
    """What there is of the key, and what has to be written for it."""

    place: SecretKey
    """Where LibreChat finds it."""
    verdict: Verdict | None = None
    """Why there is none; None when it is there."""
    steps: tuple[Step, ...] = field(default=(), repr=False)


def gateway_key(o: UiObservation, spec: PalenaUISpec) -> KeyState:
    """The key in the mode that the spec asks for; what another mode has left behind goes."""
    match spec.gateway_key.mode:
        case "secret":
            return _given(o, spec.gateway_key)
        case "masterKey":
            return _master(o)
        case _:
            return _virtual(o, spec.gateway_key)


def _given(o: UiObservation, wanted: GatewayKey) -> KeyState:
    """One that a Secret beside the UI holds; the schema asks for the reference in this mode."""
    reference = wanted.secret_ref
    place = SecretKey(reference.name, reference.key) if reference is not None else SecretKey("", "")
    return KeyState(place, _problem(_value(o, place)), _left_behind(o))


def _master(o: UiObservation) -> KeyState:
    """The gateway's own. It opens everything, so it leaves the gateway's namespace never."""
    if o.gateway.live is None:
        return _waiting(SecretKey("", ""), WAITING_FOR_GATEWAY, "waits for the gateway")
    status = o.gateway.live.status
    place = SecretKey(text(status, "masterKeySecretRef", "name"), text(status, "masterKeySecretRef", "key"))
    if o.gateway.namespace != o.namespace:
        message = (
            f"gatewayKey.mode masterKey needs the gateway in namespace {o.namespace}: "
            "use mode virtualKey for a gateway elsewhere"
        )
        return KeyState(place, failed(CONFIG_GENERATED, REF_NOT_PERMITTED, message), _left_behind(o))
    if not place.secret:
        return _waiting(place, WAITING_FOR_KEY, "waits for the gateway's master key")
    return KeyState(place, _problem(_value(o, place)), _left_behind(o))


def _virtual(o: UiObservation, wanted: GatewayKey) -> KeyState:
    """One that the gateway mints for this UI alone."""
    place = SecretKey(o.names.gateway_key, GATEWAY_KEY)
    if not o.keys.served.met:
        return KeyState(place, o.keys.served.verdict(CONFIG_GENERATED))
    if o.gateway.live is None or not o.gateway.permitted or not o.gateway.instance:
        return _kept(o, place)
    key = Desired(LITELLM_VIRTUAL_KEY, virtual_key(o, wanted), o.keys.wanted)
    if taken := conflict(o.owner, (key,)):
        return KeyState(place, failed(CONFIG_GENERATED, NAME_CONFLICT, taken))
    elsewhere = [
        (LITELLM_VIRTUAL_KEY, each)
        for each in o.keys.live
        if each.metadata.key != (o.gateway.namespace, o.names.librechat)
    ]
    steps = (*applied(o.owner, (key,)), *removed(o.owner, elsewhere))
    minted = read_key(o.keys.minted, o.gateway.namespace, o.names.gateway_key, GATEWAY_KEY)
    if not minted.valid:
        message = f"waits for LiteLLM's operator to mint the key {o.names.librechat}"
        return KeyState(place, waiting(CONFIG_GENERATED, WAITING_FOR_KEY, message), steps)
    return _copied(o, KeyState(place, None, steps), minted)


def _kept(o: UiObservation, place: SecretKey) -> KeyState:
    """A key that was there before the gateway went is used on; without one the gateway is waited for."""
    before = o.live.get((SECRET, o.names.gateway_key))
    if read_key(before, o.namespace, place.secret, place.key).valid:
        return KeyState(place)
    return _waiting(place, WAITING_FOR_GATEWAY, "waits for the gateway, which mints the key")


def _copied(o: UiObservation, state: KeyState, minted: SecretValue) -> KeyState:
    """With a copy of the key beside the UI, where the gateway is elsewhere."""
    if o.gateway.namespace == o.namespace:
        return state
    body = copy_of(o.owner, o.names.gateway_key, LIBRECHAT, o.namespace, {GATEWAY_KEY: minted.value})
    copy = Desired(SECRET, body, o.live.get((SECRET, o.names.gateway_key)))
    if taken := conflict(o.owner, (copy,)):
        return KeyState(state.place, failed(CONFIG_GENERATED, NAME_CONFLICT, taken), state.steps)
    return KeyState(state.place, None, (*state.steps, *applied(o.owner, (copy,))))


def virtual_key(o: UiObservation, wanted: GatewayKey) -> dict[str, Any]:
    """The LiteLLMVirtualKey beside the gateway, as far as the served schema has its fields."""
    limits = {
        "maxBudget": wanted.max_budget,
        "budgetDuration": wanted.budget_duration or None,
        "rpmLimit": wanted.rpm_limit,
        "tpmLimit": wanted.tpm_limit,
    }
    spec = {
        "instanceRef": {"name": o.gateway.instance},
        "keyAlias": f"palena-ui-{o.namespace}-{o.owner.name}",
        "keySecretName": o.names.gateway_key,
        **{name: value for name, value in limits.items() if value is not None},
    }
    described = metadata(o.owner, o.names.librechat, LIBRECHAT, namespace=o.gateway.namespace)
    return fit(manifest(LITELLM_VIRTUAL_KEY, described, spec), o.keys.schema).value


def _left_behind(o: UiObservation) -> tuple[Step, ...]:
    """What the mode virtualKey made, once another is asked for."""
    keys = [(LITELLM_VIRTUAL_KEY, each) for each in o.keys.live]
    copy = (SECRET, o.live.get((SECRET, o.names.gateway_key)))
    return removed(o.owner, (*keys, copy))


def _value(o: UiObservation, place: SecretKey) -> SecretValue:
    return read_key(o.secrets.get(place.secret), o.namespace, place.secret, place.key)


def _problem(value: SecretValue) -> Verdict | None:
    return None if value.valid else value.verdict(CONFIG_GENERATED)


def _waiting(place: SecretKey, reason: str, message: str) -> KeyState:
    return KeyState(place, waiting(CONFIG_GENERATED, reason, message))
