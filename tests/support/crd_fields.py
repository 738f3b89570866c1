"""Field by field, what the API server must accept and refuse.

Written down from the API's description, not from our schemas.
"""

from collections.abc import Mapping
from typing import Any, Final

from tests.support import palena_fields
from tests.support.crd_bases import (
    BASES,
    CONFIGURE_GPU_MEMORY,
    CONFIGURE_NETWORK,
    CONFIGURE_UPDATES,
    GPU_PLAN,
    HEX_32,
    HEX_64,
    INSTALL_UPDATES,
    Case,
    Overrides,
)
from tests.support.schemas import ABSENT

LEGACY_APPLICATIONS: Final = ("openclaw", "hermes", "paperclip", "kubeopencode")


Values = tuple[Any, ...]
DNS_LABELS: Final = (("a", "0-a", "a" * 63), ("A", "-a", "a-", "a.b", "", ABSENT))


def _appliance() -> list[Case]:
    kind = "Appliance"
    cases = [
        Case(kind, "spec", (BASES[kind],), (ABSENT,)),
        Case(kind, "spec.profile", ("minimal", "ai-workstation", "full"), ("maximal", "Full", "")),
        Case(kind, "spec.source", (BASES[kind]["source"],), (ABSENT,)),
        Case(kind, "spec.source.kind", ("GitRepository",), ("OCIRepository", ABSENT)),
        Case(kind, "spec.source.name", ("a",), ("", ABSENT)),
        Case(kind, "spec.source.namespace", ("a",), ("",)),
        Case(kind, "spec.modules.*.uninstallPolicy", ("keep-data", "remove"), ("purge",)),
    ]
    names = [f"spec.instances.{application}[].name" for application in LEGACY_APPLICATIONS]
    template = "spec.instances.kubeopencode[].agentTemplates[].name"
    given = {"spec.instances.kubeopencode[].name": "a", template: "a"}
    named = [Case(kind, path, *DNS_LABELS) for path in names]
    return [*cases, *named, Case(kind, template, *DNS_LABELS, given), *_appliance_status()]


def _appliance_status() -> list[Case]:
    kind, hardware = "Appliance", "status.hardwareOperators.*"
    check = {"name": "driver", "status": "True", "message": "found"}
    given = {f"{hardware}.checks[]": check}
    phases = ("Pending", "Reconciling", "Ready", "Degraded", "Suspended")
    hardware_phases = (
        *(
            "NotRequired",
            "Detected",
            "Installing",
            "Ready",
            "Disabled",
            "Unsupported",
            "Conflict",
            "Degraded",
        ),
        "Unknown",
    )
    many = [f"module-{number}" for number in range(256)]
    return [
        Case(kind, "status.phase", phases, ("Waiting", "")),
        Case(kind, f"{hardware}.phase", hardware_phases, ("Broken",)),
        Case(kind, f"{hardware}.managedBy", ("none", "magicstick", "external"), ("us",)),
        Case(kind, f"{hardware}.allocatableResources", (0, 8), (-1,)),
        Case(kind, f"{hardware}.checks[].name", ("driver",), (ABSENT,), given),
        Case(kind, f"{hardware}.checks[].message", ("found",), (ABSENT,), given),
        Case(kind, f"{hardware}.checks[].status", ("True", "False", "Unknown"), ("Maybe", ABSENT), given),
        Case(kind, "status.models.*.vramRequiredMi", (0, 1), (-1,)),
        Case(kind, "status.seededModules", (["a", "b"], many), (["a", "a"], [*many, "one-more"])),
        Case(kind, "status.seededModules[]", ("a", "a" * 253), ("", "a" * 254)),
    ]


def _conditions(kind: str) -> list[Case]:
    condition = {
        "type": "Ready",
        "status": "True",
        "reason": "Ready",
        "message": "All is well.",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    other = condition | {"type": "Reconciling"}
    given = {"status.conditions[]": condition}
    return [
        Case(kind, "status.observedGeneration", (0, 2**63 - 1), (-1,)),
        Case(kind, "status.conditions", ([condition, other],), ([condition, condition],)),
        Case(kind, "status.conditions[].type", ("Ready",), (ABSENT,), given),
        Case(kind, "status.conditions[].reason", ("Ready",), (ABSENT,), given),
        Case(kind, "status.conditions[].message", ("",), (ABSENT,), given),
        Case(kind, "status.conditions[].status", ("True", "False", "Unknown"), ("Yes", "", ABSENT), given),
        Case(
            kind,
            "status.conditions[].lastTransitionTime",
            ("2026-01-01T00:00:00Z",),
            ("yesterday", "2026-01-01", ABSENT),
            given,
        ),
        Case(kind, "status.conditions[].observedGeneration", (0,), (-1,), given),
    ]


def _module_activation() -> list[Case]:
    kind = "ModuleActivation"
    return [
        Case(kind, "spec", (BASES[kind],), (ABSENT,)),
        Case(kind, "spec.module", ("a", "modelCatalog"), ("", ABSENT)),
    ]


def _app_instance() -> list[Case]:
    kind, sharing = "AppInstance", "spec.access.sharing"
    selected = {f"{sharing}.mode": "selected"}
    hundred = [f"user-{number}" for number in range(100)]
    lists: tuple[Values, Values] = (["a", "b"], hundred, []), (["a", "a"], [*hundred, "one-more"])
    principals = ("a", "A.b_c:d-9", "a" * 160), ("", "a b", "a" * 161, "é", "a\n")
    return [
        Case(kind, "spec", (BASES[kind],), (ABSENT,)),
        Case(kind, "spec.application", ("a",), ("", ABSENT)),
        Case(kind, "spec.access.authentication", ("sso", "none"), ("basic", "")),
        Case(kind, "spec.access.role", ("user", "viewer", "operator", "admin"), ("root",)),
        Case(kind, "spec.access.exposure", ("local", "localAndPublic"), ("public",)),
        Case(kind, f"{sharing}.mode", ("all", "selected"), ("some", ABSENT), selected),
        Case(kind, f"{sharing}.users", *lists, selected),
        Case(kind, f"{sharing}.groups", *lists, selected),
        Case(kind, f"{sharing}.users[]", *principals, selected),
        Case(kind, f"{sharing}.groups[]", *principals, selected),
    ]


def _least(kind: str, prefix: str, bounds: Mapping[str, int], given: Overrides | None = None) -> list[Case]:
    return [
        Case(kind, prefix + name, (least, least + 1), (least - 1,), given or {})
        for name, least in bounds.items()
    ]


def _choice(
    kind: str, prefix: str, choices: Mapping[str, tuple[Any, ...]], given: Overrides | None = None
) -> list[Case]:
    return [Case(kind, prefix + name, values, ("other", ""), given or {}) for name, values in choices.items()]


def _local_model() -> list[Case]:
    kind = "ModelActivation"
    return [
        Case(kind, "spec", (BASES[kind],), (ABSENT,)),
        Case(kind, "spec.type", ("local", "external"), ("remote", "", ABSENT)),
        Case(kind, "spec.local.artifact", ("a",), ("",)),
        *_choice(
            kind,
            "spec.local.",
            {
                "engine": ("VLLM", "OLlama", "FreeToken"),
                "computeTarget": ("cpu", "nvidia-gpu", "amd-gpu", "intel-gpu"),
                "kvCacheType": ("auto", "fp8", "f16", "q8_0", "q4_0"),
                "vllm.visionAttention": ("auto", "aotriton", "triton", "flash-attn-triton"),
                "freetoken.memoryStrategy": ("auto", "fused", "offload", "cpu", "hybrid"),
                "freetoken.advanced.cacheType": ("radix", "naive"),
                "freetoken.advanced.expertLoad": ("auto", "serial", "parallel"),
                "freetoken.advanced.dtype": ("auto", "float16", "bfloat16", "float32"),
            },
        ),
        *_least(
            kind,
            "spec.local.",
            {
                "vramMi": 1,
                "memoryRequiredMi": 16,
                "cpuResources.requestMillicores": 1,
                "cpuResources.limitMillicores": 0,
                "cpuOffloadMi": 0,
                "ollamaGpuLayers": 1,
                "contextWindow": 1,
                "maxOutputTokens": 1,
                "maxNumSeqs": 1,
                "kvCacheMemoryBytes": 64 * 2**20,
                "minReplicas": 0,
                "maxReplicas": 0,
                "freetoken.gpuCount": 1,
                "freetoken.gpuMemoryMi": 256,
                "freetoken.systemMemoryMi": 256,
                "freetoken.advanced.kvReserveTokens": 1,
                "freetoken.advanced.moeCacheSize": 0,
                "freetoken.advanced.maxPrefillLength": 1,
                "freetoken.advanced.cudaGraphMaxBatchSize": 1,
                "freetoken.advanced.cpuThreads": 1,
            },
        ),
        *_least(kind, "spec.external.", {"tpm": 1, "rpm": 1, "contextWindow": 1, "maxOutputTokens": 1}),
    ]


def _realtime() -> list[Case]:
    kind, realtime = "ModelActivation", "spec.local.realtime."
    given = {f"{realtime}profile": "p", f"{realtime}gpuNode": "n"}
    return [
        Case(kind, f"{realtime}profile", ("p",), ("", ABSENT), given),
        Case(kind, f"{realtime}gpuNode", ("n",), ("", ABSENT), given),
        Case(kind, f"{realtime}gpuCount", (1, 2), (0, 3), given),
        Case(kind, f"{realtime}gpuMemoryFraction", (0.01, 0.9, 1), (0, 1.01), given),
        Case(kind, f"{realtime}runtimeImage", ("", "a" * 1024), ("a" * 1025,), given),
        Case(kind, f"{realtime}restartNonce", ("", "a" * 128), ("a" * 129,), given),
        *_least(kind, realtime, {"systemMemoryMi": 1, "thinkerCpuOffloadGiB": 0}, given),
    ]


def _model_status() -> list[Case]:
    kind = "ModelActivation"
    times = ("2026-01-01T00:00:00Z",), ("now", "")
    sharing = ("dra-shared", "time-slicing", "exclusive"), ("split", "")
    allocation = ("", "unknown", "firmware-reserved", "shared-gtt"), ("other",)
    return [
        *_least(
            kind,
            "status.",
            {
                "vramRequiredMi": 0,
                "memoryRequiredMi": 0,
                "cpuResources.requestMillicores": 1,
                "cpuResources.limitMillicores": 0,
                "gpuSharing.slotCount": 1,
                "gpuSharing.wholeGpuCount": 1,
                "gpuSharing.tensorParallelSize": 1,
                "gpuSharing.vramMiPerDevice": 0,
            },
        ),
        Case(kind, "status.gpuAllocationMode", *allocation),
        Case(kind, "status.gpuSharing.mode", *sharing),
        Case(kind, "status.podRecovery.attempts", (0, 5), (-1, 6)),
        Case(kind, "status.podRecovery.lastAttempt", *times),
        Case(kind, "status.podCreation.since", *times),
        *[
            Case(kind, f"status.{name}", (None, {}), ("", 1))
            for name in ("memoryUsage", "freeTokenStats", "gpuSharing", "podRecovery", "podCreation")
        ],
    ]


def _host_operation() -> list[Case]:
    kind = "HostOperation"
    identifiers = ("a", "a" * 64), ("", "a" * 65, ABSENT)
    names = ("a", "node-1.example", "a" * 253), ("", "Node", "-a", "a-", "a" * 254, ABSENT)
    policy = "spec.updatePolicy."
    clock = ("00:00", "23:59"), ("24:00", "3:30", "03:60", "03:30:00", ABSENT)
    return [
        Case(kind, "spec", (BASES[kind],), (ABSENT,)),
        Case(kind, "spec.action", ("reboot", "poweroff"), ("explode", "", ABSENT)),
        Case(kind, "spec.nodeName", *names),
        Case(kind, "spec.nodeUid", *identifiers),
        Case(kind, "spec.bootId", *identifiers),
        Case(kind, "spec.requestId", (HEX_32, "f" * 32), ("0" * 31, "0" * 33, "G" * 32, "", ABSENT)),
        Case(kind, "spec.planId", (HEX_64, "0" * 64), ("a" * 63, "a" * 65, "g" * 64), GPU_PLAN),
        Case(kind, "spec.allowExperimental", (False,), (ABSENT,)),
        Case(kind, "spec.experimentMode", (False,), (ABSENT,)),
        Case(kind, "spec.acknowledgeDisruption", (True,), (False, ABSENT)),
        Case(kind, "spec.actorHash", (HEX_64, "0" * 64), ("a" * 63, "a" * 65, "A" * 64, "", ABSENT)),
        Case(kind, "spec.updateScope", ("security", "all"), ("some",), INSTALL_UPDATES),
        Case(kind, f"{policy}mode", ("manual", "security", "all"), ("some", ABSENT), CONFIGURE_UPDATES),
        Case(kind, f"{policy}windowStart", *clock, CONFIGURE_UPDATES),
        Case(kind, f"{policy}windowMinutes", (15, 360), (14, 361, ABSENT), CONFIGURE_UPDATES),
        Case(kind, f"{policy}automaticReboot", (True, False), (ABSENT,), CONFIGURE_UPDATES),
        Case(
            kind,
            "spec.networkRef.name",
            (f"host-network-{HEX_32}",),
            (f"host-network-{HEX_32}0", "host-network-", HEX_32, ABSENT),
            CONFIGURE_NETWORK,
        ),
        Case(kind, "spec.networkRef.uid", *identifiers, CONFIGURE_NETWORK),
        Case(kind, "spec.gpuMemory.carveoutIndex", (0, 255), (-1, 256, ABSENT), CONFIGURE_GPU_MEMORY),
        Case(kind, "spec.gpuMemory.dynamicLimitMi", (1, 1048576), (0, 1048577, ABSENT), CONFIGURE_GPU_MEMORY),
        *_host_operation_status(),
    ]


def _host_operation_status() -> list[Case]:
    kind = "HostOperation"
    phases = (
        *("Accepted", "Preparing", "Applying", "AwaitingConfirmation", "RolledBack", "RebootScheduled"),
        *("PoweroffScheduled", "Verifying", "Registering", "Validating", "Succeeded", "PreparedUnverified"),
        *("Failed", "Rejected", "Interrupted"),
    )
    lengths = {"message": 2048, "requestId": 32, "bootId": 64}
    return [
        Case(kind, "status.phase", phases, ("Done", "")),
        *[
            Case(kind, f"status.{name}", ("2026-01-01T00:00:00Z",), ("soon", ""))
            for name in ("confirmationDeadline", "startedAt", "updatedAt")
        ],
        *[
            Case(kind, f"status.{name}", ("", "a" * most), ("a" * (most + 1),))
            for name, most in lengths.items()
        ],
    ]


CASES: Final = (
    *_appliance(),
    *_module_activation(),
    *_app_instance(),
    *_local_model(),
    *_realtime(),
    *_model_status(),
    *_host_operation(),
    *palena_fields.CASES,
    *[
        case
        for kind in ("Appliance", "ModuleActivation", "AppInstance", "ModelActivation", *palena_fields.KINDS)
        for case in _conditions(kind)
    ],
)
