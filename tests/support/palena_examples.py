"""Specs of Palena's kinds as people write them; the first of each is the smallest that there is."""

from typing import Any, Final

QUOTA: Final = {"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"memory": "2Gi"}}
S3: Final = {
    "provider": "s3",
    "s3": {
        "bucket": "traces",
        "endpoint": "https://s3.example.com",
        "credentials": {
            "secretRef": {
                "name": "s3-keys",
                "keys": {"accessKeyId": "access_key", "secretAccessKey": "secret_key"},
            }
        },
    },
}

EXAMPLES: Final[dict[str, list[dict[str, Any]]]] = {
    "PalenaGateway": [
        {},
        {
            "database": {
                "mode": "managed",
                "managed": {
                    "instances": 3,
                    "storage": {"size": "50Gi", "storageClassName": "fast"},
                    "resources": QUOTA,
                    "parameters": {"max_connections": "200"},
                    "backup": {
                        "enabled": True,
                        "schedule": "0 0 2 * * *",
                        "retention": 7,
                        "method": "snapshot",
                    },
                },
            },
            "redis": {"managed": {"storage": {"size": "2Gi"}, "resources": QUOTA}},
            "litellm": {
                "image": {"repository": "ghcr.io/berriai/litellm", "tag": "main-stable"},
                "replicas": 2,
                "routerSettings": {"routingStrategy": "least-busy", "numRetries": 2},
                "extraEnvVars": [
                    {"name": "HTTPS_PROXY", "value": "http://proxy.example.com:3128"},
                    {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "tokens", "key": "token"}}},
                ],
                "overrides": {"podDisruptionBudget": {"enabled": True, "minAvailable": 1}},
            },
            "ingress": {"enabled": True, "className": "nginx", "host": "ai.example.com"},
            "networkPolicy": {
                "scope": "Namespace",
                "ingressFrom": [{"namespaceSelector": {"matchLabels": {"team": "one"}}}],
            },
            "allowedConsumers": {"from": "List", "namespaces": ["team-one"]},
            "deletionPolicy": "Retain",
        },
        {
            "database": {"mode": "external", "external": {"secretRef": {"name": "db"}}},
            "redis": {"mode": "external", "external": {"secretRef": {"name": "cache", "urlKey": "url"}}},
            "litellm": {
                "autoscaling": {"enabled": True, "maxReplicas": 5, "targetCPUUtilization": 70},
                "masterKeySecretRef": {"name": "master", "key": "key"},
            },
            "gatewayRoute": {"enabled": True, "host": "ai.example.com", "parentRefs": [{"name": "public"}]},
        },
    ],
    "PalenaModel": [
        {
            "gatewayRefs": [{"name": "gw"}],
            "provider": {
                "model": "openai/gpt-4o",
                "apiKeySecretRef": {"name": "provider-keys", "key": "OPENAI_API_KEY"},
            },
        },
        {
            "gatewayRefs": [{"name": "gw"}, {"name": "gw", "namespace": "team-one"}],
            "modelName": "vendor/Large:latest",
            "provider": {
                "model": "azure/large",
                "apiBase": "https://models.example.com",
                "apiVersion": "2025-01-01",
                "credentialRef": {"name": "azure"},
                "params": {"temperature": 0.2, "extraHeaders": {"X-Team": "one"}},
            },
            "limits": {"rpm": 100, "tpm": 100000, "timeoutSeconds": 60, "maxRetries": 2},
            "routing": {"weight": 3, "order": 1, "tags": ["eu"]},
            "info": {"mode": "chat", "inputCostPerToken": "0.000001"},
        },
        {"gatewayRefs": [{"name": "gw"}], "modelActivationRef": {"name": "qwen"}},
    ],
    "PalenaUI": [
        {
            "gatewayRef": {"name": "gw"},
            "mcpServerRefs": [{"name": "websearch"}],
            "host": "chat.example.com",
        },
        {
            "gatewayRef": {"name": "gw", "namespace": "ai-gateway"},
            "gatewayKey": {
                "mode": "virtualKey",
                "maxBudget": "12.5",
                "budgetDuration": "30d",
                "rpmLimit": 60,
            },
            "mcpServerRefs": [
                {"name": "search", "namespace": "tools", "alias": "web", "timeoutMs": 120000},
                {"name": "search"},
            ],
            "replicas": 2,
            "persistence": {"accessMode": "ReadWriteMany", "size": "50Gi"},
            "host": "chat.example.com",
            "ingress": {"enabled": True, "tls": {"enabled": True, "secretName": "chat-tls"}},
            "auth": {
                "allowEmailLogin": False,
                "oidc": {
                    "enabled": True,
                    "issuer": "https://login.example.com",
                    "clientIdRef": {"name": "oidc", "key": "id"},
                    "clientSecretRef": {"name": "oidc", "key": "secret"},
                },
            },
            "models": {"default": ["chat-large"], "fetch": False, "titleModel": "chat-small"},
            "config": {"interface": {"customWelcome": "Hello"}},
            "extraEnv": [{"name": "USE_REDIS", "value": "true"}],
            "mongodb": {"mode": "external", "secretRef": {"name": "mongo"}},
            "meilisearch": {"enabled": False},
        },
    ],
    "PalenaObservability": [
        {"gatewayRef": {"name": "gw"}, "blobStorage": S3},
        {
            "gatewayRef": {"name": "gw", "namespace": "ai-gateway"},
            "langfuse": {
                "url": "https://langfuse.example.com",
                "web": {"replicas": 2, "extraEnv": [{"name": "A", "value": "b"}]},
                "ingress": {"enabled": True, "host": "langfuse.example.com"},
            },
            "database": {"name": "traces", "owner": "traces"},
            "redis": {"mode": "external", "external": {"secretRef": {"name": "cache"}}},
            "clickhouse": {
                "mode": "external",
                "external": {"secretRef": {"name": "clickhouse", "keys": {"url": "url"}}},
            },
            "blobStorage": {"provider": "gcs", "gcs": {"bucketName": "traces"}},
            "seed": {
                "adminUser": {
                    "email": "admin@example.com",
                    "passwordSecretRef": {"name": "admin", "key": "password"},
                }
            },
            "callback": {"type": "langfuse_otel"},
            "deletionPolicy": "Delete",
        },
    ],
    "PalenaMCPServer": [
        {},
        {
            "replicas": 2,
            "sidecars": {
                "searxng": {"externalURL": "https://search.example.com"},
                "chromium": {"engine": "cdp", "externalURL": "wss://browser.example.com"},
                "presidio": {"mode": "redact", "scoreThreshold": "0.7", "entities": ["PERSON"]},
                "flashrank": {"enabled": False},
                "injectionGuard": {"enabled": True, "mode": "annotate"},
            },
            "search": {"safeSearch": 2, "engines": ["duckduckgo"], "engineRoutes": {"news": ["bing news"]}},
            "policy": {"domains": {"mode": "allowlist", "allowlist": ["example.com"]}},
            "logging": {"level": "debug", "format": "text"},
            "otel": {"enabled": True, "traceExporter": "otlp", "traceEndpoint": "https://otel.example.com"},
            "config": {"scraper": {"maxConcurrency": 10}},
            "env": [{"name": "A", "value": "b"}],
            "allowedConsumers": {"from": "Same"},
        },
    ],
}
