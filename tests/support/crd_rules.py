"""Rule by rule, what CEL must accept and refuse; which defaults appear; and which objects are free.

Written down from the API's description, not from our schemas.
"""

from typing import Any, Final

from tests.support import palena_rules
from tests.support.crd_bases import (
    ACTIONS,
    CONFIGURE_GPU_MEMORY,
    CONFIGURE_NETWORK,
    CONFIGURE_UPDATES,
    EXPERIMENT,
    GPU_MEMORY,
    GPU_PLAN,
    INSTALL_UPDATES,
    NETWORK_REF,
    PLAN,
    PLANNED_ACTIONS,
    POWEROFF,
    REBOOT,
    SCAN_WIFI,
    UPDATE_POLICY,
    Overrides,
    RuleCase,
)
from tests.support.schemas import ABSENT

SHARING: Final = "spec.access.sharing"
CPU: Final = "spec.local.cpuResources"
RULE_CASES: Final = (
    RuleCase(
        "AppInstance",
        "spec.access",
        "sharing mode selected needs sign-in",
        (
            {f"{SHARING}.mode": "selected"},
            {f"{SHARING}.mode": "selected", "spec.access.authentication": "sso"},
            {f"{SHARING}.mode": "all", "spec.access.authentication": "none"},
            {"spec.access.authentication": "none"},
        ),
        ({f"{SHARING}.mode": "selected", "spec.access.authentication": "none"},),
    ),
    RuleCase(
        "AppInstance",
        SHARING,
        "sharing mode all admits everybody",
        (
            {f"{SHARING}.mode": "all"},
            {f"{SHARING}.mode": "all", f"{SHARING}.users": [], f"{SHARING}.groups": []},
            {f"{SHARING}.mode": "selected", f"{SHARING}.users": ["a"], f"{SHARING}.groups": ["b"]},
            {f"{SHARING}.mode": "selected"},
        ),
        (
            {f"{SHARING}.mode": "all", f"{SHARING}.users": ["a"]},
            {f"{SHARING}.mode": "all", f"{SHARING}.groups": ["b"]},
        ),
    ),
    RuleCase(
        "ModelActivation",
        "spec.local",
        "vllm settings need the engine VLLM",
        (
            {"spec.local.vllm": {}},
            {"spec.local.vllm": {}, "spec.local.engine": "VLLM"},
            {"spec.local.engine": "OLlama"},
        ),
        (
            {"spec.local.vllm": {}, "spec.local.engine": "OLlama"},
            {"spec.local.vllm": {"visionAttention": "auto"}, "spec.local.engine": "FreeToken"},
        ),
    ),
    RuleCase(
        "ModelActivation",
        CPU,
        "limitMillicores must be 0",
        (
            {f"{CPU}.requestMillicores": 1000, f"{CPU}.limitMillicores": 0},
            {f"{CPU}.requestMillicores": 1000, f"{CPU}.limitMillicores": 1000},
            {f"{CPU}.limitMillicores": 500},
            {f"{CPU}.requestMillicores": 1000},
        ),
        ({f"{CPU}.requestMillicores": 1000, f"{CPU}.limitMillicores": 999},),
    ),
    RuleCase(
        "ModelActivation",
        "spec.local.computeTarget",
        "a model stays on its compute target",
        ({"spec.local.computeTarget": "cpu", "spec.local.preset": "other"},),
        ({"spec.local.computeTarget": "amd-gpu"}, {"spec.local.computeTarget": ABSENT}),
        before={"spec.local.computeTarget": "cpu"},
    ),
    RuleCase(
        "ModelActivation",
        "spec.local.computeTarget",
        "a model stays on its compute target",
        ({"spec.local.computeTarget": "nvidia-gpu"}, {}),
        ({"spec.local.computeTarget": "cpu"},),
        before={"spec.local.engine": "OLlama"},
    ),
    RuleCase(
        "HostOperation",
        "spec",
        "a host operation is written once",
        ({}, {"metadata.annotations.*": "network-confirmed"}),
        ({"spec.action": "poweroff"}, {"spec.nodeUid": "other"}, {"spec.planId": ""}),
        before={},
    ),
    RuleCase(
        "HostOperation",
        "spec",
        "this action carries out a plan",
        ACTIONS,
        tuple(action | {"spec.planId": plan} for action in PLANNED_ACTIONS for plan in ("", ABSENT)),
    ),
    RuleCase(
        "HostOperation",
        "spec",
        "reboot and poweroff have no plan",
        (REBOOT, POWEROFF, REBOOT | {"spec.planId": ""}),
        (REBOOT | PLAN, POWEROFF | PLAN),
    ),
    RuleCase(
        "HostOperation",
        "spec",
        "experimentMode needs consent",
        (GPU_PLAN, GPU_PLAN | EXPERIMENT, GPU_PLAN | {"spec.allowExperimental": True}),
        (GPU_PLAN | {"spec.experimentMode": True},),
    ),
    RuleCase(
        "HostOperation",
        "spec",
        "only the GPU actions can be experimental",
        (GPU_PLAN | EXPERIMENT, *ACTIONS),
        tuple(
            action | flags
            for action in ACTIONS
            if action not in (GPU_PLAN, CONFIGURE_GPU_MEMORY)
            for flags in (EXPERIMENT, {"spec.allowExperimental": True})
        ),
    ),
    RuleCase(
        "HostOperation",
        "spec",
        "configure-gpu-memory is always experimental",
        (CONFIGURE_GPU_MEMORY,),
        (CONFIGURE_GPU_MEMORY | EXPERIMENT, CONFIGURE_GPU_MEMORY | {"spec.allowExperimental": False}),
    ),
    RuleCase(
        "HostOperation",
        "spec",
        "gpuMemory belongs to configure-gpu-memory",
        (CONFIGURE_GPU_MEMORY,),
        (
            CONFIGURE_GPU_MEMORY | {"spec.gpuMemory": ABSENT},
            *(
                action | {"spec.gpuMemory": GPU_MEMORY}
                for action in ACTIONS
                if action is not CONFIGURE_GPU_MEMORY
            ),
        ),
    ),
    RuleCase(
        "HostOperation",
        "spec",
        "networkRef belongs to configure-network and scan-wifi",
        (CONFIGURE_NETWORK, SCAN_WIFI),
        (
            CONFIGURE_NETWORK | {"spec.networkRef": ABSENT},
            SCAN_WIFI | {"spec.networkRef": ABSENT},
            *(
                action | {"spec.networkRef": NETWORK_REF}
                for action in ACTIONS
                if action not in (CONFIGURE_NETWORK, SCAN_WIFI)
            ),
        ),
    ),
    RuleCase(
        "HostOperation",
        "spec",
        "updatePolicy belongs to configure-updates",
        (CONFIGURE_UPDATES,),
        (
            CONFIGURE_UPDATES | {"spec.updatePolicy": ABSENT},
            *(
                action | {"spec.updatePolicy": UPDATE_POLICY}
                for action in ACTIONS
                if action is not CONFIGURE_UPDATES
            ),
        ),
    ),
    RuleCase(
        "HostOperation",
        "spec",
        "updateScope belongs to install-updates",
        (INSTALL_UPDATES,),
        (
            INSTALL_UPDATES | {"spec.updateScope": ABSENT},
            *(action | {"spec.updateScope": "all"} for action in ACTIONS if action is not INSTALL_UPDATES),
        ),
    ),
    *palena_rules.RULE_CASES,
)

DEFAULTS: Final[dict[str, dict[str, Any]]] = {
    "Appliance": {
        "spec.profile": "minimal",
        "spec.source.namespace": "flux-system",
        "spec.modules.*.enabled": False,
        **{
            f"spec.instances.{application}[].{name}": value
            for application in ("openclaw", "hermes", "paperclip")
            for name, value in {"enabled": True, "namespace": "ai", "ingress.enabled": False}.items()
        },
        "spec.instances.kubeopencode[].enabled": True,
        "spec.instances.kubeopencode[].namespace": "ai",
        "spec.instances.kubeopencode[].server.enabled": True,
        "spec.instances.kubeopencode[].server.ingress.enabled": False,
    },
    "ModuleActivation": {
        "spec.enabled": True,
        "spec.applianceRef.name": "local",
        "spec.applianceRef.namespace": "ai-system",
    },
    "AppInstance": {
        "spec.enabled": True,
        "spec.targetNamespace": "ai",
        "spec.applianceRef.name": "local",
        "spec.applianceRef.namespace": "ai-system",
        "spec.access.authentication": "sso",
        "spec.access.role": "user",
        "spec.access.exposure": "localAndPublic",
    },
    "ModelActivation": {
        "spec.enabled": True,
        "spec.targetNamespace": "ai",
        "spec.applianceRef.name": "local",
        "spec.applianceRef.namespace": "ai-system",
        "spec.local.engine": "VLLM",
        "spec.local.computeTarget": "nvidia-gpu",
        "spec.local.realtime.gpuCount": 1,
        "spec.local.realtime.systemMemoryMi": 16384,
        "spec.local.realtime.gpuMemoryFraction": 0.9,
        "spec.local.realtime.thinkerCpuOffloadGiB": 0,
        "spec.local.freetoken.gpuCount": 1,
        "spec.local.freetoken.memoryStrategy": "auto",
    },
    "HostOperation": {},
    **palena_rules.DEFAULTS,
}
"""By path, what the API server fills in once the parent of the field is there."""

_PARENTS: Final[dict[str, Overrides]] = {
    "Appliance": {
        "spec.modules.*": {},
        **{
            f"spec.instances.{application}[]": {"name": "a", "ingress": {}}
            for application in ("openclaw", "hermes", "paperclip")
        },
        "spec.instances.kubeopencode[]": {"name": "a", "server": {"ingress": {}}},
    },
    "ModuleActivation": {"spec.applianceRef": {}},
    "AppInstance": {"spec.applianceRef": {}, "spec.access": {}},
    "ModelActivation": {
        "spec.applianceRef": {},
        "spec.local": {"realtime": {"profile": "p", "gpuNode": "n"}, "freetoken": {}},
    },
    "HostOperation": {},
}

DEFAULT_PARENTS: Final[dict[str, tuple[Overrides, ...]]] = {
    **{kind: (parents,) for kind, parents in _PARENTS.items()},
    **palena_rules.DEFAULT_PARENTS,
}
"""What has to be there for the defaults to appear; in several objects where it excludes itself."""

FREE_FIELDS: Final[dict[str, frozenset[str]]] = {
    "Appliance": frozenset(
        {
            "status.models.*",
            "status.hardwareOperators.*.compatibility",
            "status.hardwareOperators.*.devices[]",
            "status.hardwareOperators.*.sharing",
        }
    ),
    "ModuleActivation": frozenset({"spec.parameters"}),
    "AppInstance": frozenset({"spec.values"}),
    "ModelActivation": frozenset(
        {"spec.local", "spec.external", "status.memoryUsage", "status.freeTokenStats"}
    ),
    "HostOperation": frozenset(),
    **palena_rules.FREE_FIELDS,
}
"""Objects that keep fields which no schema declares."""
