"""LibreChat itself: its environment, its ways in, its content (spec: palena §6.3, §6.4)."""

import pytest

from magicstick.palena.common.kinds import (
    DEPLOYMENT,
    INGRESS,
    STATEFUL_SET,
)
from magicstick.palena.common.phases import Outcome
from magicstick.palena.common.secrets import SECRET
from tests.support.palena_chat import (
    SECRET_HASH,
    annotation,
    environment,
    reference,
    text,
)
from tests.support.palena_consumers import UiScene
from tests.support.palena_objects import HOME, secret

pytestmark = pytest.mark.anyio


async def test_the_environment_says_what_is_specified() -> None:
    scene = UiScene(
        host="chat.example.com", ingress={"enabled": True, "tls": {"enabled": True, "secretName": "t"}}
    )
    await scene.running()
    own = "chat-librechat-secrets"

    assert environment(scene) == {
        "HOST": "0.0.0.0",  # noqa: S104 - within its Pod
        "PORT": "3080",
        "SEARCH": "true",
        "MEILI_NO_ANALYTICS": "true",
        "MEILI_HOST": f"http://chat-meilisearch.{HOME}.svc.cluster.local:7700",
        "DOMAIN_CLIENT": "https://chat.example.com",
        "DOMAIN_SERVER": "https://chat.example.com",
        "ALLOW_REGISTRATION": "false",
        "ALLOW_EMAIL_LOGIN": "true",
        "ALLOW_SOCIAL_LOGIN": "false",
        "NO_INDEX": "true",
        "TRUST_PROXY": "1",
        "ENDPOINTS": "custom,agents",
        "MONGO_URI": reference(own, "MONGO_URI"),
        "LITELLM_API_KEY": reference("chat-librechat-gateway-key", "api-key"),
        **{
            each: reference(own, each)
            for each in ("CREDS_KEY", "CREDS_IV", "JWT_SECRET", "JWT_REFRESH_SECRET", "MEILI_MASTER_KEY")
        },
    }
    assert scene.status["url"] == "https://chat.example.com"


async def test_sign_in_with_open_id_is_passed_on_and_its_secrets_are_checked() -> None:
    oidc = {
        "enabled": True,
        "issuer": "https://login.example.com",
        "clientIdRef": {"name": "login", "key": "id"},
        "clientSecretRef": {"name": "login", "key": "secret"},
        "buttonLabel": "Sign in",
    }
    scene = UiScene(auth={"oidc": oidc})
    await scene.running()
    assert scene.condition("ConfigGenerated") == ("False", "SecretNotFound")

    scene.world.put(SECRET, secret("login", {"id": "a", "secret": "b"}))
    await scene.settle()
    env = environment(scene)
    assert scene.condition("ConfigGenerated") == ("True", "ConfigGenerated")
    assert env["ALLOW_SOCIAL_LOGIN"] == "true"
    assert env["OPENID_ISSUER"] == "https://login.example.com"
    assert env["OPENID_CLIENT_SECRET"] == reference("login", "secret")
    assert env["OPENID_SESSION_SECRET"] == reference("chat-librechat-secrets", "OPENID_SESSION_SECRET")
    assert env["OPENID_CALLBACK_URL"] == "/oauth/openid/callback"
    assert env["OPENID_BUTTON_LABEL"] == "Sign in"


async def test_users_environment_wins_and_its_secrets_count_for_the_hash() -> None:
    own = {"name": "REDIS_URI", "valueFrom": {"secretKeyRef": {"name": "cache", "key": "uri"}}}
    scene = UiScene(extraEnv=[{"name": "NO_INDEX", "value": "false"}, own])
    scene.world.put(SECRET, secret("cache", {"uri": "one"}))
    await scene.running()
    assert environment(scene)["NO_INDEX"] == "false"
    before = annotation(scene, SECRET_HASH)
    scene.world.put(SECRET, secret("cache", {"uri": "two"}))
    await scene.settle()

    assert annotation(scene, SECRET_HASH) != before


async def test_an_ingress_is_there_only_while_it_is_wanted() -> None:
    tls = {"enabled": True, "secretName": "certificate"}
    scene = UiScene(host="chat.example.com", ingress={"enabled": True, "className": "nginx", "tls": tls})
    await scene.running()
    assert scene.must(INGRESS, "chat-librechat").spec == {
        "ingressClassName": "nginx",
        "rules": [
            {
                "host": "chat.example.com",
                "http": {
                    "paths": [
                        {
                            "path": "/",
                            "pathType": "Prefix",
                            "backend": {"service": {"name": "chat-librechat", "port": {"number": 3080}}},
                        }
                    ]
                },
            }
        ],
        "tls": [{"hosts": ["chat.example.com"], "secretName": "certificate"}],
    }
    scene.change(ingress={"enabled": False})
    await scene.settle()
    assert scene.world.names(INGRESS) == set()
    assert scene.status["url"] == "http://chat.example.com"


async def test_e20_content_that_cannot_be_merged_is_named_and_the_last_one_stays() -> None:
    scene = UiScene()
    await scene.running()
    before = text(scene)
    scene.change(config={"endpoints": []})
    plan = await scene.settle()

    assert text(scene) == before
    assert scene.condition("ConfigGenerated") == ("False", "InvalidConfig")
    assert scene.message("ConfigGenerated") == "spec.config.endpoints must be an object"
    assert (scene.phase, plan.outcome) == ("Error", Outcome.FAILED)


async def test_a_chat_that_is_not_rolled_out_is_not_ready() -> None:
    scene = UiScene()
    await scene.running()
    scene.report(DEPLOYMENT, "chat-librechat", ready=False)
    await scene.settle()

    assert scene.condition("Ready") == ("False", "DeploymentNotReady")
    assert scene.phase == "Degraded"


async def test_a_settled_chat_writes_nothing() -> None:
    scene = UiScene(mcpServerRefs=[{"name": "websearch"}])
    scene.server()
    await scene.running()
    scene.written()
    before = scene.status
    await scene.settle()

    assert scene.written() == []
    assert scene.status == before


async def test_a_pod_of_a_chat_is_none_of_the_gateways() -> None:
    scene = UiScene()
    await scene.running()

    for kind, name in ((DEPLOYMENT, "chat-librechat"), (STATEFUL_SET, "chat-mongodb")):
        labels = scene.must(kind, name).spec["template"]["metadata"]["labels"]
        assert "palena.ai/gateway" not in labels
        assert labels["palena.ai/ui"] == "chat"
