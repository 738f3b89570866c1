"""What instances are made of, whole, as files that people can read."""

import hashlib
from typing import Any

import pytest

from tests.charts.rendering import APPS, CHARTS, Object, own_key, render
from tests.support import golden

FULL: dict[str, Object] = {
    "openclaw": {"storage": {"size": "20Gi"}, "model": "qwen"},
    "hermes": {
        "model": "openai/litellm/org/qwen:8b",
        "storage": {"size": "1.5Ti"},
        "image": {"repository": "registry.example.com/hermes", "tag": "v1", "digest": "sha256:" + "0" * 64},
    },
    "paperclip": {
        "model": "ignored",
        "agentExecution": {
            "defaultModel": "litellm/qwen",
            "openCode": {"runtimeImage": "registry.example.com/r:1"},
        },
        "image": {"repository": "registry.example.com/paperclip", "tag": "v1"},
        "storage": {"size": "6Gi"},
        "database": {"managed": {"storageSize": "11Gi"}},
        "ingress": {"enabled": False, "host": "demo.paperclip.example.com"},
    },
    "kubeopencode": {
        "model": "1e3",
        "template": "coder",
        "agentName": "ignored",
        "agentTemplates": [{"name": "default-coder"}],
        "profile": "Reviews: everything # thoroughly",
        "maxConcurrentTasks": 0,
        "persistence": {"sessions": {"size": "2Gi"}, "workspace": {"size": "20Gi"}},
    },
    "odysseus": {
        "model": "yes",
        "image": {"repository": "registry.example.com/odysseus", "tag": "v1"},
        "storage": {"size": "21Gi"},
        "chroma": {"storage": {"size": "6Gi"}},
        "searxng": {"storage": {"size": "2Gi"}},
        "ntfy": {"storage": {"size": "3Gi"}},
    },
}


@pytest.mark.parametrize("app", APPS)
def test_an_instance_with_nothing_set(app: str) -> None:
    golden.check(f"charts/{app}", readable(app, render(app)))


@pytest.mark.parametrize("app", APPS)
def test_an_instance_with_everything_set_and_its_own_key_in_another_namespace(app: str) -> None:
    objects = render(app, FULL[app], namespace="team-a", litellmKey=own_key(f"{app}-demo"))

    golden.check(f"charts/{app}-full", readable(app, objects))


def readable(app: str, objects: list[Object]) -> Any:
    """The objects, with the name of a file where its whole content or its checksum would be."""
    files: dict[str, str] = {}
    for file in (CHARTS / app / "files").glob("*"):
        files[file.read_text().strip()] = f"<{file.name}>"
        files[hashlib.sha256(file.read_bytes()).hexdigest()] = f"<checksum of {file.name}>"

    def named(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: named(item) for key, item in value.items()}
        if isinstance(value, list):
            return [named(item) for item in value]
        return files.get(value.strip(), value) if isinstance(value, str) else value

    return named(sorted(objects, key=lambda obj: (obj["kind"], obj["metadata"]["name"])))
