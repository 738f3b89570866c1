"""The kinds that are ours, and those of others that we drive (spec: magicstick-api §0, palena §1, §3)."""

from magicstick.kube.kinds import Kind

GROUP = "appliance.magicstick.dev"
"""The API group of every kind of ours; also the prefix of our labels, annotations and finalizers."""

VERSION = "v1alpha1"
"""The only version: served and stored, without conversion."""

APPLIANCE = Kind(GROUP, VERSION, "Appliance", "appliances")
MODULE_ACTIVATION = Kind(GROUP, VERSION, "ModuleActivation", "moduleactivations")
APP_INSTANCE = Kind(GROUP, VERSION, "AppInstance", "appinstances")
MODEL_ACTIVATION = Kind(GROUP, VERSION, "ModelActivation", "modelactivations")
HOST_OPERATION = Kind(GROUP, VERSION, "HostOperation", "hostoperations")

HOME_NAMESPACE = "ai-system"
"""Where all objects of our kinds live; the operator looks nowhere else."""

OWN_KINDS = (APPLIANCE, MODULE_ACTIVATION, APP_INSTANCE, MODEL_ACTIVATION, HOST_OPERATION)
"""The appliance's kinds, in the order in which they are installed."""

PALENA_GROUP = "palena.ai"

PALENA_GATEWAY = Kind(PALENA_GROUP, VERSION, "PalenaGateway", "palenagateways")
PALENA_MODEL = Kind(PALENA_GROUP, VERSION, "PalenaModel", "palenamodels")
PALENA_UI = Kind(PALENA_GROUP, VERSION, "PalenaUI", "palenauis")
PALENA_OBSERVABILITY = Kind(PALENA_GROUP, VERSION, "PalenaObservability", "palenaobservabilities")
PALENA_MCP_SERVER = Kind(PALENA_GROUP, VERSION, "PalenaMCPServer", "palenamcpservers")

PALENA_KINDS = (PALENA_GATEWAY, PALENA_MODEL, PALENA_UI, PALENA_OBSERVABILITY, PALENA_MCP_SERVER)
"""Palena's kinds, in the order in which they are installed."""

SHIPPED_KINDS = (*OWN_KINDS, *PALENA_KINDS)
"""Every kind whose CustomResourceDefinition we ship."""

KUSTOMIZATION = Kind("kustomize.toolkit.fluxcd.io", "v1", "Kustomization", "kustomizations")
GIT_REPOSITORY = Kind("source.toolkit.fluxcd.io", "v1", "GitRepository", "gitrepositories")
HELM_RELEASE = Kind("helm.toolkit.fluxcd.io", "v2", "HelmRelease", "helmreleases")
KUBEAI_MODEL = Kind("kubeai.org", "v1", "Model", "models")

CNPG_CLUSTER = Kind("postgresql.cnpg.io", "v1", "Cluster", "clusters")
CNPG_DATABASE = Kind("postgresql.cnpg.io", "v1", "Database", "databases")
CNPG_DATABASE_ROLE = Kind("postgresql.cnpg.io", "v1", "DatabaseRole", "databaseroles")
LITELLM_INSTANCE = Kind("litellm.palena.ai", "v1alpha1", "LiteLLMInstance", "litellminstances")
LITELLM_MODEL = Kind("litellm.palena.ai", "v1alpha1", "LiteLLMModel", "litellmmodels")
LITELLM_VIRTUAL_KEY = Kind("litellm.palena.ai", "v1alpha1", "LiteLLMVirtualKey", "litellmvirtualkeys")
LANGFUSE_INSTANCE = Kind("langfuse.palena.ai", "v1alpha1", "LangfuseInstance", "langfuseinstances")
