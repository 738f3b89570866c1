"""Palena alone on a real control plane, the operators that it drives played, and its state made comparable."""

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from hack.dev.appliance import ANSWER_S, BUSY, NAMESPACE, PALENA, SERVICE_ACCOUNT
from hack.dev.operator import OperatorProcess
from hack.devcluster import DevCluster
from hack.devcluster.actors.definitions import PALENA_CRDS
from hack.devcluster.rest import ApiError, Object
from hack.devcluster.waiting import wait_until
from tests.e2e.stand import Stand
from tests.integration.test_palena_halves import environment, rendered

OPERATOR: Final = f"system:serviceaccount:{NAMESPACE}:{SERVICE_ACCOUNT}"
SPACE: Final = "story"
PALENA_API: Final = "/apis/palena.ai/v1alpha1"
LITELLM_API: Final = "/apis/litellm.palena.ai/v1alpha1"
LANGFUSE_API: Final = "/apis/langfuse.palena.ai/v1alpha1"
CNPG_API: Final = "/apis/postgresql.cnpg.io/v1"
APIS: Final[Mapping[str, str]] = {
    **dict.fromkeys(PALENA.values(), PALENA_API),
    **dict.fromkeys(("litellminstances", "litellmmodels", "litellmvirtualkeys"), LITELLM_API),
    **dict.fromkeys(("clusters", "databases", "databaseroles"), CNPG_API),
    "langfuseinstances": LANGFUSE_API,
    **dict.fromkeys(("deployments", "statefulsets"), "/apis/apps/v1"),
    **dict.fromkeys(("networkpolicies", "ingresses"), "/apis/networking.k8s.io/v1"),
    **dict.fromkeys(("services", "configmaps", "secrets", "persistentvolumeclaims"), "/api/v1"),
}
"""All kinds that Palena makes or drives, by plural."""
PLAYED: Final = frozenset({"Cluster", "LiteLLMInstance", "LiteLLMVirtualKey", "LangfuseInstance"})
"""What belongs to objects of these kinds is their operators' business."""
WITH_SECRETS: Final = (
    "deployments",
    "statefulsets",
    "litellminstances",
    "litellmmodels",
    "langfuseinstances",
)
SECRET_HASH: Final = "operator.palena.ai/secret-hash"
SECRETS_REVISION: Final = "PALENA_SECRETS_REVISION"
"""An annotation and a variable that tell one content of Secrets from another."""
OF_SERVER: Final = frozenset(
    {"uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink"}
)
"""Metadata in which two equal lives differ."""
NOTED_BY_OTHERS: Final = re.compile(r"^(deployment\.kubernetes\.io|pv\.kubernetes\.io|volume\.)")
CHANGES: Final = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"
)
"""Identities and times."""
GIVEN: Final[Mapping[str, frozenset[str]]] = {
    "services": frozenset({"clusterIP", "clusterIPs"}),
    "persistentvolumeclaims": frozenset({"volumeName"}),
}
"""What the server gives a spec."""

State = Mapping[str, Any]


class PalenaStand(Stand):
    """See the module. All of the story happens in the namespace `SPACE`."""

    def __init__(self, cluster: DevCluster, directory: Path) -> None:
        super().__init__(cluster, directory, directory)
        self._folder = directory
        self._environment: dict[str, str] = {}

    def install(self) -> None:
        """As the manifests do it for Palena alone, save the operator's Deployment."""
        objects = rendered(self.cluster, self._folder, "palena", "without-appliance")
        self._environment = environment(objects)
        self.cluster.apply([each for each in objects if each["kind"] != "Deployment"])
        self.cluster.apply(sorted(PALENA_CRDS.glob("*.yaml")))
        self.cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}})

    def start_operator(self) -> None:
        """With the settings and the account that the manifests give it."""
        switches = {name: value for name, value in self._environment.items() if name.endswith(SWITCHES)}
        self._operator = OperatorProcess(self.cluster, self._folder, environment=switches)

    def describe(self) -> str:
        """Everything of Palena's, a line each."""
        return "\n".join(
            f"{kind} {each['metadata']['name']}: {each.get('status', {}).get('phase')} {_open(each)}"
            for kind, plural in PALENA.items()
            for each in self.all_of(plural)
        )

    # -- reading ------------------------------------------------------------------------------------

    def path(self, plural: str, name: str = "") -> str:
        """A collection of the story's namespace, or an object in it."""
        return f"{APIS[plural]}/namespaces/{SPACE}/{plural}{name and '/'}{name}"

    def get(self, path: str) -> Object | None:
        """See `Stand`; a kind that has just come or is about to go is asked for again."""
        answer: list[Object | None] = []

        def answered() -> bool:
            try:
                answer[:] = [super(PalenaStand, self).get(path)]
            except ApiError as error:
                if error.code not in BUSY:
                    raise
            return bool(answer)

        wait_until(answered, f"an answer to {path}", ANSWER_S)
        return answer[0]

    def find(self, plural: str, name: str) -> Object | None:
        """An object of the story; None when it is not there."""
        return self.get(self.path(plural, name))

    def all_of(self, plural: str) -> list[Object]:
        """All objects of a kind; none where the kind is not defined."""
        found = self.get(self.path(plural))
        return [] if found is None else list(found["items"])

    def phase(self, plural: str, name: str) -> str:
        """What is reported of the present spec; "" otherwise."""
        found = self.find(plural, name) or {"metadata": {"generation": 0}}
        status = found.get("status", {})
        current = status.get("observedGeneration") == found["metadata"]["generation"]
        return str(status.get("phase", "")) if current else ""

    def state(self) -> State:
        """All that Palena has made and reported, without what differs between two equal lives."""
        return {
            f"{plural}/{each['metadata']['name']}": essence(plural, each)
            for plural in APIS
            for each in self.all_of(plural)
            if not is_played(each) and each["metadata"]["name"] != "kube-root-ca.crt"
        }

    def orphans(self) -> list[str]:
        """What was made for objects that are gone; the garbage collector finds it, which takes its time."""
        found = [(plural, each["metadata"]) for plural in APIS for each in self.all_of(plural)]
        present = {metadata["uid"] for _, metadata in found}
        return [
            f"{plural}/{metadata['name']}"
            for plural, metadata in found
            for owner in metadata.get("ownerReferences", ())
            if owner["apiVersion"].startswith("palena.ai/") and owner["uid"] not in present
        ]

    def secret_hashes(self) -> dict[str, str]:
        """Of all that is made with Secrets: what tells one content from another."""
        return {
            f"{plural}/{each['metadata']['name']}": found
            for plural in WITH_SECRETS
            for each in self.all_of(plural)
            if not is_played(each)
            for found in _hashes(each)
        }

    # -- acting -------------------------------------------------------------------------------------

    def apply(self, body: Object) -> None:
        """Make or change an object as a user would."""
        metadata = {"namespace": SPACE, **body["metadata"]}
        self.cluster.rest.apply({**body, "metadata": metadata}, field_manager="user")

    def merge(self, plural: str, name: str, body: Object) -> None:
        """Change an object by hand."""
        self.cluster.rest.request(
            "PATCH", self.path(plural, name), body, content_type="application/merge-patch+json"
        )

    def remove(self, plural: str, name: str) -> None:
        """Delete an object as a user would."""
        self.delete(self.path(plural, name))


SWITCHES: Final = ("_ENABLE_APPLIANCE", "_ENABLE_PALENA")


def is_played(obj: Object) -> bool:
    """Whether it belongs to an object of a foreign operator."""
    return any(each["kind"] in PLAYED for each in obj["metadata"].get("ownerReferences", ()))


def essence(plural: str, obj: Object) -> State:
    """An object without identities, times and secret values, and foreign ones without their status."""
    metadata = {name: value for name, value in obj["metadata"].items() if name not in OF_SERVER}
    metadata["annotations"] = {
        name: value
        for name, value in metadata.get("annotations", {}).items()
        if not NOTED_BY_OTHERS.match(name)
    }
    content: dict[str, Any] = {
        name: value for name, value in obj.items() if name not in {"metadata", "status", "apiVersion", "kind"}
    }
    if plural == "secrets":
        content["data"] = sorted(content.get("data", {}))
    if plural in GIVEN:
        content["spec"] = {name: each for name, each in obj["spec"].items() if name not in GIVEN[plural]}
    if plural in PALENA.values():
        content["status"] = _reported(obj)
    cleaned: State = _clean({"metadata": metadata, **content})
    return cleaned


def _reported(obj: Object) -> Mapping[str, Any]:
    status = dict(obj.get("status", {}))
    current = status.pop("observedGeneration", None) == obj["metadata"]["generation"]
    told = [_without(each, "observedGeneration") for each in _conditions(obj)]
    return {**status, "current": current, "conditions": told}


def _without(values: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    return {each: value for each, value in values.items() if each != name}


def _clean(value: Any) -> Any:
    if isinstance(value, Mapping):
        hidden = {SECRET_HASH, *(("value",) if value.get("name") == SECRETS_REVISION else ())}
        return {name: "…" if name in hidden else _clean(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_clean(each) for each in value]
    return CHANGES.sub("…", value) if isinstance(value, str) else value


def _hashes(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        if SECRET_HASH in value:
            yield value[SECRET_HASH]
        if value.get("name") == SECRETS_REVISION:
            yield value["value"]
        for each in value.values():
            yield from _hashes(each)
    if isinstance(value, list):
        for each in value:
            yield from _hashes(each)


def _open(obj: Object) -> list[str]:
    """What is not reached yet, and why."""
    return [
        f"{each['type']}: {each['reason']}: {each['message']}"
        for each in _conditions(obj)
        if each["status"] != "True"
    ]


def _conditions(obj: Object) -> Iterable[Object]:
    return obj.get("status", {}).get("conditions") or ()
