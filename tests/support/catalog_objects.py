"""Objects for tests of the model catalog: Models, activations, and what LiteLLM has."""

from collections.abc import Mapping
from typing import Any

import msgspec

from magicstick.kube.objects import Resource
from magicstick.model_catalog.desired import Sources, desired_routes
from magicstick.model_catalog.inventory import Deployment
from magicstick.model_catalog.plan import SyncPlan, Verb, plan
from magicstick.runtime.logs import Secret

MODEL_LABEL = "appliance.magicstick.dev/modelactivation"
KUBEAI_BASE = "http://kubeai.ai.svc.cluster.local/openai/v1"
MASTER_KEY = Secret("sk-master-CHANGEME")
ENDPOINT = "http://demo.ai.svc.cluster.local:8091/v1"


def resource(body: Mapping[str, Any]) -> Resource:
    return msgspec.convert(body, Resource)


def model(
    name: str = "demo",
    *,
    ready: object = 1,
    owner: str | None = None,
    features: tuple[str, ...] = ("TextGeneration",),
    engine: str = "VLLM",
    args: tuple[str, ...] = (),
    annotations: Mapping[str, str] | None = None,
    dying: bool = False,
) -> Resource:
    """A KubeAI Model."""
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": "ai",
        "uid": f"uid-{name}",
        "resourceVersion": "1",
        "labels": {MODEL_LABEL: owner} if owner else {},
        "annotations": dict(annotations or {}),
    }
    if dying:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return resource(
        {
            "apiVersion": "kubeai.org/v1",
            "kind": "Model",
            "metadata": metadata,
            "spec": {"features": list(features), "engine": engine, "args": list(args)},
            "status": {"replicas": {"all": 1, "ready": ready}},
        }
    )


def activation(
    name: str = "demo",
    *,
    type_: str = "local",
    enabled: object = True,
    ready: str | None = "True",
    observed: int = 2,
    endpoint: str = "",
    dying: bool = False,
    phase: str = "Reconciling",
    namespace: str = "ai",
    **content: Any,
) -> Resource:
    """A ModelActivation of generation 2; `content` is its `local` or `external`."""
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": "ai-system",
        "uid": f"uid-{name}",
        "resourceVersion": "1",
        "generation": 2,
    }
    if dying:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    conditions = [{"type": "RuntimeReady", "status": ready, "observedGeneration": observed}] if ready else []
    return resource(
        {
            "apiVersion": "appliance.magicstick.dev/v1alpha1",
            "kind": "ModelActivation",
            "metadata": metadata,
            "spec": {"type": type_, "enabled": enabled, "targetNamespace": namespace, type_: content},
            "status": {"phase": phase, "runtimeEndpoint": endpoint, "conditions": conditions},
        }
    )


def external(name: str = "cloud", **content: Any) -> Resource:
    """A ModelActivation of another provider's model."""
    return activation(name, type_="external", ready=None, **{"model": "openai/gpt-demo", **content})


def freetoken(name: str = "demo", **changes: Any) -> Resource:
    return activation(name, **{"engine": "FreeToken", "endpoint": ENDPOINT, **changes})


def realtime(name: str = "demo", profile: str = "qwen3-omni", **changes: Any) -> Resource:
    return activation(name, **{"realtime": {"profile": profile}, "endpoint": ENDPOINT, **changes})


def deployment(
    name: str, id_: str | None = None, *, params: Mapping[str, Any] | None = None, **info: Any
) -> Deployment:
    """What LiteLLM shows of one model; foreign and stored, unless `info` says else."""
    given = {"id": id_, "db_model": True, **info} if id_ is not None else info
    return Deployment(name, dict(params or {"model": f"openai/{name}"}), given)


def managed(name: str, id_: str | None = None, source: str = "kubeai", **info: Any) -> Deployment:
    """One of ours, as an earlier version left it."""
    return deployment(name, id_, **{"ai_appliance_managed": True, "ai_appliance_source": source, **info})


def routes(sources: Sources) -> Mapping[str, Any]:
    return desired_routes(sources, KUBEAI_BASE).routes


def applied(existing: tuple[Deployment, ...], todo: SyncPlan) -> tuple[Deployment, ...]:
    """What LiteLLM has once everything was carried out: it merges, and masks keys."""
    by_id = {each.id: each for each in existing if each.id}
    nameless = tuple(each for each in existing if not each.id)
    for going in todo.withdrawals:
        del by_id[going.id]
    for put in (*todo.updates, *todo.creations):
        before = by_id.pop(put.id, None)
        if put.verb is Verb.CREATE:
            assert before is None, "an id that is taken"
        old = before if before is not None and put.verb is Verb.UPDATE else Deployment("", {}, {})
        body: Any = put.body
        params = {**old.params, **body["litellm_params"]}
        info = {**old.info, **body["model_info"], "db_model": True}
        if "api_key" in params:
            params["api_key"] = "*****"
        by_id[put.id] = Deployment(body["model_name"], params, info)
    return (*by_id.values(), *nameless)


def replan(sources: Sources, existing: tuple[Deployment, ...]) -> SyncPlan:
    return plan(desired_routes(sources, KUBEAI_BASE), existing, MASTER_KEY)
