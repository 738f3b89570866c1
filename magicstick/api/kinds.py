"""The kinds that are ours, and those of Flux and KubeAI that we drive (spec: magicstick-api §0)."""

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
"""Every kind whose CustomResourceDefinition we ship, in the order in which they are installed."""

KUSTOMIZATION = Kind("kustomize.toolkit.fluxcd.io", "v1", "Kustomization", "kustomizations")
GIT_REPOSITORY = Kind("source.toolkit.fluxcd.io", "v1", "GitRepository", "gitrepositories")
HELM_RELEASE = Kind("helm.toolkit.fluxcd.io", "v2", "HelmRelease", "helmreleases")
KUBEAI_MODEL = Kind("kubeai.org", "v1", "Model", "models")
