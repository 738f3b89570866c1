"""Which Pods KubeAI (0.23.2) makes of a Model, and which it replaces: values only, no requests.

- A profile is named with a count, `<name>:<count>`; every quantity of it is multiplied by the count.
- Pods are called `model-<model>-<hash>-…`; the hash is that of what the Pod is made of. Pods of another
  hash are replaced: those that are not Ready at once, the others one at a time, while all are Ready.
- A JSON patch of the configuration that does not fit is ignored, and nothing says so.

Pods that are being deleted do not count.
"""

import copy
import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from hack.devcluster.actors.following import DIRECTIONS, Object, condition
from hack.devcluster.actors.kubeai_chart import GROUP, VERSION, Config

HASH_LABEL: Final = "pod-hash"
MODEL_LABEL: Final = "model"
PORT_ANNOTATION: Final = "model-pod-port"
PLAYED: Final = f"{DIRECTIONS}/kubelet"
"""On Pods whose kubelet is played here and not by kwok."""
PORT: Final = 8000
OLLAMA: Final = "OLlama"
NOWHERE: Final = {f"{DIRECTIONS}/nowhere": "true"}
"""A node selector that no node matches."""

_QUANTITY: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)([A-Za-z]*)")


class UnknownProfileError(ValueError):
    """The Model names a profile that this KubeAI did not read when it started, or none at all."""


@dataclass(frozen=True, slots=True)
class PodPlan:
    """What is done next: first `delete`, then `create` so many."""

    delete: tuple[Object, ...] = ()
    create: int = 0


# --- resource profiles -------------------------------------------------------------------------------


def profile_of(model: Object, config: Config) -> tuple[Object, int]:
    """A Model's profile and its count.

    Raises:
        UnknownProfileError: there is no such profile, or the reference is malformed.
    """
    reference = str(model["spec"].get("resourceProfile", ""))
    name, colon, count = reference.partition(":")
    if not colon or not count.isdigit():
        raise UnknownProfileError(f"invalid resource profile: {reference!r}, should match <name>:<multiple>")
    if name not in config.profiles:
        raise UnknownProfileError(f"resource profile not found: {name!r}")
    return config.profiles[name], int(count)


def multiplied(quantities: Mapping[str, Any] | None, count: int) -> dict[str, str]:
    """Every quantity so many times.

    Raises:
        UnknownProfileError: a quantity cannot be read.
    """
    return {name: _times(str(quantity), count) for name, quantity in (quantities or {}).items()}


def _times(quantity: str, count: int) -> str:
    match = _QUANTITY.fullmatch(quantity)
    if match is None:
        raise UnknownProfileError(f"quantities must match {_QUANTITY.pattern}, not {quantity!r}")
    number = Decimal(match[1]) * count
    plain = number.to_integral_value() if number == number.to_integral_value() else number
    return f"{plain:f}{match[2]}"


# --- the Pod of a Model ------------------------------------------------------------------------------


def pod_for(model: Object, config: Config, *, nowhere: bool = False) -> dict[str, Any]:
    """The Pod that serves a Model; it has its hash in a label and no name yet.

    Args:
        model: the Model.
        config: what KubeAI has read.
        nowhere: no node is to be found for it.

    Raises:
        UnknownProfileError: KubeAI refuses the Model.
    """
    profile, count = profile_of(model, config)
    spec: dict[str, Any] = {
        "nodeSelector": {**profile.get("nodeSelector", {}), **(NOWHERE if nowhere else {})},
        "tolerations": list(profile.get("tolerations", [])),
        "containers": [_container(model, config, profile, count)],
        "volumes": [{"name": "dshm", "emptyDir": {"medium": "Memory"}}],
    }
    for name in ("affinity", "runtimeClassName", "schedulerName"):
        if profile.get(name):
            spec[name] = profile[name]
    spec = patched(spec, config.patches)
    meta = model["metadata"]
    digest = hashlib.sha256(json.dumps(spec, sort_keys=True).encode()).hexdigest()[:10]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": f"model-{meta['name']}-{digest}-",
            "namespace": meta["namespace"],
            "labels": {**pod_labels(model), HASH_LABEL: digest},
            "annotations": {PORT_ANNOTATION: str(PORT), PLAYED: "kubeai"},
            "ownerReferences": [owner_of(model)],
        },
        "spec": spec,
    }


def pod_labels(model: Object) -> dict[str, str]:
    """The Model's own, with KubeAI in place of who made the Model, and the two by which Pods are found."""
    meta = model["metadata"]
    return {
        **meta.get("labels", {}),
        "app": "model",
        MODEL_LABEL: meta["name"],
        "app.kubernetes.io/managed-by": "kubeai",
    }


def owner_of(model: Object) -> dict[str, Any]:
    """The Model as the controller of its Pods."""
    meta = model["metadata"]
    return {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": "Model",
        "name": meta["name"],
        "uid": meta["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def _container(model: Object, config: Config, profile: Object, count: int) -> dict[str, Any]:
    spec, name = model["spec"], model["metadata"]["name"]
    engine, args, env = spec["engine"], list(spec.get("args", [])), dict(spec.get("env", {}))
    if engine == OLLAMA:
        env = {"OLLAMA_HOST": f"0.0.0.0:{PORT}", "OLLAMA_KEEP_ALIVE": "999999h", **env}
    else:
        args = [f"--model={spec['url'].partition('://')[2]}", f"--served-model-name={name}", *args]
    probe = (
        {} if engine != OLLAMA else {"startupProbe": _pull_and_copy(spec["url"].partition("://")[2], name)}
    )
    images = config.images.get(engine, {})
    fallback = f"registry.example.com/{engine.lower()}:default"
    return {
        "name": "server",
        "image": spec.get("image") or images.get(str(profile.get("imageName", "default")), fallback),
        "args": args,
        "env": [{"name": key, "value": env[key]} for key in sorted(env)],
        "ports": [{"name": "http", "containerPort": PORT, "protocol": "TCP"}],
        "resources": {
            "requests": multiplied(profile.get("requests"), count),
            "limits": multiplied(profile.get("limits"), count),
        },
        "volumeMounts": [{"name": "dshm", "mountPath": "/dev/shm"}],  # noqa: S108 - of a container
        **probe,
    }


def _pull_and_copy(source: str, alias: str) -> dict[str, Any]:
    """Ollama has to run already when the model is pulled; the copy is what makes the model's own name."""
    script = f"/bin/ollama pull {source} && /bin/ollama cp {source} {alias}"
    return {
        "exec": {"command": ["bash", "-c", script]},
        "periodSeconds": 3,
        "failureThreshold": 10,
        "timeoutSeconds": 10800,
    }


# --- JSON patches ------------------------------------------------------------------------------------


def patched(spec: Mapping[str, Any], patches: Iterable[Object]) -> dict[str, Any]:
    """A Pod's spec after JSON patches (`add`, `replace`, `remove`; paths begin at the Pod).

    All or nothing, as KubeAI applies them: one that does not fit leaves the Pod as it was.
    """
    pod: dict[str, Any] = {"spec": copy.deepcopy(dict(spec))}
    try:
        for patch in patches:
            _patch(pod, patch)
    except (KeyError, IndexError, ValueError, TypeError):
        return dict(spec)
    changed: dict[str, Any] = pod["spec"]
    return changed


def _patch(pod: dict[str, Any], patch: Object) -> None:
    *way, last = (part.replace("~1", "/").replace("~0", "~") for part in str(patch["path"]).split("/")[1:])
    parent: Any = pod
    for part in way:
        parent = parent[int(part)] if isinstance(parent, list) else parent[part]
    operation, is_list = patch["op"], isinstance(parent, list)
    key: Any = int(last) if is_list and last != "-" else last
    if operation == "add" and is_list:
        parent.insert(len(parent) if key == "-" else key, copy.deepcopy(patch["value"]))
    elif operation == "add":
        parent[key] = copy.deepcopy(patch["value"])
    elif operation == "replace":
        _ = parent[key]  # what is not there cannot be replaced
        parent[key] = copy.deepcopy(patch["value"])
    elif operation == "remove":
        del parent[key]
    else:
        raise ValueError(operation)


# --- how many, and which to replace ------------------------------------------------------------------


def bounded(model: Object) -> int | None:
    """How many replicas KubeAI wants of a Model: what was scaled to, within the bounds.

    None where somebody else scales it and has not said.
    """
    spec = model["spec"]
    replicas: int | None = spec.get("replicas")
    if spec.get("autoscalingDisabled"):
        return replicas
    least = int(spec.get("minReplicas", 0))
    wanted = max(least, least if replicas is None else replicas)
    return min(wanted, int(spec["maxReplicas"])) if "maxReplicas" in spec else wanted


def pod_plan(model: Object, wanted: Object, pods: Iterable[Object], surge: int) -> PodPlan:
    """What to do next so that these Pods become what is wanted.

    Args:
        model: its spec says how many, after `bounded`.
        wanted: what each should be.
        pods: all that live and are called the Model's, whoever made them.
        surge: how many more there may be meanwhile.
    """
    expected = wanted["metadata"]["labels"][HASH_LABEL]
    youngest_first = sorted(pods, key=lambda pod: str(pod["metadata"]["creationTimestamp"]), reverse=True)
    live = sorted(youngest_first, key=lambda pod: _deletion_order(pod, expected))
    stale = [pod for pod in live if not _up_to_date(pod, expected)]
    count = int(model["spec"].get("replicas") or 0) + (surge if stale else 0)
    delete = live[: max(0, len(live) - count)]
    create = max(0, count - len(live))
    replaced = 0
    all_ready = sum(map(is_ready, live)) == count
    for pod in stale:
        if is_ready(pod) and not all_ready:
            continue
        if pod not in delete:
            delete.append(pod)
            if replaced < len(stale) - surge:  # the surplus Pod stays away once the others are replaced
                create, replaced = create + 1, replaced + 1
        if is_ready(pod):
            break
    return PodPlan(tuple(delete), create)


def is_ready(pod: Object) -> bool:
    """Whether its kubelet says so."""
    return condition(pod, "Ready").get("status") == "True"


def _up_to_date(pod: Object, expected: str) -> bool:
    return bool(pod["metadata"].get("labels", {}).get(HASH_LABEL) == expected)


def _deletion_order(pod: Object, expected: str) -> tuple[bool, bool, bool]:
    """First those that are not Ready, then those without a node, then those of another hash."""
    return is_ready(pod), bool(pod["spec"].get("nodeName")), _up_to_date(pod, expected)
