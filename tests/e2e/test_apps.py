"""The life of applications: installed by the real helm from the charts that Git has, behind the real gateway.

What is played are the operators of the applications, whose charts are others' and bring their kinds alone,
and the containers: so a release is Ready when the server says that its own objects are.
"""

import base64
from collections.abc import Iterator

import pytest

from hack.dev.apps import instance_name
from hack.dev.view import condition
from tests.e2e.app_stand import APPLICATIONS, INSTANCES, RELEASES, TARGET, AppStand, app_stand
from tests.e2e.conftest import delivered

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

DATA = f"/api/v1/namespaces/{TARGET}/persistentvolumeclaims/odysseus-demo-data"
PASSWORD = f"/api/v1/namespaces/{TARGET}/secrets/odysseus-demo-internal"
DEPLOYMENT = f"/apis/apps/v1/namespaces/{TARGET}/deployments/odysseus-demo"
BYSTANDER = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "hermes-demo-notes", "namespace": TARGET},
}
"""Named like an object of an instance, and somebody else's."""


@pytest.fixture(scope="module")
def stand(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AppStand]:
    """With a running operator and one instance of each application, all Ready."""
    directory = tmp_path_factory.mktemp("apps")
    with app_stand(delivered(directory), directory) as stand:
        for app in APPLICATIONS:
            stand.make(app)
        stand.start_operator()
        for app in APPLICATIONS:
            stand.until_instance(app, "Ready")
        yield stand


def model_of(stand: AppStand) -> str:
    """The model that the deployed Odysseus is told."""
    containers = (stand.get(DEPLOYMENT) or {})["spec"]["template"]["spec"]["containers"]
    (app,) = [each for each in containers if each["name"] == "app"]
    (found,) = [each["value"] for each in app["env"] if each["name"] == "ODYSSEUS_DEFAULT_MODEL"]
    return str(found)


def password(stand: AppStand) -> bytes:
    """What was generated for Odysseus; empty while it was not."""
    data = (stand.get(PASSWORD) or {}).get("data") or {}
    return base64.b64decode(data.get("password", ""))


def assert_installed_by_helm(stand: AppStand) -> None:
    for app in APPLICATIONS:
        status = stand.until_instance(app, "Ready")["status"]
        assert status["accessGuardReady"] is True
        assert status["localURL"] == f"https://demo.{app}.magicstick.local/"
        assert stand.stored(app) == {1: "deployed"}
        (snapshot,) = stand.history(app)
        assert snapshot["chartName"] == f"magicstick-{app}-instance"
        assert snapshot["chartVersion"].startswith("0.1.0+")
        for obj in stand.installed(app):
            annotations = obj["metadata"]["annotations"]
            assert annotations["meta.helm.sh/release-name"] == instance_name(app), obj["metadata"]


def refuse_bad_values(stand: AppStand) -> None:
    """A user's mistake is told in the words of the chart's schema, and costs nobody anything."""
    before = {app: stand.stored(app) for app in APPLICATIONS}
    stand.make("odysseus", {"storage": {"size": "much"}})
    told = stand.until_instance("odysseus", "Degraded", "UpgradeFailed")
    message = condition(told, "Ready")["message"]
    assert "/instance/values/storage/size" in message or "instance.values.storage.size" in message
    assert {app: stand.stored(app) for app in APPLICATIONS} == before
    for app in APPLICATIONS:
        if app != "odysseus":
            stand.until_instance(app, "Ready")


def change_a_model(stand: AppStand) -> None:
    """An upgrade reaches what runs, and keeps what was generated and what is stored."""
    stand.until("a password to be generated", lambda: password(stand))
    before = (password(stand), stand.uid(DATA), stand.uid(DEPLOYMENT))
    stand.make("odysseus", {"model": "openai/another"})
    stand.until_upgraded("odysseus", 2)
    assert model_of(stand) == "another"
    assert (password(stand), stand.uid(DATA), stand.uid(DEPLOYMENT)) == before
    assert stand.stored("hermes") == {1: "deployed"}


def change_a_chart(stand: AppStand) -> None:
    """Git has another revision: every release follows it, as its reconcileStrategy says."""
    stand.commit("openclaw", "0.2.0")
    stand.until_upgraded("openclaw", 2)
    assert stand.history("openclaw")[0]["chartVersion"].startswith("0.2.0+")
    for app in APPLICATIONS:
        stand.until_upgraded(app, 3 if app == "odysseus" else 2)


def suspend(stand: AppStand) -> None:
    """Nobody gets in any more, and what runs goes on running, untouched by Git."""
    before = (stand.uid(DEPLOYMENT), stand.uid(DATA))
    stand.make("odysseus", {"model": "later"}, enabled=False)
    stand.until_instance("odysseus", "Suspended")
    assert stand.release("odysseus")["spec"]["suspend"] is True
    assert not [each for each in stand.own("odysseus") if each.startswith(("httproutes", "securitypolicies"))]
    stand.commit("openclaw", "0.3.0")
    stand.until_upgraded("openclaw", 3)
    assert stand.stored("odysseus") == {1: "superseded", 2: "superseded", 3: "deployed"}
    assert (stand.uid(DEPLOYMENT), stand.uid(DATA)) == before
    assert model_of(stand) == "another"


def delete(stand: AppStand, app: str) -> None:
    """All of its own goes, and nothing else."""
    before, own = stand.everything(), stand.own(app)
    rendered = [obj["metadata"]["uid"] for obj in stand.installed(app)]
    assert set(rendered) <= set(own.values()), "everything that the chart renders says whose it is"
    stand.delete(f"{INSTANCES}/{instance_name(app)}")
    stand.until_gone(f"{INSTANCES}/{instance_name(app)}")
    stand.until_gone(f"{RELEASES}/{instance_name(app)}")
    stand.until(f"all of {app} to go", lambda: not stand.own(app))
    assert stand.stored(app) == {}
    expected = {name: uid for name, uid in before.items() if name not in own}
    assert {name: uid for name, uid in stand.everything().items() if name in before} == expected


@pytest.mark.req("MS-126", "MS-165", "MS-185", "MS-187", "MS-189", "MS-193", "MS-194")
def test_applications_live_through_mistakes_upgrades_suspension_and_removal(stand: AppStand) -> None:
    stand.cluster.apply([BYSTANDER])
    assert_installed_by_helm(stand)
    refuse_bad_values(stand)
    change_a_model(stand)
    change_a_chart(stand)
    suspend(stand)
    delete(stand, "odysseus")  # suspended as it is: it is resumed, so that helm takes it away
    for app in ("hermes", "paperclip"):
        delete(stand, app)
    for app in ("openclaw", "kubeopencode"):
        stand.until_instance(app, "Ready")


def test_the_same_name_can_be_had_again_and_an_operator_that_crashes_does_no_harm(stand: AppStand) -> None:
    before = stand.uid(f"{INSTANCES}/kubeopencode-demo")
    stand.delete(f"{INSTANCES}/kubeopencode-demo")
    stand.kill_operator()
    stand.start_operator()
    stand.until_gone(f"{INSTANCES}/kubeopencode-demo")
    stand.make("kubeopencode")
    stand.until_instance("kubeopencode", "Ready")
    assert stand.uid(f"{INSTANCES}/kubeopencode-demo") not in ("", before)
    assert stand.stored("kubeopencode") == {1: "deployed"}
