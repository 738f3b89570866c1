"""Models on the development cluster: the examples, applied as a user would, and the model catalog.

On a real appliance the catalog runs in a Pod. Here no Pod runs, so it is a process beside the operator, with
its own service account. It finds LiteLLM where the cluster plays it.
"""

import base64
from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path
from typing import Final

from hack.dev.appliance import ROOT
from hack.dev.operator import Account, Program
from hack.dev.view import Picture
from hack.devcluster import DevCluster
from hack.devcluster.access import load
from hack.devcluster.rest import ApiError, Object

EXAMPLES: Final = ROOT / "examples"
MODELS_NAMESPACE: Final = "ai"
CATALOG_MODULE: Final = "model-catalog"
CATALOG_ACCOUNT: Final = Account(MODELS_NAMESPACE, "ai-model-catalog-controller")
KEY_SECRET: Final = f"/api/v1/namespaces/{MODELS_NAMESPACE}/secrets/litellm-masterkey-secret"
KEY: Final = "LITELLM_MASTER_KEY"
ANYWHERE: Final = ("model-cpu-ollama.yaml", "model-external.yaml")
ON_NVIDIA: Final = ("model-nvidia-vllm.yaml",)


def examples(*, with_nvidia: bool) -> list[Object]:
    """The objects of the examples that this cluster has the hardware for."""
    return load(EXAMPLES / name for name in (*ANYWHERE, *(ON_NVIDIA if with_nvidia else ())))


def names_of(objects: list[Object]) -> frozenset[str]:
    """The models among them."""
    return frozenset(each["metadata"]["name"] for each in objects if each["kind"] == "ModelActivation")


class ModelCatalog(Program):
    """`magicstick model-catalog`, in the place of its Deployment."""

    def __init__(self, cluster: DevCluster, directory: Path, master_key: str) -> None:
        env = {"LITELLM_BASE_URL": cluster.litellm_url, KEY: master_key}
        super().__init__(cluster, directory, CATALOG_MODULE, CATALOG_MODULE, CATALOG_ACCOUNT, env)


def master_key(cluster: DevCluster) -> str:
    """LiteLLM's; "" while the cluster has none."""
    data = (_find(cluster, KEY_SECRET) or {}).get("data") or {}
    return base64.b64decode(data.get(KEY, "")).decode()


class ModelStage:
    """Does for models what has to wait for modules; to be asked again and again.

    Attributes:
        catalog: the process, once its module is Ready.
    """

    def __init__(
        self, cluster: DevCluster, directory: Path, objects: list[Object], say: Callable[[str], None]
    ) -> None:
        self.catalog: ModelCatalog | None = None
        self._cluster, self._directory, self._say = cluster, directory, say
        self._to_apply = objects

    def go_on(self, picture: Picture) -> None:
        """Apply the examples once there is a place for them, and start the catalog once it is installed."""
        if self._to_apply and _find(self._cluster, f"/api/v1/namespaces/{MODELS_NAMESPACE}") is not None:
            self._say("applying the models of examples/")
            self._cluster.apply(self._to_apply)
            self._to_apply = []
        ready = any(row.module == CATALOG_MODULE and row.phase == "Ready" for row in picture.rows)
        if self.catalog is None and ready and (key := master_key(self._cluster)):
            self._say("starting the model catalog with its own service account")
            self.catalog = ModelCatalog(self._cluster, self._directory, key)

    def stop(self) -> None:
        """End the catalog."""
        if self.catalog is not None:
            self.catalog.stop()


def _find(cluster: DevCluster, path: str) -> Object | None:
    try:
        return cluster.rest.get(path)
    except ApiError as error:
        if error.code == HTTPStatus.NOT_FOUND:
            return None
        raise
