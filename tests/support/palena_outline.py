"""Every field of Palena's kinds with its type, as `crd_outline` writes them (spec: palena §4 to §8)."""

from typing import Final

COMMON_STATUS: Final = "status: observedGeneration# phase readySince message conditions[{}]"

CONDITIONS: Final = """
status.conditions[]: type status observedGeneration# lastTransitionTime reason message
"""

IMAGE: Final = """
{0}.image: repository tag pullPolicy pullSecrets[{{}}]
{0}.image.pullSecrets[]: name
"""

ENV: Final = """
{0}[]: name value valueFrom{{}}
"""

STORAGE: Final = """
{0}.storage: size storageClassName
"""

KEY_REF: Final = """
{0}: name key
"""

CONSUMERS: Final = """
spec.allowedConsumers: from namespaces[]
"""

PART: Final = """
spec.sidecars.presidio.{0}: image resources{{}} externalURL
"""

OUTLINES: Final[dict[str, str]] = {
    "PalenaGateway": f"""
spec: database{{}} redis{{}} litellm{{}} ingress{{}} gatewayRoute{{}} networkPolicy{{}} \
allowedConsumers{{}} deletionPolicy
spec.database: mode managed{{}} external{{}}
spec.database.managed: instances# storage{{}} imageName resources{{}} parameters{{*}} backup{{}}
spec.database.managed.backup: enabled? schedule retention# method
spec.database.external: secretRef{{}}
spec.database.external.secretRef: name urlKey
spec.redis: mode managed{{}} external{{}}
spec.redis.managed: image storage{{}} resources{{}}
spec.redis.external: secretRef{{}}
spec.redis.external.secretRef: name urlKey
spec.litellm: image{{}} replicas# autoscaling{{}} masterKeySecretRef{{}} resources{{}} \
routerSettings{{}} generalSettings{{}} fallbacks{{}} caching{{}} sso{{}} adminUI{{}} \
extraEnvVars[{{}}] overrides{{}}
spec.litellm.autoscaling: enabled? minReplicas# maxReplicas# targetCPUUtilization# \
targetMemoryUtilization#
spec.ingress: enabled? className host annotations{{*}} tls{{}}
spec.ingress.tls: enabled? secretName
spec.gatewayRoute: enabled? host parentRefs[{{}}]
spec.gatewayRoute.parentRefs[]: name namespace sectionName
spec.networkPolicy: enabled? scope ingressFrom[{{}}] cnpgNamespace litellmOperatorNamespace
{COMMON_STATUS} endpoint litellmInstanceRef{{}} masterKeySecretRef{{}} database{{}} redis{{}} \
gateway{{}} modelCount#
status.litellmInstanceRef: name
status.masterKeySecretRef: name key
status.database: mode clusterName phase instances# readyInstances# secretName
status.redis: mode host port# secretName ready?
status.gateway: replicas# readyReplicas# version
"""
    + STORAGE.format("spec.database.managed")
    + STORAGE.format("spec.redis.managed")
    + IMAGE.format("spec.litellm")
    + KEY_REF.format("spec.litellm.masterKeySecretRef")
    + ENV.format("spec.litellm.extraEnvVars")
    + CONSUMERS
    + CONDITIONS,
    "PalenaModel": f"""
spec: gatewayRefs[{{}}] modelName provider{{}} limits{{}} routing{{}} info{{}} modelActivationRef{{}}
spec.gatewayRefs[]: name namespace
spec.provider: model apiBase apiVersion apiKeySecretRef{{}} credentialRef{{}} params{{}}
spec.provider.credentialRef: name
spec.provider.params: model apiBase apiKeySecretRef{{}} credentialRef{{}}
spec.limits: rpm# tpm# timeoutSeconds# streamTimeoutSeconds# maxRetries#
spec.routing: weight# order# tags[]
spec.modelActivationRef: name namespace
{COMMON_STATUS} gateways[{{}}] syncedCount# totalCount# gatewaysSummary
status.gateways[]: name namespace litellmModelRef synced? ready? modelId health reason message
"""
    + KEY_REF.format("spec.provider.apiKeySecretRef")
    + CONDITIONS,
    "PalenaUI": f"""
spec: gatewayRef{{}} gatewayKey{{}} mcpServerRefs[{{}}] image{{}} replicas# resources{{}} \
nodeSelector{{*}} tolerations[{{}}] affinity{{}} host ingress{{}} auth{{}} models{{}} endpointName \
config{{}} configVersion extraEnv[{{}}] mongodb{{}} meilisearch{{}} persistence{{}} deletionPolicy
spec.gatewayRef: name namespace
spec.gatewayKey: mode secretRef{{}} maxBudget budgetDuration rpmLimit# tpmLimit#
spec.mcpServerRefs[]: name namespace alias timeoutMs#
spec.ingress: enabled? className annotations{{*}} tls{{}}
spec.ingress.tls: enabled? secretName
spec.auth: allowRegistration? allowEmailLogin? oidc{{}}
spec.auth.oidc: enabled? issuer clientIdRef{{}} clientSecretRef{{}} scope buttonLabel callbackPath
spec.models: default[] fetch? titleModel
spec.mongodb: mode image storage{{}} resources{{}} secretRef{{}}
spec.mongodb.secretRef: name uriKey
spec.meilisearch: enabled? image storage{{}} resources{{}}
spec.persistence: enabled? size storageClassName accessMode
{COMMON_STATUS} url serviceName configHash endpoints{{}} mcpServers[{{}}] replicas# readyReplicas#
status.endpoints: mongodb meilisearch
status.mcpServers[]: name namespace alias url found? ready?
"""
    + KEY_REF.format("spec.gatewayKey.secretRef")
    + KEY_REF.format("spec.auth.oidc.clientIdRef")
    + KEY_REF.format("spec.auth.oidc.clientSecretRef")
    + STORAGE.format("spec.mongodb")
    + STORAGE.format("spec.meilisearch")
    + IMAGE.format("spec")
    + ENV.format("spec.extraEnv")
    + CONDITIONS,
    "PalenaObservability": f"""
spec: gatewayRef{{}} langfuse{{}} database{{}} redis{{}} clickhouse{{}} blobStorage{{}} seed{{}} \
callback{{}} deletionPolicy
spec.gatewayRef: name namespace
spec.langfuse: image{{}} url web{{}} worker{{}} ingress{{}} gatewayAPI{{}} auth{{}} overrides{{}}
spec.langfuse.web: replicas# resources{{}} extraEnv[{{}}]
spec.langfuse.worker: replicas# resources{{}} extraEnv[{{}}]
spec.langfuse.auth: oidc{{}} emailPassword{{}}
spec.database: mode name owner external{{}}
spec.database.external: secretRef{{}}
spec.database.external.secretRef: name urlKey
spec.redis: mode external{{}}
spec.redis.external: secretRef{{}}
spec.redis.external.secretRef: name hostKey portKey passwordKey
spec.clickhouse: mode managed{{}} external{{}}
spec.clickhouse.external: secretRef{{}}
spec.clickhouse.external.secretRef: name keys{{*}}
spec.blobStorage: provider s3{{}} azure{{}} gcs{{}}
spec.seed: orgId orgName projectId projectName adminUser{{}}
spec.seed.adminUser: email passwordSecretRef{{}}
spec.callback: enabled? type
{COMMON_STATUS} langfuseInstanceRef{{}} url internalUrl database{{}} apiKeysSecretName callback{{}}
status.langfuseInstanceRef: name
status.database: name clusterName applied? message
status.callback: shape configured? litellmInstanceRef{{}}
status.callback.litellmInstanceRef: name
"""
    + IMAGE.format("spec.langfuse")
    + ENV.format("spec.langfuse.web.extraEnv")
    + ENV.format("spec.langfuse.worker.extraEnv")
    + KEY_REF.format("spec.seed.adminUser.passwordSecretRef")
    + CONDITIONS,
    "PalenaMCPServer": f"""
spec: image replicas# resources{{}} service{{}} sidecars{{}} search{{}} policy{{}} logging{{}} otel{{}} \
config{{}} env[{{}}] networkPolicy{{}} allowedConsumers{{}}
spec.service: port#
spec.sidecars: searxng{{}} chromium{{}} presidio{{}} flashrank{{}} injectionGuard{{}}
spec.sidecars.searxng: image resources{{}} externalURL
spec.sidecars.chromium: enabled? engine image resources{{}} externalURL maxTabs#
spec.sidecars.presidio: enabled? mode language scoreThreshold blockThreshold entities[] analyzer{{}} \
anonymizer{{}}
spec.sidecars.flashrank: enabled? model image resources{{}} externalURL topK#
spec.sidecars.injectionGuard: enabled? mode model image resources{{}} externalURL
spec.search: defaultLanguage safeSearch# maxResults# engines[] engineRoutes{{[]}}
spec.policy: robots{{}} domains{{}} rateLimit{{}}
spec.policy.robots: enabled? cacheSeconds#
spec.policy.domains: mode allowlist[] blocklist[]
spec.policy.rateLimit: enabled? requestsPerDomainPerMinute#
spec.logging: level format
spec.otel: enabled? traceExporter traceEndpoint metricExporter metricEndpoint
spec.networkPolicy: enabled?
{COMMON_STATUS} endpoint configHash sidecars[{{}}] sidecarsSummary replicas# readyReplicas#
status.sidecars[]: name enabled? external? endpoint ready?
"""
    + PART.format("analyzer")
    + PART.format("anonymizer")
    + ENV.format("spec.env")
    + CONSUMERS
    + CONDITIONS,
}

AGE: Final = "Age:date=.metadata.creationTimestamp"
PHASE: Final = "Phase:string=.status.phase"
READY: Final = 'Ready:string=.status.conditions[?(@.type=="Ready")].status'
GATEWAY: Final = "Gateway:string=.spec.gatewayRef.name"

COLUMNS: Final[dict[str, str]] = {
    "PalenaGateway": f"{PHASE} {READY} Endpoint:string=.status.endpoint "
    f"Database:string=.status.database.mode Models:integer=.status.modelCount {AGE}",
    "PalenaModel": 'Model:string=.spec.modelName Synced:string=.status.conditions[?(@.type=="Synced")].status '
    f"{READY} Gateways:string=.status.gatewaysSummary {AGE}",
    "PalenaUI": f"{PHASE} {READY} URL:string=.status.url {GATEWAY} {AGE}",
    "PalenaObservability": f"{PHASE} {READY} URL:string=.status.url {GATEWAY} "
    f"Callback:boolean=.status.callback.configured {AGE}",
    "PalenaMCPServer": f"{PHASE} {READY} Endpoint:string=.status.endpoint "
    f"Sidecars:string=.status.sidecarsSummary {AGE}",
}

SHORT_NAMES: Final[dict[str, list[str]]] = {
    "PalenaGateway": ["pgw"],
    "PalenaModel": ["pmod"],
    "PalenaUI": ["pui"],
    "PalenaObservability": ["pobs"],
    "PalenaMCPServer": ["pmcp"],
}

PLURALS: Final[dict[str, str]] = {
    "PalenaGateway": "palenagateways",
    "PalenaModel": "palenamodels",
    "PalenaUI": "palenauis",
    "PalenaObservability": "palenaobservabilities",
    "PalenaMCPServer": "palenamcpservers",
}
