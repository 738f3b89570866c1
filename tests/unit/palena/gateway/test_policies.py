"""Between all Pods that there may be around a gateway, exactly the paths of the specification are open."""

from collections.abc import Mapping
from typing import Any

import pytest

from magicstick.palena.gateway.policies import Reach, policies, policy_names
from tests.support.network_policies import Endpoint, paths

HOME, GATEWAY = "ai-gateway", "gw"
OF_THE_GATEWAY = {"palena.ai/gateway": GATEWAY}
REDIS = {"app.kubernetes.io/name": "redis", "app.kubernetes.io/instance": GATEWAY}


def litellm(gateway: str, namespace: str = HOME, name: str = "") -> Endpoint:
    """As the LiteLLM operator labels its Pods (spec: palena §3.2)."""
    labels = {
        "app.kubernetes.io/name": "litellm",
        "app.kubernetes.io/managed-by": "litellm-operator",
        "litellm.palena.ai/instance": f"{gateway}-palena-litellm",
    }
    return Endpoint(name or f"{gateway}-litellm", namespace, labels, (4000, 9090))


def postgres(gateway: str, name: str = "") -> Endpoint:
    """As CloudNativePG labels its Pods, with what the Cluster makes them inherit (spec: palena §3.1)."""
    labels = {
        "cnpg.io/cluster": f"{gateway}-palena-pg",
        "cnpg.io/podRole": "instance",
        "palena.ai/gateway": gateway,
    }
    return Endpoint(name or f"{gateway}-postgres", HOME, labels, (5432, 8000, 9187))


def redis(gateway: str) -> Endpoint:
    labels = {
        "app.kubernetes.io/name": "redis",
        "app.kubernetes.io/instance": gateway,
        "palena.ai/gateway": gateway,
    }
    return Endpoint(f"{gateway}-redis", HOME, labels, (6379,))


ENDPOINTS = (
    litellm(GATEWAY),
    Endpoint("migration", HOME, litellm(GATEWAY).labels),
    litellm(GATEWAY, "elsewhere", "impostor"),
    litellm("other"),
    postgres(GATEWAY),
    postgres(GATEWAY, "replica"),
    Endpoint("join-job", HOME, {k: v for k, v in postgres(GATEWAY).labels.items() if k != "cnpg.io/podRole"}),
    postgres("other"),
    redis(GATEWAY),
    redis("other"),
    Endpoint("chat", HOME, {"app.kubernetes.io/name": "librechat", "palena.ai/ui": "chat"}, (3080,)),
    Endpoint("cnpg", "cnpg-system", {"app.kubernetes.io/name": "cloudnative-pg"}),
    Endpoint("neighbour-of-cnpg", "cnpg-system", {"app.kubernetes.io/name": "other"}),
    Endpoint("false-cnpg", HOME, {"app.kubernetes.io/name": "cloudnative-pg"}),
    Endpoint("litellm-operator", "litellm-operator-system", {"app.kubernetes.io/name": "litellm-operator"}),
    Endpoint("proxy", "ingress", {"app": "proxy"}, namespace_labels={"role": "ingress"}),
    Endpoint("stranger", "elsewhere", {}),
)
OURS = {"gw-litellm", "gw-postgres", "replica", "gw-redis"}
EVERYONE = {each.name for each in ENDPOINTS}

DATABASE = {
    (source, target, port)
    for target in ("gw-postgres", "replica")
    for source in ("gw-postgres", "replica", "join-job", "cnpg")
    for port in (5432, 8000)
    if source != target
} | {
    (source, target, 5432) for target in ("gw-postgres", "replica") for source in ("gw-litellm", "migration")
}
CACHE = {(source, "gw-redis", 6379) for source in ("gw-litellm", "migration")}
ANYONE_TO_LITELLM = {(source, "gw-litellm", 4000) for source in EVERYONE - {"gw-litellm"}}


def describe(name: str, component: str) -> dict[str, Any]:
    return {"name": name, "namespace": HOME, "labels": {"app.kubernetes.io/component": component}}


def reach(**fields: Any) -> Reach:
    return Reach(
        **{
            "gateway": GATEWAY,
            "namespace": HOME,
            "gateway_labels": OF_THE_GATEWAY,
            "redis_labels": REDIS,
            **fields,
        }
    )


def to_ours(found: set[tuple[str, str, int]]) -> set[tuple[str, str, int]]:
    return {path for path in found if path[1] in OURS}


@pytest.mark.req("PA-037", "PA-038", "PA-039", "PA-040")
def test_exactly_the_paths_of_the_specification_are_open() -> None:
    open_paths = paths(ENDPOINTS, policies(reach(), describe))
    assert to_ours(open_paths) == DATABASE | CACHE | ANYONE_TO_LITELLM


def test_nothing_else_in_the_namespace_is_shut_off() -> None:
    open_paths = paths(ENDPOINTS, policies(reach(), describe))
    unrestricted = paths(ENDPOINTS, ())
    assert {path for path in unrestricted if path[1] not in OURS} <= open_paths


def test_whoever_may_come_in_can_be_limited_without_breaking_the_sync_of_models() -> None:
    peer: Mapping[str, Any] = {"namespaceSelector": {"matchLabels": {"role": "ingress"}}}
    open_paths = paths(ENDPOINTS, policies(reach(ingress_from=(peer,)), describe))
    sources = {source for source, target, _ in open_paths if target == "gw-litellm"}
    own_namespace = {each.name for each in ENDPOINTS if each.namespace == HOME} - {"gw-litellm"}
    assert sources == own_namespace | {"proxy", "litellm-operator"}
    assert to_ours(open_paths) - {path for path in open_paths if path[1] == "gw-litellm"} == DATABASE | CACHE


def test_the_default_deny_can_reach_the_whole_namespace() -> None:
    open_paths = paths(ENDPOINTS, policies(reach(whole_namespace=True), describe))
    at_home = {each.name for each in ENDPOINTS if each.namespace == HOME}
    assert {path for path in open_paths if path[1] in at_home} == DATABASE | CACHE | ANYONE_TO_LITELLM


@pytest.mark.parametrize(("missing", "kept"), [("database", CACHE), ("redis", DATABASE)])
def test_what_is_external_needs_no_path(missing: str, kept: set[tuple[str, str, int]]) -> None:
    made = policies(reach(**{missing: False}), describe)
    found = {each["metadata"]["name"] for each in made}
    assert found == {
        name
        for name in policy_names(GATEWAY)
        if ("postgres" in name or "cnpg" in name if missing == "database" else "to-redis" in name) is False
    }
    assert to_ours(paths(ENDPOINTS, made)) == kept | ANYONE_TO_LITELLM


def test_each_policy_is_needed() -> None:
    made = policies(reach(), describe)
    whole = paths(ENDPOINTS, made)
    for left_out in made[1:]:
        rest = [each for each in made if each is not left_out]
        assert paths(ENDPOINTS, rest) != whole, left_out["metadata"]["name"]


def test_the_default_deny_alone_shuts_every_pod_that_is_marked_as_the_gateways() -> None:
    open_paths = paths(ENDPOINTS, policies(reach(), describe)[:1])
    assert {target for _, target, _ in open_paths} & OURS == {"gw-litellm"}
