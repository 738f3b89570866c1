"""The decision about one gateway (spec: palena §4.3, §4.6).

NetworkPolicies come first, so that nothing is open while the rest starts. Database, cache and LiteLLM
follow in order: a step that failed ends the pass, one that is only not ready yet does not.
"""

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

from magicstick.api.kinds import CNPG_CLUSTER, PALENA_GATEWAY
from magicstick.api.palena.gateway import NAME_LIMIT, PalenaGatewaySpec
from magicstick.api.palena.shared import NAME_PATTERN
from magicstick.kube.errors import ApiError
from magicstick.kube.kinds import Kind, ObjectKey
from magicstick.palena.common import frame
from magicstick.palena.common.desired import Desired, applied, conflict, removed
from magicstick.palena.common.frame import Findings, KindFrame
from magicstick.palena.common.kinds import NETWORK_POLICY, PERSISTENT_VOLUME_CLAIM, SERVICE, STATEFUL_SET
from magicstick.palena.common.labels import INSTANCE, NAME, OWNER_LABELS
from magicstick.palena.common.owners import labels_of, metadata
from magicstick.palena.common.secrets import NAME_CONFLICT, SECRET
from magicstick.palena.common.verdicts import PREREQUISITES_MET, failed
from magicstick.palena.gateway.cache import cache
from magicstick.palena.gateway.component import DATABASE_READY, GATEWAY_READY, REDIS_READY, Component
from magicstick.palena.gateway.database import database
from magicstick.palena.gateway.ending import stages
from magicstick.palena.gateway.names import KEYS_SUFFIX
from magicstick.palena.gateway.observation import GatewayObservation
from magicstick.palena.gateway.policies import Reach, policies, policy_names
from magicstick.palena.gateway.proxy import proxy, told
from magicstick.palena.gateway.redis import COMPONENT
from magicstick.runtime.conditions import READY
from magicstick.runtime.plan import Plan, Step

INVALID_NAME: Final = "InvalidName"


def _blamed(kind: Kind, key: ObjectKey) -> str:
    """The condition that tells that an object could not be written."""
    if kind == CNPG_CLUSTER:
        return DATABASE_READY
    if kind in (STATEFUL_SET, SERVICE, PERSISTENT_VOLUME_CLAIM):
        return REDIS_READY
    return REDIS_READY if kind == SECRET and not key.name.endswith(KEYS_SUFFIX) else GATEWAY_READY


FRAME: Final = KindFrame(
    kind=PALENA_GATEWAY,
    order=(PREREQUISITES_MET, DATABASE_READY, REDIS_READY, GATEWAY_READY, READY),
    ready_reason="AllComponentsReady",
    ready_message="Database, cache and LiteLLM are ready.",
    blames=_blamed,
)


def decide(o: GatewayObservation, now: datetime) -> Plan:
    """What to do next for this gateway, and the status that it has now."""
    return frame.decide(
        o.subject,
        FRAME,
        findings=lambda spec: _findings(o, spec),
        stages=lambda: stages(o),
        now=now,
    )


def decide_failure(o: GatewayObservation, error: ApiError, now: datetime) -> Plan:
    """What to report after a step failed."""
    return frame.decide_failure(o.subject, FRAME, error, now)


def _findings(o: GatewayObservation, spec: PalenaGatewaySpec) -> Findings:
    if problem := _name_problem(o.name):
        return Findings((failed(READY, INVALID_NAME, problem),), fields={"modelCount": o.models})
    walls = _walls(o, spec)
    reached = tuple(_reached(o, spec))
    if taken := conflict(o.owner, walls):
        reached = (*reached[:2], Component(failed(GATEWAY_READY, NAME_CONFLICT, taken)))
    fields: dict[str, Any] = {**_known(o), **told(o, spec), "modelCount": o.models}
    for each in reached:
        fields |= each.fields
    return Findings(
        verdicts=tuple(each.verdict for each in reached),
        steps=(*_guarded(o, walls), *(step for each in reached for step in each.steps)),
        fields=fields,
        notices=tuple(notice for each in reached for notice in each.notices),
    )


def _known(o: GatewayObservation) -> dict[str, Any]:
    """What was told of parts whose steps may not be reached now."""
    return {
        name: o.subject.live.status[name] for name in ("database", "redis") if name in o.subject.live.status
    }


def _name_problem(name: str) -> str:
    """What is wrong with a name that was stored before the schema refused it (fault F20)."""
    if len(name) <= NAME_LIMIT and re.match(NAME_PATTERN, name):
        return ""
    return (
        f"metadata.name must have at most {NAME_LIMIT} characters, begin with a letter and hold only "
        "lower-case letters, digits and '-': names of other objects are made from it."
    )


def _reached(o: GatewayObservation, spec: PalenaGatewaySpec) -> Iterator[Component]:
    """The steps in order, up to the first that failed."""
    first = database(o, spec)
    yield first
    if not first.succeeded:
        return
    second = cache(o, spec)
    yield second
    if second.succeeded:
        yield proxy(o, spec, may_start=first.verdict.holds and second.verdict.holds)


# --- NetworkPolicies ---------------------------------------------------------------------------------


def _walls(o: GatewayObservation, spec: PalenaGatewaySpec) -> tuple[Desired, ...]:
    wanted = spec.network_policy
    if not wanted.enabled:
        return ()
    of_redis = labels_of(o.owner, COMPONENT)
    reach = Reach(
        gateway=o.name,
        namespace=o.namespace,
        gateway_labels={OWNER_LABELS[PALENA_GATEWAY]: o.name},
        whole_namespace=wanted.scope == "Namespace",
        database=spec.database.mode == "managed",
        redis=spec.redis.mode == "managed",
        redis_labels={name: of_redis[name] for name in (NAME, INSTANCE)},
        ingress_from=wanted.ingress_from,
        cnpg_namespace=wanted.cnpg_namespace or o.site.cnpg_namespace,
        litellm_operator_namespace=(wanted.litellm_operator_namespace or o.site.litellm_operator_namespace),
    )
    bodies = policies(reach, lambda name, component: metadata(o.owner, name, component))
    return tuple(
        Desired(NETWORK_POLICY, each, o.find(NETWORK_POLICY, each["metadata"]["name"])) for each in bodies
    )


def _guarded(o: GatewayObservation, walls: tuple[Desired, ...]) -> tuple[Step, ...]:
    """The policies that there are to be, and the end of those of ours that there are not to be."""
    kept = {each.body["metadata"]["name"] for each in walls}
    superfluous = (
        (NETWORK_POLICY, o.find(NETWORK_POLICY, name)) for name in sorted(policy_names(o.name) - kept)
    )
    return (*applied(o.owner, walls), *removed(o.owner, superfluous))
