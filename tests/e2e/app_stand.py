"""A whole cluster with the real Envoy Gateway, on which instances are installed by the real helm."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from hack.dev.appliance import NAMESPACE, OURS, install
from hack.dev.apps import instance_name, instance_of
from hack.dev.view import condition, phase_of
from hack.devcluster import WITH_GATEWAY, DevCluster
from hack.devcluster.rest import Object
from tests.charts import foreign
from tests.charts.rendering import APPS, render
from tests.e2e.stand import Stand

INSTANCES: Final = f"{OURS}/appinstances"
RELEASES: Final = f"/apis/helm.toolkit.fluxcd.io/v2/namespaces/{NAMESPACE}/helmreleases"
TARGET: Final = "ai"
APPLICATIONS: Final = APPS
READY_S: Final = 180.0
WATCHED: Final = (
    *(f"/api/v1/namespaces/{TARGET}/{plural}" for plural in ("configmaps", "services", "secrets")),
    f"/api/v1/namespaces/{TARGET}/persistentvolumeclaims",
    *(f"/apis/apps/v1/namespaces/{TARGET}/{plural}" for plural in ("deployments", "statefulsets")),
    f"/apis/networking.k8s.io/v1/namespaces/{TARGET}/networkpolicies",
    "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    *(
        f"/apis/{version}/namespaces/{TARGET}/{file.split('_')[1].removesuffix('.yaml')}"
        for (version, _), file in foreign.FILES.items()
    ),
    "/apis/gateway.networking.k8s.io/v1/httproutes",
    "/apis/gateway.envoyproxy.io/v1alpha1/securitypolicies",
    RELEASES,
    INSTANCES,
)
"""All collections that an instance, or what installs it, has objects in."""


class AppStand(Stand):
    """See the module."""

    # -- acting -------------------------------------------------------------------------------------

    def make(self, app: str, values: Mapping[str, Any] | None = None, **spec: Any) -> None:
        """Create or change the instance of an application as a user would."""
        body: dict[str, Any] = dict(instance_of(app))
        body["spec"] = {**body["spec"], **spec}
        body["spec"]["values"] = {**body["spec"]["values"], **(values or {})}
        self.cluster.rest.apply(body, field_manager="user")

    def commit(self, app: str, version: str) -> None:
        """Give the chart of an application another version."""
        file = self.tree / "charts" / app / "Chart.yaml"
        lines = file.read_text().splitlines()
        changed = [f"version: {version}" if line.startswith("version:") else line for line in lines]
        file.write_text("\n".join(changed) + "\n")

    # -- reading ------------------------------------------------------------------------------------

    def instance(self, app: str) -> Object:
        """The instance of an application; empty when it is not there."""
        return self.get(f"{INSTANCES}/{instance_name(app)}") or {}

    def release(self, app: str) -> Object:
        """Its HelmRelease; empty when it is not there."""
        return self.get(f"{RELEASES}/{instance_name(app)}") or {}

    def history(self, app: str) -> list[Object]:
        """What Flux says of its revisions, newest first."""
        return list(self.release(app).get("status", {}).get("history", ()))

    def stored(self, app: str) -> dict[int, str]:
        """The revisions that helm has of it, and how each stands."""
        selector = f"labelSelector=owner%3Dhelm,name%3D{instance_name(app)}"
        found = self.cluster.rest.get(f"/api/v1/namespaces/{TARGET}/secrets?{selector}")["items"]
        labels = [each["metadata"]["labels"] for each in found]
        return {int(each["version"]): each["status"] for each in labels}

    def everything(self) -> dict[str, str]:
        """The uid of each object of the watched kinds, by collection and name; without helm's records."""
        return {
            f"{path.rsplit('/', 1)[1]}/{item['metadata']['name']}": item["metadata"]["uid"]
            for path in WATCHED
            for item in self.cluster.rest.get(path)["items"]
            if item.get("type") != "helm.sh/release.v1"
        }

    def own(self, app: str) -> dict[str, str]:
        """The part of `everything` that is labelled as made for the instance of an application."""
        name = instance_name(app)
        return {
            f"{path.rsplit('/', 1)[1]}/{item['metadata']['name']}": item["metadata"]["uid"]
            for path in WATCHED
            for item in self.cluster.rest.get(path)["items"]
            if item["metadata"].get("labels", {}).get("appliance.magicstick.dev/appinstance") == name
            or (path == INSTANCES and item["metadata"]["name"] == name)
        }

    def installed(self, app: str) -> list[Object]:
        """What stands of that which the chart renders by itself, each as the server has it."""
        values = self.release(app)["spec"]["values"]["instance"]
        rendered = render(app, values["values"], **{k: v for k, v in values.items() if k != "values"})
        return [self.cluster.rest.get(self.cluster.rest.path_of(obj)) for obj in rendered]

    # -- waiting ------------------------------------------------------------------------------------

    def until_instance(self, app: str, phase: str, reason: str | None = None) -> Object:
        """Wait until an instance is reported in this phase, for its present spec; as it was then."""

        def reached() -> Object | None:
            found = self.instance(app)
            says = condition(found, "Ready").get("reason") if found else None
            return found if found and phase_of(found) == phase and reason in (None, says) else None

        return self.until(f"{app} to be {phase}", reached, deadline_s=READY_S)

    def until_upgraded(self, app: str, version: int) -> None:
        """Wait until a revision is what is deployed, and the instance says Ready."""
        self.until(
            f"{app} to have revision {version}",
            lambda: self.stored(app).get(version) == "deployed",
            deadline_s=READY_S,
        )
        self.until_instance(app, "Ready")

    def describe(self) -> str:
        """Instances and their releases too, a line each."""
        listed = [item for path in (INSTANCES, RELEASES) for item in self.cluster.rest.get(path)["items"]]
        lines = [
            f"{item['metadata']['name']}: {item.get('status', {}).get('phase', '')} "
            f"{dict(condition(item, 'Ready'))}"
            for item in listed
        ]
        return "\n".join([*lines, super().describe()])


@contextmanager
def app_stand(tree: Path, directory: Path) -> Iterator[AppStand]:
    """The cluster, with everything of ours but the operator's Pod, and what schemas of others there are."""
    with DevCluster.start(WITH_GATEWAY, source=tree) as cluster:
        cluster.add_node("node-0")
        cluster.apply([made for kind in foreign.FILES if (made := foreign.definition(kind)) is not None])
        install(cluster, print, tree)
        stand = AppStand(cluster, tree, directory)
        try:
            yield stand
        finally:
            stand.stop_operator()
