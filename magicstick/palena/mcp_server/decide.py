"""The decision about one MCP server (spec: palena §8.4, §8.5).

The server refuses to start without SearXNG and does without everything else, so it waits for SearXNG alone,
and only before it is there: what runs is never taken away because a sidecar fails. NetworkPolicies come
first, so that no sidecar is open while the rest starts.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final

from magicstick.api.kinds import PALENA_MCP_SERVER
from magicstick.api.palena.mcp_server import PalenaMCPServerSpec
from magicstick.kube.errors import ApiError
from magicstick.kube.kinds import CONFIG_MAP, Kind, ObjectKey
from magicstick.palena.common import frame
from magicstick.palena.common.children import Replicas, replicas
from magicstick.palena.common.desired import Desired, applied, conflict, removed
from magicstick.palena.common.frame import Findings, KindFrame
from magicstick.palena.common.hashes import config_hash
from magicstick.palena.common.kinds import DEPLOYMENT, NETWORK_POLICY, SERVICE
from magicstick.palena.common.owners import Owner, is_foreign, metadata
from magicstick.palena.common.secrets import NAME_CONFLICT, SECRET, SecretState, ensure
from magicstick.palena.common.verdicts import Verdict, failed, fine, waiting
from magicstick.palena.mcp_server.components import SEARXNG, SERVER, SIDECARS, Sidecar
from magicstick.palena.mcp_server.objects import (
    Blueprint,
    Files,
    configuration_map,
    server_deployment,
    server_service,
    settings_map,
    sidecar_deployment,
    sidecar_policy,
    sidecar_service,
)
from magicstick.palena.mcp_server.observation import SIDECAR_KINDS, McpServerObservation, secret_recipe
from magicstick.runtime.conditions import READY
from magicstick.runtime.plan import Plan, Step

SIDECARS_READY: Final = "SidecarsReady"
SERVER_READY: Final = "ServerReady"


def _blames(_kind: Kind, key: ObjectKey) -> str:
    """The condition that tells of a write that failed: by the name it is a sidecar's or the server's own."""
    return SIDECARS_READY if key.name.endswith(_OF_SIDECARS) else SERVER_READY


_OF_SIDECARS: Final = (*(f"-{each}" for each in SIDECARS), f"-{SEARXNG}-config")

FRAME: Final = KindFrame(
    kind=PALENA_MCP_SERVER,
    order=(SIDECARS_READY, SERVER_READY, READY),
    ready_reason="AllComponentsReady",
    ready_message="the MCP server and its sidecars are ready",
    blames=_blames,
)


def decide(o: McpServerObservation, now: datetime) -> Plan:
    """What to do next for this MCP server, and the status that it has now."""
    return frame.decide(
        o.subject,
        FRAME,
        findings=lambda spec: _Server(o, spec).findings(),
        stages=tuple,  # everything goes by its ownerReference
        now=now,
    )


def decide_failure(o: McpServerObservation, error: ApiError, now: datetime) -> Plan:
    """What to report after a step failed."""
    return frame.decide_failure(o.subject, FRAME, error, now)


class _Server:
    """One live MCP server with a spec that can be read."""

    def __init__(self, o: McpServerObservation, spec: PalenaMCPServerSpec) -> None:
        self._o = o
        self._spec = spec
        self._blueprint = _blueprint(o, spec)
        self._files: Files = self._blueprint.files()
        self._wanted = tuple(each for each in self._blueprint.sidecars if each.enabled)
        self._ours = tuple(each for each in self._wanted if each.ours)

    def findings(self) -> Findings:
        """All steps, and what they came to."""
        verdicts = (self._sidecars_ready(), self._server_ready())
        return Findings(verdicts, self._steps(), self._fields())

    # --- steps -------------------------------------------------------------------------------------

    def _steps(self) -> tuple[Step, ...]:
        owner = self._o.owner
        server = self._server() if self._may_start() else ()
        return (
            *applied(owner, self._policies()),
            *self._secret().steps,
            *applied(owner, (*self._settings(), *self._sidecars(), *server)),
            *removed(owner, self._superfluous()),
        )

    def _policies(self) -> tuple[Desired, ...]:
        if not self._spec.network_policy.enabled:
            return ()
        return tuple(
            self._o.desired(NETWORK_POLICY, sidecar_policy(self._blueprint, each)) for each in self._ours
        )

    def _secret(self) -> SecretState:
        names = self._o.names
        if not self._runs(SEARXNG):
            return SecretState()
        return ensure(
            secret_recipe(names), self._o.owner, self._o.live.get((SECRET, names.secret)), self._o.fresh
        )

    def _settings(self) -> tuple[Desired, ...]:
        if not self._runs(SEARXNG):
            return ()
        return (self._o.desired(CONFIG_MAP, settings_map(self._blueprint, self._files)),)

    def _sidecars(self) -> tuple[Desired, ...]:
        settings_hash = config_hash(self._files.settings)
        return tuple(
            desired
            for each in self._ours
            for desired in (
                self._o.desired(DEPLOYMENT, sidecar_deployment(self._blueprint, each, settings_hash)),
                self._o.desired(SERVICE, sidecar_service(self._blueprint, each)),
            )
        )

    def _server(self) -> tuple[Desired, ...]:
        return (
            self._o.desired(CONFIG_MAP, configuration_map(self._blueprint, self._files)),
            self._o.desired(DEPLOYMENT, server_deployment(self._blueprint, self._config_hash)),
            self._o.desired(SERVICE, server_service(self._blueprint)),
        )

    def _superfluous(self) -> Iterable[tuple[Kind, Any]]:
        """What a sidecar leaves behind that is switched off, or that somebody else runs now."""
        for each in self._blueprint.sidecars:
            kept: tuple[Kind, ...] = SIDECAR_KINDS if each.ours else ()
            if not self._spec.network_policy.enabled:
                kept = tuple(kind for kind in kept if kind != NETWORK_POLICY)
            name = self._o.names.sidecar(each.name)
            yield from ((kind, self._o.live.get((kind, name))) for kind in SIDECAR_KINDS if kind not in kept)
        if not self._runs(SEARXNG):
            yield CONFIG_MAP, self._o.live.get((CONFIG_MAP, self._o.names.settings))

    # --- what they came to --------------------------------------------------------------------------

    def _sidecars_ready(self) -> Verdict:
        wanted = (*self._policies(), *self._settings(), *self._sidecars())
        if taken := conflict(self._o.owner, wanted):
            return failed(SIDECARS_READY, NAME_CONFLICT, taken)
        if (secret := self._secret()).problem:
            return failed(SIDECARS_READY, secret.problem, secret.message)
        missing = [each.name for each in self._ours if not self._is_ready(each)]
        if not missing:
            return fine(SIDECARS_READY, "AllSidecarsReady", "all sidecars are ready")
        message = f"not ready: {', '.join(missing)}"
        return waiting(SIDECARS_READY, "SidecarsNotReady", message, degrades=self._server_replicas.available)

    def _server_ready(self) -> Verdict:
        if taken := conflict(self._o.owner, self._server()):
            return failed(SERVER_READY, NAME_CONFLICT, taken)
        if not self._may_start():
            message = "the server starts once SearXNG is ready"
            return waiting(SERVER_READY, "WaitingForSearXNG", message)
        found = self._server_replicas
        if found.available:
            return fine(SERVER_READY, "DeploymentReady", "the MCP server is ready")
        message = f"{found.ready} of {self._spec.replicas} replicas are ready"
        return waiting(SERVER_READY, "DeploymentNotReady", message)

    def _may_start(self) -> bool:
        return self._o.names.server in self._existing_deployments() or all(
            self._is_ready(each) for each in self._ours if each.name == SEARXNG
        )

    def _existing_deployments(self) -> set[str]:
        return {
            name
            for (kind, name), live in self._o.live.items()
            if kind == DEPLOYMENT and not is_foreign(live, self._o.owner)
        }

    def _runs(self, name: str) -> bool:
        return any(each.name == name for each in self._ours)

    def _is_ready(self, sidecar: Sidecar) -> bool:
        """Of one that somebody else runs nothing is known, so it counts as ready."""
        return not sidecar.ours or self._replicas(self._o.names.sidecar(sidecar.name)).available

    def _replicas(self, name: str) -> Replicas:
        live = self._o.live.get((DEPLOYMENT, name))
        return Replicas() if is_foreign(live, self._o.owner) else replicas(live)

    @property
    def _server_replicas(self) -> Replicas:
        return self._replicas(self._o.names.server)

    @property
    def _config_hash(self) -> str:
        return config_hash(self._files.configuration)

    def _fields(self) -> dict[str, Any]:
        ready = sum(map(self._is_ready, self._wanted))
        return {
            "endpoint": self._blueprint.url,
            "configHash": self._config_hash,
            "sidecars": [self._told(each) for each in self._blueprint.sidecars],
            "sidecarsSummary": f"{ready}/{len(self._wanted)}",
            "replicas": self._spec.replicas,
            "readyReplicas": self._server_replicas.ready,
        }

    def _told(self, sidecar: Sidecar) -> dict[str, Any]:
        return {
            "name": sidecar.name,
            "enabled": sidecar.enabled,
            "external": sidecar.enabled and not sidecar.ours,
            "endpoint": self._blueprint.endpoint(sidecar),
            "ready": sidecar.enabled and self._is_ready(sidecar),
        }


def _blueprint(o: McpServerObservation, spec: PalenaMCPServerSpec) -> Blueprint:
    owner: Owner = o.owner

    def describe(name: str, component: str) -> dict[str, Any]:
        return metadata(owner, name, component, role="server" if component == SERVER else "")

    return Blueprint(owner.name, owner.namespace, spec, o.domain, describe)
