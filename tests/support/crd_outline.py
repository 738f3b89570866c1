"""Every field of our kinds with its type, written down from the API's description.

One line for each object: its path, then its fields. A field is a text unless its name is followed by a
type: `?` boolean, `#` integer, `%` number, `{}` object, `{*}` map of texts, `[]` list of texts,
`[{}]` list of objects, `{[]}` map of lists of texts.
"""

from typing import Final

from tests.support import palena_outline

LEGACY: Final = """
spec.instances.{0}[]: name enabled? namespace storage{{}} ingress{{}} {1}
spec.instances.{0}[].storage: size
spec.instances.{0}[].ingress: enabled? host
"""

CONDITIONS: Final = """
status.conditions[]: type status observedGeneration# lastTransitionTime reason message
"""

APPLIANCE_REF: Final = """
spec.applianceRef: name namespace
"""

OUTLINES: Final[dict[str, str]] = {
    "Appliance": """
spec: profile source{} modules{*{}} instances{}
spec.source: kind name namespace
spec.modules.*: enabled? uninstallPolicy
spec.instances: openclaw[{}] hermes[{}] paperclip[{}] kubeopencode[{}]
spec.instances.kubeopencode[]: name enabled? namespace model server{} agentTemplates[{}]
spec.instances.kubeopencode[].server: enabled? ingress{}
spec.instances.kubeopencode[].server.ingress: enabled? host
spec.instances.kubeopencode[].agentTemplates[]: name description
status: observedGeneration# phase modules{*{}} instances{*{*{}}} models{*{}} hardwareOperators{*{}} \
seededModules[] conditions[{}]
status.modules.*: phase kustomization autoEnabled? message
status.instances.*.*: phase namespace kind name url localURL publicURL message
status.models.*: phase modelRef catalogId vramRequiredMi# message
status.hardwareOperators.*: module displayName vendor operatorVersion driverMode modulePhase \
detectionLabel supportedLabel message phase needed? operatorActive? managedBy detectedNodes[] \
compatibleNodes[] supportedNodes[] resourceNames[] incompatibleNodes{*[]} allocatableResources# \
checks[{}] compatibility{} devices[{}] sharing{}
status.hardwareOperators.*.checks[]: name status message required?
"""
    + LEGACY.format("openclaw", "model")
    + LEGACY.format("hermes", "model")
    + LEGACY.format("paperclip", "")
    + CONDITIONS,
    "ModuleActivation": """
spec: module enabled? applianceRef{} parameters{}
status: observedGeneration# phase kustomization message conditions[{}]
"""
    + APPLIANCE_REF
    + CONDITIONS,
    "AppInstance": """
spec: application enabled? targetNamespace applianceRef{} access{} values{}
spec.access: authentication role exposure sharing{}
spec.access.sharing: mode users[] groups[]
status: observedGeneration# phase kind name namespace url localURL publicURL authentication \
requiredRole accessGuardReady? message conditions[{}]
"""
    + APPLIANCE_REF
    + CONDITIONS,
    "ModelActivation": """
spec: enabled? type targetNamespace applianceRef{} local{} external{}
spec.local: preset artifact url modelType features[] engine computeTarget resourceProfile vram vramMi# \
memoryRequiredMi# cpuOffloading? cpuResources{} cpuOffloadMi# allowMemoryRisk? ollamaGpuLayers# \
contextWindow# maxOutputTokens# maxNumSeqs# kvCacheType kvCacheMemoryBytes# args[] minReplicas# \
maxReplicas# env{*} realtime{} vllm{} freetoken{}
spec.local.cpuResources: requestMillicores# limitMillicores#
spec.local.realtime: profile gpuNode gpuCount# systemMemoryMi# gpuMemoryFraction% \
thinkerCpuOffloadGiB# runtimeImage restartNonce
spec.local.vllm: visionAttention
spec.local.freetoken: gpuDevice gpuCount# gpuMemoryMi# systemMemoryMi# memoryStrategy restartNonce \
advanced{}
spec.local.freetoken.advanced: cacheType kvReserveTokens# maxPrefillLength# cudaGraphMaxBatchSize# \
cpuThreads# moeCacheSize# expertLoad dtype
spec.external: model apiBase modelType apiVersion customLlmProvider apiKeySecretRef{} tpm# rpm# \
contextWindow# maxOutputTokens#
spec.external.apiKeySecretRef: name key
status: observedGeneration# phase modelRef catalogId computeTarget engine artifact precision \
quantization requestedKvCacheType effectiveKvCacheType resolvedResourceProfile memoryArchitecture \
sharedPoolId runtimeEndpoint message vramRequiredMi# memoryRequiredMi# cpuOffloading? cpuResources{} \
gpuAllocationMode memoryUsage{} freeTokenStats{} gpuSharing{} podRecovery{} podCreation{} conditions[{}]
status.cpuResources: requestMillicores# limitMillicores#
status.gpuSharing: mode claimName node device slotCount# wholeGpuCount# tensorParallelSize# \
vramMiPerDevice# memoryIsolation?
status.podRecovery: revision lastAttempt lastPodUid lastFailure attempts#
status.podCreation: revision since
"""
    + APPLIANCE_REF
    + CONDITIONS,
    "HostOperation": """
spec: action nodeName nodeUid bootId requestId planId allowExperimental? experimentMode? \
acknowledgeDisruption? actorHash updateScope updatePolicy{} networkRef{} gpuMemory{}
spec.updatePolicy: mode windowStart windowMinutes# automaticReboot?
spec.networkRef: name uid
spec.gpuMemory: carveoutIndex# dynamicLimitMi#
status: phase confirmationDeadline startedAt updatedAt message requestId bootId
""",
    **palena_outline.OUTLINES,
}

COLUMNS: Final[dict[str, str]] = {
    "Appliance": "Phase:string=.status.phase Profile:string=.spec.profile Source:string=.spec.source.name "
    "Age:date=.metadata.creationTimestamp",
    "ModuleActivation": "Module:string=.spec.module Enabled:boolean=.spec.enabled "
    "Phase:string=.status.phase Kustomization:string=.status.kustomization "
    "Age:date=.metadata.creationTimestamp",
    "AppInstance": "Type:string=.spec.application Enabled:boolean=.spec.enabled "
    "Target:string=.spec.targetNamespace Phase:string=.status.phase URL:string=.status.url "
    "Age:date=.metadata.creationTimestamp",
    "ModelActivation": "Type:string=.spec.type Enabled:boolean=.spec.enabled "
    "Target:string=.spec.targetNamespace Phase:string=.status.phase Model:string=.status.modelRef "
    "VRAM:integer=.status.vramRequiredMi Age:date=.metadata.creationTimestamp",
    "HostOperation": "Node:string=.spec.nodeName Action:string=.spec.action Phase:string=.status.phase",
    **palena_outline.COLUMNS,
}
"""The columns of `kubectl get`, without those of `-o wide`."""

SHORT_NAMES: Final[dict[str, list[str]]] = {
    "Appliance": ["msapp", "appliance"],
    "ModuleActivation": ["msmod"],
    "AppInstance": ["msinst"],
    "ModelActivation": ["msmodel"],
    "HostOperation": ["mshostop"],
    **palena_outline.SHORT_NAMES,
}

_TYPES: Final = {"": "string", "?": "boolean", "#": "integer", "%": "number"}


def outline(kind: str) -> dict[str, str]:
    """Path to type of every field of `kind`, by the text above."""
    fields: dict[str, str] = {}
    for line in OUTLINES[kind].strip().splitlines():
        if line:
            parent, _, names = line.partition(": ")
            for field in names.split():
                fields |= _field(parent, field)
    return fields


def _field(parent: str, field: str) -> dict[str, str]:
    name = field.rstrip("?#%{}[]*")
    return {f"{parent}.{name}": _type(field[len(name) :])}


def _type(mark: str) -> str:
    if mark.startswith("["):
        return "array"
    return "object" if mark.startswith("{") else _TYPES[mark]
