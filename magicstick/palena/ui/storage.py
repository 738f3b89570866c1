"""What a UI keeps its data in, and whether it is there (spec: palena §6.2 steps 4 to 6, fault F19)."""

from dataclasses import replace
from typing import Any, Final

from magicstick.api.palena.shared import Storage
from magicstick.api.palena.ui import PalenaUISpec
from magicstick.palena.common.children import replicas
from magicstick.palena.common.desired import Desired, applied, conflict, removed
from magicstick.palena.common.growth import Volume, grown, larger
from magicstick.palena.common.kinds import (
    DEPLOYMENT,
    PERSISTENT_VOLUME_CLAIM,
    SERVICE,
    STATEFUL_SET,
)
from magicstick.palena.common.owners import Describe
from magicstick.palena.common.secrets import (
    NAME_CONFLICT,
    SECRET,
    SecretState,
    SecretValue,
    ensure,
    read_key,
)
from magicstick.palena.common.verdicts import Verdict, failed, fine, lost, waiting
from magicstick.palena.ui import secrets
from magicstick.palena.ui.objects import SecretKey
from magicstick.palena.ui.observation import UiObservation
from magicstick.palena.ui.stores import (
    MEILISEARCH_SIZE,
    MONGODB_SIZE,
    StoreShape,
    meilisearch_claim,
    meilisearch_deployment,
    meilisearch_service,
    mongodb_service,
    mongodb_stateful_set,
)
from magicstick.runtime.plan import Apply, Patch, Step

MONGODB_READY: Final = "MongoDBReady"
MEILISEARCH_READY: Final = "MeiliSearchReady"
MONGO_SCHEMES: Final = ("mongodb://", "mongodb+srv://")


class Stores:
    """The generated Secret, MongoDB and MeiliSearch of one live UI."""

    def __init__(self, o: UiObservation, spec: PalenaUISpec, describe: Describe) -> None:
        self._o = o
        self._spec = spec
        self._describe = describe
        self._managed = spec.mongodb.mode == "managed"
        self._retain = spec.deletion_policy == "Retain"
        self.secret: SecretState = ensure(
            secrets.recipe(o.names, o.namespace, o.domain),
            o.owner,
            o.live.get((SECRET, o.names.secrets)),
            o.fresh,
            data_lives=self._data(),
        )

    def _data(self) -> str:
        """The volume that was written with the generated values, while it is there.

        Conversations can only be opened with the password, and what users entrusted to LibreChat only with
        its keys, wherever MongoDB is.
        """
        names = self._o.names
        for claim in (names.mongodb_claim, names.data):
            if (PERSISTENT_VOLUME_CLAIM, claim) in self._o.live:
                return f"PersistentVolumeClaim {claim}"
        return ""

    # --- MongoDB -----------------------------------------------------------------------------------

    @property
    def mongo_uri(self) -> SecretKey:
        """Where LibreChat finds the address of MongoDB."""
        reference = self._spec.mongodb.secret_ref
        if self._managed or reference is None:
            return SecretKey(self._o.names.secrets, secrets.MONGO_URI)
        return SecretKey(reference.name, reference.uri_key)

    @property
    def external_uri(self) -> SecretValue:
        """The address of a MongoDB that somebody else runs."""
        place = self.mongo_uri
        live = self._o.secrets.get(place.secret)
        return read_key(live, self._o.namespace, place.secret, place.key, schemes=MONGO_SCHEMES)

    def mongodb_steps(self) -> tuple[Step, ...]:
        """MongoDB where it is ours; one that is no longer asked for leaves its volume behind."""
        if not self._managed:
            return self._mongodb_given_up()
        return () if self.secret.problem else applied(self._o.owner, self._mongodb())

    def _mongodb(self) -> tuple[Desired, ...]:
        return (
            self._o.desired(SERVICE, mongodb_service(self._o.names, self._describe)),
            self._o.desired(STATEFUL_SET, mongodb_stateful_set(self._mongodb_shape(), self._describe)),
        )

    def _mongodb_shape(self, *, retain: bool | None = None) -> StoreShape:
        wanted, volume = self._spec.mongodb, self._mongodb_volume()
        return StoreShape(
            names=self._o.names,
            image=wanted.image,
            size=volume.size,
            storage_class=volume.storage_class,
            resources=wanted.resources,
            owner_path=self._o.owner.path,
            retain=self._retain if retain is None else retain,
        )

    def _mongodb_volume(self) -> Volume:
        """As the StatefulSet states it: its claims cannot be changed, so a live one's size stays."""
        live = self._o.ours(STATEFUL_SET, self._o.names.mongodb)
        templates = [] if live is None else live.spec.get("volumeClaimTemplates", [])
        wanted = _volume(self._spec.mongodb.storage, MONGODB_SIZE)
        return _claimed(templates[0]["spec"]) if templates else wanted

    def _mongodb_given_up(self) -> tuple[Step, ...]:
        """A volume that would go with its StatefulSet is first told to stay."""
        names = self._o.names
        live = self._o.ours(STATEFUL_SET, names.mongodb)
        if live is None:
            return removed(self._o.owner, [(SERVICE, self._o.live.get((SERVICE, names.mongodb)))])
        if live.spec.get("persistentVolumeClaimRetentionPolicy", {}).get("whenDeleted") != "Retain":
            body = mongodb_stateful_set(self._mongodb_shape(retain=True), self._describe)
            return (Apply(STATEFUL_SET, body),)
        return removed(self._o.owner, [(STATEFUL_SET, live)])

    def mongodb_ready(self) -> Verdict:
        """Whether LibreChat can keep conversations."""
        if self.secret.problem == NAME_CONFLICT:
            return failed(MONGODB_READY, NAME_CONFLICT, self.secret.message)
        if self.secret.problem:
            return lost(MONGODB_READY, self.secret.problem, self.secret.message)
        if not self._managed:
            return self._external_ready()
        if taken := conflict(self._o.owner, self._mongodb()):
            return failed(MONGODB_READY, NAME_CONFLICT, taken)
        if replicas(self._o.ours(STATEFUL_SET, self._o.names.mongodb)).available:
            return fine(MONGODB_READY, "StatefulSetReady", "MongoDB is ready")
        message = f"StatefulSet {self._o.names.mongodb} is not ready"
        return waiting(MONGODB_READY, "StatefulSetNotReady", message)

    def _external_ready(self) -> Verdict:
        found = self.external_uri
        if not found.valid:
            return found.verdict(MONGODB_READY)
        return fine(MONGODB_READY, "ExternalSecretValid", "the Secret of the external MongoDB is valid")

    # --- MeiliSearch -------------------------------------------------------------------------------

    def meilisearch_steps(self) -> tuple[Step, ...]:
        """MeiliSearch, or its removal: its index can always be built anew."""
        if not self._spec.meilisearch.enabled:
            name = self._o.names.meilisearch
            kinds = (DEPLOYMENT, SERVICE, PERSISTENT_VOLUME_CLAIM)
            return removed(self._o.owner, [(kind, self._o.live.get((kind, name))) for kind in kinds])
        return () if self.secret.problem else applied(self._o.owner, self._meilisearch())

    def _meilisearch(self) -> tuple[Desired, ...]:
        wanted, volume = self._spec.meilisearch, self.meilisearch_volume
        shape = StoreShape(self._o.names, wanted.image, volume.size, volume.storage_class, wanted.resources)
        return (
            self._o.desired(PERSISTENT_VOLUME_CLAIM, meilisearch_claim(shape, self._describe)),
            self._o.desired(DEPLOYMENT, meilisearch_deployment(shape, self._describe)),
            self._o.desired(SERVICE, meilisearch_service(self._o.names, self._describe)),
        )

    @property
    def meilisearch_volume(self) -> Volume:
        """Its volume, which may only grow."""
        wanted = _volume(self._spec.meilisearch.storage, MEILISEARCH_SIZE)
        return self.fitting(self._o.names.meilisearch, wanted)

    def meilisearch_ready(self) -> Verdict:
        """Whether conversations can be searched."""
        if not self._spec.meilisearch.enabled:
            return fine(MEILISEARCH_READY, "Disabled", "search is switched off")
        if taken := conflict(self._o.owner, self._meilisearch()):
            return failed(MEILISEARCH_READY, NAME_CONFLICT, taken)
        if replicas(self._o.ours(DEPLOYMENT, self._o.names.meilisearch)).available:
            return fine(MEILISEARCH_READY, "DeploymentReady", "MeiliSearch is ready")
        message = f"Deployment {self._o.names.meilisearch} is not ready"
        return waiting(MEILISEARCH_READY, "DeploymentNotReady", message)

    # --- volumes -----------------------------------------------------------------------------------

    def growth(self) -> tuple[Step, ...]:
        """MongoDB's volume, grown beside its StatefulSet, where its class lets it."""
        name = self._o.names.mongodb_claim
        live = self._o.live.get((PERSISTENT_VOLUME_CLAIM, name))
        size = self.fitting(name, _volume(self._spec.mongodb.storage, MONGODB_SIZE)).size
        if not self._managed or live is None or not larger(size, _claimed(live.spec).size):
            return ()
        body = {"spec": {"resources": {"requests": {"storage": size}}}}
        return (Patch(PERSISTENT_VOLUME_CLAIM, live.metadata.key, live.metadata.uid, body),)

    def ignored(self) -> tuple[str, ...]:
        """What was asked of volumes and cannot be had."""
        names = self._o.names
        found = []
        if self._managed:
            wanted = _volume(self._spec.mongodb.storage, MONGODB_SIZE)
            found.append(self.fitting(names.mongodb_claim, wanted).ignored)
        if self._spec.meilisearch.enabled:
            found.append(self.meilisearch_volume.ignored)
        return tuple(each for each in found if each)

    def fitting(self, name: str, wanted: Volume) -> Volume:
        """The volume of this name that there can be; a class that nobody named is the server's to fill in."""
        live = self._o.live.get((PERSISTENT_VOLUME_CLAIM, name))
        claimed = Volume("") if live is None else _claimed(live.spec)
        found = grown(claimed, wanted, grows=name in self._o.growing)
        return found if wanted.storage_class else replace(found, storage_class="")


def _volume(wanted: Storage, size: str) -> Volume:
    return Volume(wanted.size or size, wanted.storage_class_name)


def _claimed(spec: Any) -> Volume:
    requests = spec.get("resources", {}).get("requests", {})
    return Volume(str(requests.get("storage", "")), str(spec.get("storageClassName", "")))
