"""Labels, annotations, finalizer and field managers of Palena (spec: palena §1, §1.1)."""

from typing import Final

from magicstick.api import kinds
from magicstick.api.kinds import PALENA_GROUP

OPERATOR_GROUP: Final = "operator.palena.ai"

FINALIZER: Final = f"{OPERATOR_GROUP}/finalizer"

# Labels.
NAME: Final = "app.kubernetes.io/name"
"""The component: redis, librechat, …"""
INSTANCE: Final = "app.kubernetes.io/instance"
"""The name of the Palena object."""
COMPONENT: Final = "app.kubernetes.io/component"
PART_OF: Final = "app.kubernetes.io/part-of"
MANAGED_BY: Final = "app.kubernetes.io/managed-by"
OWNER_UID: Final = f"{PALENA_GROUP}/owner-uid"
"""The uid of the Palena object."""
RETAINED: Final = f"{PALENA_GROUP}/retained"
"""`"true"` on what outlived its owner on purpose, and may be taken over by a successor."""
OWNER_LABELS: Final = {
    kinds.PALENA_GATEWAY: f"{PALENA_GROUP}/gateway",
    kinds.PALENA_MODEL: f"{PALENA_GROUP}/model",
    kinds.PALENA_UI: f"{PALENA_GROUP}/ui",
    kinds.PALENA_OBSERVABILITY: f"{PALENA_GROUP}/observability",
    kinds.PALENA_MCP_SERVER: f"{PALENA_GROUP}/mcpserver",
}
"""The label with the owner's name, by the owner's kind. No object carries that of another kind: the
gateway's NetworkPolicies select by it."""
CNPG_RELOAD: Final = "cnpg.io/reload"
"""With the value `true`, CloudNativePG takes a changed password over at once."""

# Annotations.
CONFIG_HASH: Final = f"{OPERATOR_GROUP}/config-hash"
"""On Pod templates: another configuration is another Pod."""
SECRET_HASH: Final = f"{OPERATOR_GROUP}/secret-hash"
"""On Pod templates: another secret is another Pod."""
PAUSED: Final = f"{OPERATOR_GROUP}/paused"
"""`"true"` stops every write but that of the status and those of the deletion."""
OWNER: Final = f"{PALENA_GROUP}/owner"
"""`<kind>/<namespace>/<name>` on what lives in another namespace than its owner."""
FULL_NAME: Final = f"{PALENA_GROUP}/full-name"
"""What a shortened label value stands for."""

# Fixed values.
OPERATOR: Final = "palena-operator"
"""Our value of `MANAGED_BY`."""
PALENA: Final = "palena"
"""Our value of `PART_OF`."""
TRUE: Final = "true"
OURS: Final = f"{MANAGED_BY}={OPERATOR}"
"""Selects everything that Palena generates."""

FIELD_MANAGERS: Final = {
    kinds.PALENA_GATEWAY: "palena-gateway",
    kinds.PALENA_MODEL: "palena-model",
    kinds.PALENA_UI: "palena-ui",
    kinds.PALENA_OBSERVABILITY: "palena-observability",
    kinds.PALENA_MCP_SERVER: "palena-mcpserver",
}
"""Who writes what, by the primary kind of the controller: two of them may write one object."""
