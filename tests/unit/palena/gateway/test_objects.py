"""What gateways and models are made of, as files that people can read and review."""

from typing import Any

import pytest

from magicstick.api.kinds import CNPG_CLUSTER, LITELLM_INSTANCE
from magicstick.palena.common.kinds import NETWORK_POLICY, SERVICE, STATEFUL_SET
from magicstick.palena.common.secrets import SECRET
from magicstick.runtime.plan import Apply, Create
from tests.support import golden
from tests.support.palena_gateway_scene import GatewayScene

pytestmark = pytest.mark.anyio

SMALL: dict[str, Any] = {}
LARGE: dict[str, Any] = {
    "database": {
        "managed": {
            "instances": 3,
            "storage": {"size": "50Gi", "storageClassName": "fast"},
            "imageName": "example.com/postgresql:18",
            "resources": {"requests": {"cpu": "1", "memory": "2Gi"}},
            "parameters": {"max_connections": "200"},
            "backup": {"enabled": True, "schedule": "0 3 * * *", "retention": 14, "method": "snapshot"},
        }
    },
    "redis": {
        "managed": {
            "image": "example.com/redis:7",
            "storage": {"size": "2Gi", "storageClassName": "fast"},
            "resources": {"requests": {"cpu": "100m"}, "limits": {"memory": "1Gi"}},
        }
    },
    "litellm": {
        "image": {"repository": "example.com/litellm", "tag": "v1.80.0", "pullPolicy": "IfNotPresent"},
        "replicas": 2,
        "resources": {"limits": {"memory": "2Gi"}},
        "routerSettings": {"routingStrategy": "least-busy", "numRetries": 2},
        "extraEnvVars": [{"name": "LITELLM_LOG", "value": "INFO"}],
        "overrides": {"podDisruptionBudget": {"enabled": True, "minAvailable": 1}},
    },
    "ingress": {
        "enabled": True,
        "className": "nginx",
        "host": "llm.example.com",
        "tls": {"enabled": True, "secretName": "llm-tls"},
    },
    "networkPolicy": {
        "scope": "Namespace",
        "ingressFrom": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "ingress"}}}],
        "cnpgNamespace": "databases",
        "litellmOperatorNamespace": "operators",
    },
    "deletionPolicy": "Retain",
}


@pytest.mark.req("PA-103")
@pytest.mark.parametrize(("name", "spec"), [("small", SMALL), ("large", LARGE)])
async def test_the_objects_of_a_gateway(name: str, spec: dict[str, Any]) -> None:
    scene = GatewayScene(**spec)
    await scene.running()
    made = [each for each in scene.world.log if isinstance(each, Apply | Create)]
    assert {each.kind for each in made} == {
        NETWORK_POLICY,
        CNPG_CLUSTER,
        SECRET,
        SERVICE,
        STATEFUL_SET,
        LITELLM_INSTANCE,
    }
    for step in made:
        body = step.body
        assert body["apiVersion"] == step.kind.api_version
        assert body["kind"] == step.kind.kind
        golden.check(f"palena-gateway/{name}-{body['metadata']['name']}-{body['kind'].lower()}", body)
