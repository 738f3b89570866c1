"""Why GPUs cannot be used: the vendor's entry, its module, and the nodes."""

from collections.abc import Iterator

from magicstick.api.kinds import KUSTOMIZATION, MODULE_ACTIVATION
from magicstick.gpu.assessment import Assessment
from magicstick.gpu.facts import NodeView, ProviderPhase, ProviderState
from magicstick.kube.kinds import CUSTOM_RESOURCE_DEFINITION, NODE, ObjectKey
from magicstick.why.causes import Cause, Explanation, Hint, Subject, healthy, kubectl, unhealthy
from magicstick.why.flux import explain_kustomization
from magicstick.why.operator import lease_of
from magicstick.why.sight import Sight
from magicstick.why.subjects import catalog_subject, unread

DISCOVERY = "hardware-discovery"
"""The module that labels the nodes."""


def explain_hardware(subject: Subject, sight: Sight) -> Explanation:
    """By the phase of the vendor's entry (spec: gpu §4)."""
    state = sight.hardware.get(subject.name)
    if state is None:
        known = ", ".join(sorted(sight.hardware))
        hint = Hint(f"The vendors' modules are: {known}.", "magicstick why hardware/gpu")
        return unhealthy(Cause(subject, "is not the module of a GPU vendor", hint=hint))
    sentence = f"is {state.phase}: {state.message}"
    if state.assessment is None:
        place = catalog_subject(sight)
        hint = Hint("See what the module catalog has.", place.command("get", "-o", "yaml"))
        because = (*unread((NODE, CUSTOM_RESOURCE_DEFINITION), sight), place)
        return unhealthy(Cause(subject, sentence, because, hint))
    cause = _cause(Cause(subject, sentence), state, state.assessment, sight)
    if state.phase is ProviderPhase.READY:
        return healthy(subject, sentence)
    if state.phase is ProviderPhase.NOT_REQUIRED and not cause.because:
        return healthy(subject, sentence, cause)
    return unhealthy(cause)


def _cause(cause: Cause, state: ProviderState, found: Assessment, sight: Sight) -> Cause:
    match state.phase:
        case ProviderPhase.NOT_REQUIRED | ProviderPhase.UNKNOWN:
            return _unlabelled(cause, found, sight)
        case ProviderPhase.DETECTED:
            look = kubectl("get", "moduleactivations", namespace=sight.facts.site.appliance_namespace)
            hint = Hint("Remove what is in the way.", look)
            return _with(cause, *(() if found.obstacle else (lease_of(sight),)), hint=hint)
        case ProviderPhase.CONFLICT:
            return _with(cause, hint=_foreign(found))
        case ProviderPhase.UNSUPPORTED:
            return _with(cause, hint=_nodes(found, "See the labels and versions of the nodes."))
        case ProviderPhase.INSTALLING if found.situation.module_phase == "Ready":
            return _unallocatable(cause, found, sight)
        case _:
            return _with(cause, *_activation(found, sight))


def _with(cause: Cause, *because: Subject, hint: Hint | None = None) -> Cause:
    return Cause(cause.subject, cause.sentence, because, hint)


def _unlabelled(cause: Cause, found: Assessment, sight: Sight) -> Cause:
    """Nobody says that there is such hardware: perhaps because what would say it does not run."""
    label = found.provider.hardware.detection_label
    finder = sight.place(KUSTOMIZATION, sight.facts.flux_name(DISCOVERY) or DISCOVERY)
    because = () if explain_kustomization(finder, sight).healthy else (finder,)
    hint = Hint(f"A node with the hardware has the label {label}=true.", kubectl("get", "nodes", "-L", label))
    return _with(cause, *because, hint=hint)


def _activation(found: Assessment, sight: Sight) -> Iterator[Subject]:
    activation = sight.facts.activation(found.provider.module)
    if activation is not None:
        yield Subject.of(MODULE_ACTIVATION, activation.metadata.key)


def _foreign(found: Assessment) -> Hint:
    names = found.provider.definition.required_crds
    text = "Remove the foreign operator and its definitions, or have it serve the GPUs of a compatible node."
    return Hint(text, kubectl("get", "customresourcedefinition", *names))


def _unallocatable(cause: Cause, found: Assessment, sight: Sight) -> Cause:
    """The operator runs, and no GPU can be had: nodes that are not Ready, or the device plugin."""
    broken = [Subject(NODE, name) for name in found.compatible]
    because = tuple(each for each in broken if not explain_node(each, sight).healthy)
    resource = found.provider.hardware.resource_names[0] if found.provider.hardware.resource_names else ""
    hint = _nodes(found, f"See why no node offers {resource}: its device plugin has to run there.")
    return _with(cause, *because, hint=hint)


def _nodes(found: Assessment, text: str) -> Hint:
    return Hint(text, kubectl("describe", "nodes", *found.detected[:3]))


def explain_node(subject: Subject, sight: Sight) -> Explanation:
    """Why a node offers nothing."""
    if blocked := sight.obstacle(subject):
        return blocked
    node = sight.stores.store(NODE).get(ObjectKey("", subject.name))
    if not isinstance(node, NodeView):
        hint = Hint("See which there are.", kubectl("get", "nodes"))
        return unhealthy(Cause(subject, "does not exist", hint=hint))
    if not node.ready:
        sentence = "is not Ready: its kubelet does not report, or is not well"
        hint = Hint("See its conditions.", subject.command("describe"))
        return unhealthy(Cause(subject, sentence, hint=hint))
    return healthy(subject, "is Ready")
