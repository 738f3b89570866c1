"""What a chat keeps secret, and what it keeps its data in (spec: palena §6.2, §6.3, §10, fault F19)."""

import pytest

from magicstick.kube.kinds import ObjectKey
from magicstick.palena.common.kinds import (
    DEPLOYMENT,
    PERSISTENT_VOLUME_CLAIM,
    SERVICE,
    STATEFUL_SET,
)
from magicstick.palena.common.phases import Outcome
from magicstick.palena.common.secrets import SECRET
from magicstick.runtime.plan import Apply
from tests.support.palena_chat import SECRET_HASH, annotation, environment, reference, template, text
from tests.support.palena_consumers import UiScene
from tests.support.palena_objects import HOME, secret, values

pytestmark = pytest.mark.anyio


async def test_generated_secrets_fit_what_libre_chat_asks_for_and_are_made_once() -> None:
    scene = UiScene()
    await scene.running()
    made = values(scene.must(SECRET, "chat-librechat-secrets"))
    sizes = {"CREDS_KEY": 64, "CREDS_IV": 32, "JWT_SECRET": 64, "JWT_REFRESH_SECRET": 64}

    assert {name: len(made[name]) for name in sizes} == sizes
    assert len(made["MEILI_MASTER_KEY"]) >= 16
    assert made["MONGO_ROOT_USERNAME"] == "librechat"
    password = made["MONGO_ROOT_PASSWORD"]
    host = f"chat-mongodb.{HOME}.svc.cluster.local:27017"
    assert made["MONGO_URI"] == f"mongodb://librechat:{password}@{host}/LibreChat?authSource=admin"
    scene.change(image={"tag": "v0.9.0"})
    await scene.settle()
    assert values(scene.must(SECRET, "chat-librechat-secrets")) == made


async def test_e33_a_key_of_a_later_release_is_added_and_the_others_stay() -> None:
    scene = UiScene()
    await scene.running()
    made = values(scene.must(SECRET, "chat-librechat-secrets"))
    old = secret("chat-librechat-secrets", {key: made[key] for key in made if key != "OPENID_SESSION_SECRET"})
    live = scene.must(SECRET, "chat-librechat-secrets")
    scene.world.change(SECRET, HOME, "chat-librechat-secrets", data=old["data"])
    await scene.settle()
    now = values(scene.must(SECRET, "chat-librechat-secrets"))

    assert len(now["OPENID_SESSION_SECRET"]) == 64
    assert {key: value for key, value in now.items() if key != "OPENID_SESSION_SECRET"} == {
        key: value for key, value in made.items() if key != "OPENID_SESSION_SECRET"
    }
    assert live.metadata.uid == scene.must(SECRET, "chat-librechat-secrets").metadata.uid


async def test_f19_a_lost_secret_is_not_made_anew_while_its_volume_lives() -> None:
    scene = UiScene()
    await scene.running()
    kept = scene.must(SECRET, "chat-librechat-secrets")
    before = scene.must(STATEFUL_SET, "chat-mongodb").spec, scene.must(DEPLOYMENT, "chat-librechat").spec
    scene.world.remove(SECRET, HOME, "chat-librechat-secrets")
    scene.written()
    await scene.settle()

    assert scene.find(SECRET, "chat-librechat-secrets") is None
    assert scene.written() == []
    assert (
        scene.must(STATEFUL_SET, "chat-mongodb").spec,
        scene.must(DEPLOYMENT, "chat-librechat").spec,
    ) == before
    assert scene.phase == "Degraded"
    assert scene.condition("MongoDBReady") == ("False", "SecretLost")
    assert "data-chat-mongodb-0" in scene.message("MongoDBReady")

    body = secret("chat-librechat-secrets", values(kept))
    body["metadata"] |= {"labels": kept.metadata.labels}
    scene.world.put(SECRET, body)
    await scene.settle()
    assert scene.phase == "Running"


async def test_f19_a_lost_secret_is_made_anew_when_its_volumes_are_gone() -> None:
    scene = UiScene()
    await scene.running()
    for name in scene.world.names(PERSISTENT_VOLUME_CLAIM):
        scene.world.remove(PERSISTENT_VOLUME_CLAIM, HOME, name)
    scene.world.remove(SECRET, HOME, "chat-librechat-secrets")
    await scene.settle()

    assert scene.find(SECRET, "chat-librechat-secrets") is not None


async def test_secret_values_stand_in_no_status_configuration_or_representation() -> None:
    scene = UiScene()
    await scene.running()
    made = values(scene.must(SECRET, "chat-librechat-secrets"))
    observation = await scene.reconciler.observe(ObjectKey(HOME, "chat"))
    shown = (
        str(scene.status),
        text(scene),
        repr(await scene.plan()),
        repr(observation.fresh),
        str(template(scene)),
    )

    hidden = [made["MONGO_ROOT_PASSWORD"], made["CREDS_KEY"], "sk-minted"]
    assert not [value for value in hidden for each in shown if value in each]


@pytest.mark.req("PA-075")
async def test_mongodb_is_a_stateful_set_behind_a_headless_service_and_its_volume_names_the_chat() -> None:
    scene = UiScene(mongodb={"storage": {"size": "20Gi", "storageClassName": "fast"}})
    await scene.running()
    workload = scene.must(STATEFUL_SET, "chat-mongodb")

    assert workload.spec["serviceName"] == "chat-mongodb"
    assert scene.must(SERVICE, "chat-mongodb").spec["clusterIP"] == "None"
    claim = workload.spec["volumeClaimTemplates"][0]
    assert claim["spec"]["resources"] == {"requests": {"storage": "20Gi"}}
    assert claim["spec"]["storageClassName"] == "fast"
    assert workload.spec["persistentVolumeClaimRetentionPolicy"]["whenDeleted"] == "Retain"
    found = {
        key
        for edge in scene.reconciler.declaration.edges
        if edge.kind == PERSISTENT_VOLUME_CLAIM
        for key in edge.wakes(None, scene.must(PERSISTENT_VOLUME_CLAIM, "data-chat-mongodb-0"))
    }
    assert found == {ObjectKey(HOME, "chat")}


async def test_mongodb_that_is_not_ready_is_waited_for() -> None:
    scene = UiScene()
    await scene.running()
    scene.report(STATEFUL_SET, "chat-mongodb", ready=False)
    plan = await scene.settle()

    assert (scene.phase, plan.outcome) == ("Degraded", Outcome.NOT_READY)
    assert scene.condition("MongoDBReady") == ("False", "StatefulSetNotReady")


async def test_an_external_mongodb_is_used_and_none_is_made() -> None:
    scene = UiScene(mongodb={"mode": "external", "secretRef": {"name": "mongo"}})
    await scene.settle()
    assert scene.condition("MongoDBReady") == ("False", "SecretNotFound")
    assert scene.phase == "Error"
    scene.world.put(SECRET, secret("mongo", {"MONGO_URI": "postgres://x"}))
    await scene.settle()
    assert scene.condition("MongoDBReady") == ("False", "SecretInvalid")

    scene.world.put(SECRET, secret("mongo", {"MONGO_URI": "mongodb+srv://u:p@db.example.com/x"}))
    await scene.running()
    assert scene.world.names(STATEFUL_SET) == set()
    assert scene.condition("MongoDBReady") == ("True", "ExternalSecretValid")
    assert environment(scene)["MONGO_URI"] == reference("mongo", "MONGO_URI")
    assert scene.phase == "Running"


async def test_f19_a_rotated_external_address_restarts_libre_chat() -> None:
    scene = UiScene(mongodb={"mode": "external", "secretRef": {"name": "mongo"}})
    scene.world.put(SECRET, secret("mongo", {"MONGO_URI": "mongodb://u:one@db.example.com"}))
    await scene.running()
    before = annotation(scene, SECRET_HASH)
    scene.world.put(SECRET, secret("mongo", {"MONGO_URI": "mongodb://u:two@db.example.com", "other": "x"}))
    await scene.settle()
    after = annotation(scene, SECRET_HASH)
    assert after != before

    scene.world.put(SECRET, secret("mongo", {"MONGO_URI": "mongodb://u:two@db.example.com", "other": "y"}))
    await scene.settle()
    assert annotation(scene, SECRET_HASH) == after


async def test_a_managed_mongodb_that_is_given_up_leaves_its_volume() -> None:
    scene = UiScene(deletionPolicy="Delete")
    await scene.running()
    assert (
        scene.must(STATEFUL_SET, "chat-mongodb").spec["persistentVolumeClaimRetentionPolicy"]["whenDeleted"]
        == "Delete"
    )
    scene.world.put(SECRET, secret("mongo", {"MONGO_URI": "mongodb://u:p@db.example.com"}))
    scene.change(mongodb={"mode": "external", "secretRef": {"name": "mongo"}})
    scene.written()
    await scene.settle()

    about = [step for step in scene.written() if step.kind == STATEFUL_SET]
    assert isinstance(about[0], Apply)
    assert about[0].body["spec"]["persistentVolumeClaimRetentionPolicy"]["whenDeleted"] == "Retain"
    assert scene.world.names(STATEFUL_SET) == set()
    assert "data-chat-mongodb-0" in scene.world.names(PERSISTENT_VOLUME_CLAIM)


async def test_search_can_be_switched_off() -> None:
    scene = UiScene()
    await scene.running()
    scene.change(meilisearch={"enabled": False})
    await scene.settle()

    assert scene.world.names(DEPLOYMENT) == {"chat-librechat"}
    assert "chat-meilisearch" not in scene.world.names(PERSISTENT_VOLUME_CLAIM)
    assert scene.condition("MeiliSearchReady") == ("True", "Disabled")
    assert environment(scene)["SEARCH"] == "false"
    assert "MEILI_HOST" not in environment(scene)


async def test_each_minor_version_of_meilisearch_has_an_index_of_its_own() -> None:
    folders = []
    for image in (
        "getmeili/meilisearch:v1.12.3",
        "getmeili/meilisearch:v1.12.4",
        "getmeili/meilisearch:v1.13.0",
        "x@sha256:1",
    ):
        scene = UiScene(meilisearch={"image": image})
        await scene.settle()
        env = scene.must(DEPLOYMENT, "chat-meilisearch").spec["template"]["spec"]["containers"][0]["env"]
        folders.append(next(each["value"] for each in env if each["name"] == "MEILI_DB_PATH"))

    assert folders == [
        "/meili_data/v1.12.ms",
        "/meili_data/v1.12.ms",
        "/meili_data/v1.13.ms",
        "/meili_data/data.ms",
    ]


async def test_volumes_grow_and_do_not_shrink() -> None:
    scene = UiScene()
    await scene.running()
    scene.change(persistence={"size": "5Gi"}, mongodb={"storage": {"size": "4Gi"}})
    plan = await scene.settle()
    assert scene.must(PERSISTENT_VOLUME_CLAIM, "chat-librechat-data").spec["resources"]["requests"] == {
        "storage": "10Gi"
    }
    assert {each.reason for each in plan.notices} == {"ImmutableFieldIgnored"}
    assert len(plan.notices) == 2

    scene.world.storage_class("fast", grows=True)
    for name in ("chat-librechat-data", "data-chat-mongodb-0"):
        spec = {**scene.must(PERSISTENT_VOLUME_CLAIM, name).spec, "storageClassName": "fast"}
        scene.world.change(PERSISTENT_VOLUME_CLAIM, HOME, name, spec=spec)
    scene.change(persistence={"size": "50Gi"}, mongodb={"storage": {"size": "80Gi"}})
    await scene.settle()
    sizes = {
        name: scene.must(PERSISTENT_VOLUME_CLAIM, name).spec["resources"]["requests"]["storage"]
        for name in ("chat-librechat-data", "data-chat-mongodb-0")
    }
    assert sizes == {"chat-librechat-data": "50Gi", "data-chat-mongodb-0": "80Gi"}
    template_ = scene.must(STATEFUL_SET, "chat-mongodb").spec["volumeClaimTemplates"][0]
    assert template_["spec"]["resources"]["requests"] == {"storage": "8Gi"}


@pytest.mark.parametrize(("grows", "phase"), [(False, "Bound"), (True, "Pending")])
async def test_a_volume_that_cannot_grow_now_is_told_and_holds_up_nothing_else(
    *, grows: bool, phase: str
) -> None:
    scene = UiScene()
    await scene.running()
    scene.world.storage_class("fast", grows=grows)
    claims = ("chat-librechat-data", "data-chat-mongodb-0", "chat-meilisearch")
    for name in claims:
        spec = {**scene.must(PERSISTENT_VOLUME_CLAIM, name).spec, "storageClassName": "fast"}
        scene.world.change(PERSISTENT_VOLUME_CLAIM, HOME, name, spec=spec, status={"phase": phase})
    before = {name: scene.must(PERSISTENT_VOLUME_CLAIM, name).spec for name in claims}
    large = {"storage": {"size": "80Gi"}}
    scene.change(persistence={"size": "50Gi"}, mongodb=large, meilisearch=large)
    plan = await scene.settle()
    assert {name: scene.must(PERSISTENT_VOLUME_CLAIM, name).spec for name in claims} == before
    assert scene.phase == "Running"
    assert [each.reason for each in plan.notices] == ["ImmutableFieldIgnored"] * 3
    assert all("cannot grow" in each.message for each in plan.notices)
