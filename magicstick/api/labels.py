"""Labels, annotations and finalizers that the operator writes or reads.

(spec: magicstick-api §1.1, §1.2, §1.3). A constant is a key unless its name says VALUE or it is one
of the fixed values at the end.
"""

from typing import Final

from magicstick.api.kinds import GROUP

# Finalizers.
MODULE_FINALIZER: Final = f"{GROUP}/module-cleanup"
INSTANCE_FINALIZER: Final = f"{GROUP}/appinstance-cleanup"
MODEL_FINALIZER: Final = f"{GROUP}/model-cleanup"

# Labels on objects.
NAME: Final = "app.kubernetes.io/name"
COMPONENT: Final = "app.kubernetes.io/component"
MANAGED_BY: Final = "app.kubernetes.io/managed-by"
MODULE: Final = f"{GROUP}/module"
"""The canonical module key, on generated ModuleActivations and Kustomizations."""
INSTANCE: Final = f"{GROUP}/appinstance"
APPLICATION: Final = f"{GROUP}/application"
MODEL: Final = f"{GROUP}/modelactivation"
RUNTIME_BACKEND: Final = f"{GROUP}/runtime-backend"
COMPUTE_TARGET: Final = f"{GROUP}/compute-target"
ENGINE: Final = f"{GROUP}/engine"
"""The engine in lower case."""
GPU_SHARING_MODE: Final = f"{GROUP}/gpu-sharing-mode"
GPU_SHARING: Final = f"{GROUP}/gpu-sharing"
GPU_VALIDATION: Final = f"{GROUP}/gpu-validation"
PROFILE: Final = f"{GROUP}/profile"
FLUX_WATCH: Final = "reconcile.fluxcd.io/watch"
"""With the value `Enabled`, a change of the ConfigMap reaches Flux and Helm at once."""

# Labels on nodes; "true" or absent, unless said otherwise.
AMD_GPU_ELIGIBLE: Final = f"{GROUP}/amd-gpu-eligible"
AMD_OLLAMA_ELIGIBLE: Final = f"{GROUP}/amd-ollama-eligible"
AMD_VLLM_ELIGIBLE: Final = f"{GROUP}/amd-vllm-eligible"
AMD_OLLAMA_RUNTIME_READY: Final = f"{GROUP}/amd-ollama-runtime-ready"
AMD_VLLM_RUNTIME_READY: Final = f"{GROUP}/amd-vllm-runtime-ready"
AMD_DRA_READY: Final = f"{GROUP}/amd-dra-ready"
GPU_MEMORY_ARCHITECTURE: Final = f"{GROUP}/gpu-memory-architecture"
"""The value is the architecture."""
GPU_HOST_IDENTITY: Final = f"{GROUP}/gpu-host-identity"
"""The value is a digest of the host's identity."""
NVIDIA_DEVICE_PLUGIN_CONFIG: Final = "nvidia.com/device-plugin.config"
"""The value names a shipped configuration; ours only while NVIDIA sharing is managed."""

# Annotations.
AUTO_ENABLED: Final = f"{GROUP}/auto-enabled"
"""`"true"` on a ModuleActivation that the operator made; any manual action removes it."""
ACTIVATION_SOURCE: Final = f"{GROUP}/activation-source"
FULL_NAME: Final = f"{GROUP}/full-name"
"""What a shortened name or label value stands for."""
DEVICE_VALIDATION_PREFIX: Final = f"{GROUP}/device-validation-"
GPU_VALIDATION_PREFIX: Final = f"{GROUP}/gpu-validation-"
ACCESS_GUARD_SPEC: Final = f"{GROUP}/access-guard-spec"
"""The digest of the SecurityPolicy spec that the guard was accepted for."""
MANAGED_DEVICE_CONFIG: Final = f"{GROUP}/managed-device-config"
GPU_HOST_PREFLIGHT: Final = f"{GROUP}/gpu-host-preflight"
VISION_ATTENTION: Final = f"{GROUP}/vllm-vision-attention"
RUNTIME_ENDPOINT: Final = f"{GROUP}/runtime-endpoint"
RESTART_NONCE: Final = f"{GROUP}/restart-nonce"
REALTIME_SOURCE: Final = f"{GROUP}/realtime-source"
REALTIME_CONFIG_HASH: Final = f"{GROUP}/realtime-config-hash"
FREETOKEN_VERSION: Final = f"{GROUP}/freetoken-version"
FREETOKEN_GPU_COUNT: Final = f"{GROUP}/freetoken-gpu-count"
CONTROLLER_CONFIG_REVISION: Final = f"{GROUP}/controller-config-revision"
CONTEXT_WINDOW: Final = "ai-appliance.io/context-window"
MAX_OUTPUT_TOKENS: Final = "ai-appliance.io/max-output-tokens"
MDNS_ENABLED: Final = "lab42.io/mdns.enabled"
FLUX_SSA: Final = "kustomize.toolkit.fluxcd.io/ssa"
"""With the value `IfNotPresent`, Flux creates the object once and never resets it."""
FLUX_PRUNE: Final = "kustomize.toolkit.fluxcd.io/prune"
"""With the value `disabled`, the object survives the removal of its Kustomization."""

# Fixed values.
OPERATOR: Final = "magicstick-operator"
"""Our value of `MANAGED_BY`, and our field manager."""
TRUE: Final = "true"
SOURCE_MANUAL: Final = "manual"
SOURCE_HARDWARE: Final = "hardware-detection"
