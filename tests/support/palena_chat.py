"""What tests read of a chat that was decided on."""

from typing import Any, Final

from magicstick.kube.kinds import CONFIG_MAP
from magicstick.palena.common.kinds import DEPLOYMENT
from tests.support.palena_consumers import UiScene
from tests.support.palena_schemas import check

CONFIG_HASH: Final = "operator.palena.ai/config-hash"
SECRET_HASH: Final = "operator.palena.ai/secret-hash"


def text(scene: UiScene) -> str:
    return scene.must(CONFIG_MAP, "chat-librechat-config").data["librechat.yaml"]


def content(scene: UiScene) -> Any:
    return check("librechat", text(scene))


def template(scene: UiScene) -> Any:
    return scene.must(DEPLOYMENT, "chat-librechat").spec["template"]


def annotation(scene: UiScene, name: str = CONFIG_HASH) -> str:
    return str(template(scene)["metadata"]["annotations"][name])


def environment(scene: UiScene) -> dict[str, Any]:
    env = template(scene)["spec"]["containers"][0]["env"]
    assert len({each["name"] for each in env}) == len(env)
    return {each["name"]: each.get("value", each.get("valueFrom")) for each in env}


def reference(name: str, key: str) -> Any:
    return {"secretKeyRef": {"name": name, "key": key}}
