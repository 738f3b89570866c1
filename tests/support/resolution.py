"""Resolves models with the shipped catalogs, on nodes that a test describes."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from hack import yamls
from magicstick.kube.objects import Resource
from magicstick.models.hardware import Hardware, NodeFacts
from magicstick.models.kubeai_release import PROFILES, STORE_KEY, STORE_NAME, KubeAi, Profiles
from magicstick.models.observation import Sharing
from magicstick.models.profiles import choose
from magicstick.models.resolve import ModelCatalogs, resolve
from magicstick.models.resolved import (
    ProfileChoice,
    Refusal,
    Resolved,
    ResolvedExternal,
    ResolvedFreeToken,
    ResolvedKubeAi,
    ResolvedRealtime,
)
from tests.support.model_objects import activation
from tests.support.objects import resource
from tests.support.shipped import MODULES, PRESETS, ROOT, TARGETS

CATALOGS: Final = ModelCatalogs(TARGETS, PRESETS, MODULES)
LINUX: Final = {"kubernetes.io/os": "linux"}
AMD_LABELS: Final = {
    "appliance.magicstick.dev/amd-gpu-eligible": "true",
    "appliance.magicstick.dev/amd-vllm-eligible": "true",
    "appliance.magicstick.dev/amd-ollama-eligible": "true",
}
HF: Final = "hf://example/model"
CPU: Final[Mapping[str, Any]] = {"computeTarget": "cpu", "url": HF}
NVIDIA: Final[Mapping[str, Any]] = {"computeTarget": "nvidia-gpu", "url": HF, "vram": "8Gi"}
AMD: Final[Mapping[str, Any]] = {"computeTarget": "amd-gpu", "url": HF, "vram": "8Gi"}
INTEL: Final[Mapping[str, Any]] = {"computeTarget": "intel-gpu", "url": HF, "vram": "8Gi"}
OLLAMA: Final[Mapping[str, Any]] = {"engine": "OLlama", "url": "ollama://qwen:1b"}


def node(name: str = "node-1", *, labels: Mapping[str, str] | None = None, **fields: Any) -> NodeFacts:
    """A Ready amd64 node that publishes what `allocatable` says."""
    given = {"architecture": "amd64", "uid": f"uid-{name}", **fields}
    given["allocatable"] = {"memory": "64Gi", **given.get("allocatable", {})}
    return NodeFacts(name=name, labels={**LINUX, **(labels or {})}, **given)


def amd_node(name: str = "node-1", **fields: Any) -> NodeFacts:
    """An eligible node with one AMD GPU."""
    return node(name, labels=AMD_LABELS, allocatable={"amd.com/gpu": "1"}, **fields)


def outcome(
    local: Mapping[str, Any],
    nodes: Sequence[NodeFacts] = (),
    *,
    name: str = "demo",
    sharing: Sharing | None = None,
    catalogs: ModelCatalogs = CATALOGS,
    **spec: Any,
) -> Resolved | Refusal:
    """What becomes of a local model."""
    given: Resource = activation(name, spec={"type": "local", "local": dict(local), **spec})
    return resolve(given, catalogs, Hardware(tuple(nodes)), sharing)


def resolved(
    local: Mapping[str, Any], nodes: Sequence[NodeFacts] = (), *, name: str = "demo", **spec: Any
) -> ResolvedKubeAi:
    """A model that KubeAI serves; fails with the refusal's message."""
    model = outcome(local, nodes, name=name, **spec)
    assert isinstance(model, ResolvedKubeAi), model
    return model


def resolved_freetoken(local: Mapping[str, Any], nodes: Sequence[NodeFacts] = ()) -> ResolvedFreeToken:
    """A model that FreeToken serves."""
    model = outcome(local, nodes)
    assert isinstance(model, ResolvedFreeToken), model
    return model


def resolved_realtime(
    local: Mapping[str, Any], nodes: Sequence[NodeFacts] = (), **more: Any
) -> ResolvedRealtime:
    """A model that the realtime runtime serves."""
    model = outcome(local, nodes, **more)
    assert isinstance(model, ResolvedRealtime), model
    return model


def resolved_external(spec: Mapping[str, Any]) -> ResolvedExternal:
    """A model that a provider serves."""
    model = resolve(activation(spec=spec), CATALOGS, Hardware())
    assert isinstance(model, ResolvedExternal), model
    return model


def refused(
    local: Mapping[str, Any], nodes: Sequence[NodeFacts] = (), *, name: str = "demo", **more: Any
) -> Refusal:
    """The refusal of a local model; fails when it is resolved."""
    found = outcome(local, nodes, name=name, **more)
    assert isinstance(found, Refusal), found
    return found


def release_object(**spec: Any) -> Resource:
    """KubeAI's HelmRelease as the module ships it."""
    for document in yamls.load_all((ROOT / "manifests/modules/kubeai/release.yaml").read_text()):
        if document and document["kind"] == "HelmRelease":
            document["metadata"] |= {"uid": "uid-release", "generation": 1, "resourceVersion": "5"}
            return resource({**document, "spec": {**document["spec"], **spec}})
    raise LookupError("the module kubeai has no HelmRelease")


def store_object(profiles: Profiles | None = None, text: str | None = None) -> Resource:
    """The profile store with these profiles, or with any text."""
    held = json.dumps({PROFILES: dict(profiles or {})}) if text is None else text
    metadata = {"namespace": "flux-system", "name": STORE_NAME, "uid": "uid-store", "resourceVersion": "7"}
    return resource({"kind": "ConfigMap", "metadata": metadata, "data": {STORE_KEY: held}})


KUBEAI: Final = KubeAi.of(release_object(), store_object())
"""KubeAI as it is shipped, with an empty store."""


def chosen(model: ResolvedKubeAi, kubeai: KubeAi = KUBEAI) -> ProfileChoice:
    """The profile of a model; fails with what it waits for."""
    choice = choose(model, kubeai)
    assert isinstance(choice, ProfileChoice), choice
    return choice
