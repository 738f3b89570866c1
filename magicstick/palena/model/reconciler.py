"""The reconciler of models: what it watches, and what it sees of one."""

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, Final

from magicstick.api.base import Model
from magicstick.api.kinds import LITELLM_MODEL, MODEL_ACTIVATION, PALENA_GATEWAY, PALENA_MODEL
from magicstick.api.palena.model import PalenaModelSpec
from magicstick.api.palena.shared import AllowedConsumers
from magicstick.api.palena.shared import Reference as GatewayReference
from magicstick.api.parse import InvalidSpec, parse
from magicstick.kube.errors import ApiError
from magicstick.kube.kinds import Kind, ObjectKey
from magicstick.kube.objects import Resource
from magicstick.palena.common import labels
from magicstick.palena.common.declaring import declare
from magicstick.palena.common.edges import definitions, gateway_changed, owned, read_secrets, schema
from magicstick.palena.common.facts import PalenaFacts
from magicstick.palena.common.frame import Subject
from magicstick.palena.common.model_refs import gateways_of
from magicstick.palena.common.references import resolve
from magicstick.palena.common.referrers import Reference, Referrers
from magicstick.palena.common.secrets import SECRET, SecretValue, read_key
from magicstick.palena.model import names
from magicstick.palena.model.bridge import bridged
from magicstick.palena.model.decide import decide, decide_failure
from magicstick.palena.model.observation import Bridged, GatewayRef, ModelObservation
from magicstick.runtime.plan import Plan
from magicstick.runtime.reads import Reads
from magicstick.runtime.reconciler import Declaration, Edge

NAME: Final = "palena-model"
READ: Final = (PALENA_GATEWAY, LITELLM_MODEL, SECRET)
"""What a decision rests on: none is made while one of these cannot be read."""
MADE: Final = (LITELLM_MODEL, SECRET)
"""What is made for a model."""


class ModelReconciler:
    """Keeps one LiteLLMModel on each gateway that a PalenaModel names, and its status.

    The watch needs: PalenaModels and PalenaGateways, LiteLLMModels, Secrets, ModelActivations, and the
    definitions of foreign kinds.
    """

    def __init__(self, facts: PalenaFacts, reads: Reads) -> None:
        self._facts = facts
        self._readers = Referrers(reads, PALENA_MODEL, _references)
        self._made = {kind: Referrers(reads, kind, _maker) for kind in MADE}
        self._declaration = declare(NAME, PALENA_MODEL, edges=self._edges(), writes=MADE)

    @property
    def declaration(self) -> Declaration:
        """See `runtime.reconciler.Reconciler`."""
        return self._declaration

    def follow(self, wake: Callable[[Iterable[ObjectKey]], None]) -> None:
        """Nothing but watched objects matters here."""

    async def observe(self, key: ObjectKey) -> ModelObservation | None:
        """See `runtime.reconciler.Reconciler`."""
        live = self._facts.find(PALENA_MODEL, *key)
        return None if live is None else self._observation(live)

    def decide(self, observation: ModelObservation, now: datetime) -> Plan:
        """See `decide.decide`."""
        return decide(observation, now)

    def decide_failure(self, observation: ModelObservation, error: ApiError, now: datetime) -> Plan:
        """See `decide.decide_failure`."""
        return decide_failure(observation, error, now)

    # --- observing -------------------------------------------------------------------------------

    def _observation(self, model: Resource) -> ModelObservation:
        spec = parse(PalenaModelSpec, model)
        subject = Subject(
            model, spec, self._facts.prerequisites(LITELLM_MODEL), self._facts.blind(self._read(spec))
        )
        if subject.blind:
            return ModelObservation(subject)
        owned = tuple(self._owned(model.metadata.uid))
        if isinstance(spec, InvalidSpec):
            return ModelObservation(subject, owned=owned)
        return ModelObservation(
            subject,
            refs=self._refs(model, spec),
            api_key=self._api_key(model, spec),
            bridged=self._bridged(spec),
            owned=owned,
            schema=self._facts.schema(LITELLM_MODEL),
        )

    def _read(self, spec: PalenaModelSpec | InvalidSpec) -> tuple[Kind, ...]:
        bridges = isinstance(spec, PalenaModelSpec) and spec.model_activation_ref is not None
        return (*READ, MODEL_ACTIVATION) if bridges else READ

    def _owned(self, uid: str) -> Iterable[tuple[Kind, Resource]]:
        for kind, made in self._made.items():
            for key in made.of(PALENA_MODEL, "", uid):
                live = self._facts.find(kind, *key)
                if live is not None:
                    yield kind, live

    def _refs(self, model: Resource, spec: PalenaModelSpec) -> tuple[GatewayRef, ...]:
        """Each gateway once, also where one is named with its namespace and again without."""
        home, name = model.metadata.namespace, model.metadata.name
        places = dict.fromkeys(each.place(home) for each in spec.gateway_refs)
        refs = {each.place(home): each for each in spec.gateway_refs}
        return tuple(self._ref(refs[place], home, name) for place in places)

    def _ref(self, reference: GatewayReference, home: str, model: str) -> GatewayRef:
        namespace, gateway = reference.place(home)
        live = self._facts.find(PALENA_GATEWAY, namespace, gateway)
        return GatewayRef(
            resolve(reference, home, live, _consumers(live)),
            self._facts.find(LITELLM_MODEL, namespace, names.child(model, gateway)),
            self._facts.find(SECRET, namespace, names.credentials(model, gateway)),
        )

    def _api_key(self, model: Resource, spec: PalenaModelSpec) -> SecretValue | None:
        given = spec.provider.api_key_secret_ref
        if given is None:
            return None
        home = model.metadata.namespace
        return read_key(self._facts.find(SECRET, home, given.name), home, given.name, given.key)

    def _bridged(self, spec: PalenaModelSpec) -> Bridged | None:
        if spec.model_activation_ref is None:
            return None
        key = ObjectKey(spec.model_activation_ref.namespace, spec.model_activation_ref.name)
        served = self._facts.prerequisites(MODEL_ACTIVATION).met
        return bridged(key, self._facts.find(MODEL_ACTIVATION, *key), served=served)

    # --- waking ----------------------------------------------------------------------------------

    def _everyone(self) -> Iterable[ObjectKey]:
        return self._facts.keys(PALENA_MODEL)

    def _edges(self) -> tuple[Edge[Any], ...]:
        needed = (LITELLM_MODEL, MODEL_ACTIVATION)
        return (
            owned(LITELLM_MODEL, PALENA_MODEL, "what gateways say of the model", labelled=False),
            owned(SECRET, PALENA_MODEL, "whether copied keys are as they should be", labelled=False),
            read_secrets(self._readers.wakes(SECRET), "the provider's key"),
            Edge(
                PALENA_GATEWAY,
                self._readers.wakes(PALENA_GATEWAY),
                "where the gateway's LiteLLM is, and whether it is ready",
                gateway_changed,
            ),
            Edge(
                MODEL_ACTIVATION,
                self._readers.wakes(MODEL_ACTIVATION),
                "where a model of the appliance answers",
            ),
            definitions(needed, self._everyone, "whether the LiteLLM operator is there"),
            schema(LITELLM_MODEL, self._everyone),
        )


class _Consumers(Model):
    """Of a gateway's spec, who may refer to it: read for itself, since the rest may be wrong."""

    allowed_consumers: AllowedConsumers = AllowedConsumers()


def _consumers(gateway: Resource | None) -> AllowedConsumers | None:
    """Who may refer to a gateway; None where that cannot be read."""
    if gateway is None:
        return AllowedConsumers()
    read = parse(_Consumers, gateway)
    return read.allowed_consumers if isinstance(read, _Consumers) else None


def _references(model: Resource) -> Iterable[Reference]:
    """Everything that a model names, read from the object as it is stored."""
    home = model.metadata.namespace
    spec = parse(PalenaModelSpec, model)
    yield from gateways_of(model)
    if isinstance(spec, InvalidSpec):
        return
    if spec.provider.api_key_secret_ref is not None:
        yield SECRET, home, spec.provider.api_key_secret_ref.name
    if spec.model_activation_ref is not None:
        yield MODEL_ACTIVATION, spec.model_activation_ref.namespace, spec.model_activation_ref.name


def _maker(made: Resource) -> Iterable[Reference]:
    """For which owner an object was made, by its uid."""
    found = made.metadata.labels
    if found.get(labels.MANAGED_BY) == labels.OPERATOR and (uid := found.get(labels.OWNER_UID)):
        yield PALENA_MODEL, "", uid
