"""The physical cards (spec: gpu §11), and when a host is believed (spec: gpu §6.5)."""

import json
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magicstick.gpu import devices as module_under_test
from magicstick.gpu.devices import DEVICE_LIMIT, Device, Inventory, devices_of
from magicstick.gpu.evidence import CARD_LIMIT, TEXT_LIMIT, Evidence, evidence_of, inventory_content
from magicstick.gpu.nodes import NodeView
from magicstick.gpu.providers import providers_of
from tests.support.gpu_objects import AMD, NVIDIA, card, host, node
from tests.support.module_objects import shipped_catalog
from tests.support.module_world import NOW

PROVIDERS = providers_of(shipped_catalog())


def devices(module: str, *nodes: NodeView, enabled: bool = True) -> tuple[Device, ...]:
    return devices_of(PROVIDERS[module], Inventory(nodes, NOW), enabled=enabled, generation=4)


def of(view: NodeView) -> dict[str, Any]:
    """The one NVIDIA card of a node."""
    (device,) = devices("gpu", view)
    return dict(device)


def nvidia(*cards: dict[str, Any], **options: Any) -> NodeView:
    options.setdefault("allocatable", {"nvidia.com/gpu": "1"})
    return node("n1", NVIDIA, evidence=host("n1", *(cards or (card("10de"),))), **options)


@pytest.mark.req("MS-322")
def test_a_card_is_told_of_whole() -> None:
    assert of(nvidia()) == {
        "id": "uid-n1/0000:01:00.0",
        "node": "n1",
        "nodeUid": "uid-n1",
        "bootId": "boot-1",
        "vendor": "nvidia",
        "module": "gpu",
        "hostFingerprint": "ab" * 32,
        "activationGeneration": 4,
        "name": "Card 10de",
        "pciAddress": "0000:01:00.0",
        "pciId": "10de:2684",
        "architecture": "arch",
        "hostDriver": "nvidia",
        "hostDriverReady": True,
        "resourceRegistered": True,
        "memoryArchitecture": "discrete",
        "memoryTotalMi": 24564,
        "eligible": True,
    }


@pytest.mark.req("MS-322")
def test_shares_of_a_card_are_no_cards() -> None:
    shared = node(
        "n1",
        NVIDIA,
        AMD,
        labelled={"nvidia.com/gpu.memory": "24000", "nvidia.com/gpu.replicas": "4"},
        allocatable={"nvidia.com/gpu": "4", "amd.com/gpu": "1"},
        evidence=host("n1", card("10de"), card("1002", "0000:02:00.0")),
    )
    (one,), (other,) = devices("gpu", shared), devices("amd-gpu", shared)
    assert one["memoryTotalMi"] == 24000
    assert other["pciAddress"] == "0000:02:00.0"


@pytest.mark.req("MS-322")
def test_a_card_that_is_listed_twice_is_one_card() -> None:
    assert len(devices("gpu", nvidia(card("10de"), card("10de")))) == 1


def test_cards_of_other_vendors_stand_under_no_provider() -> None:
    view = node("n1", evidence=host("n1", card("1a03", "0000:03:00.0")))
    assert [devices(module, view) for module in PROVIDERS] == [(), (), ()]


@pytest.mark.parametrize(
    "address", ["", "01:00.0", "0000:01:00.8", "0000:0G:00.0", "0000:0A:00.0", "0000:01:00.0\n", 7, None]
)
def test_a_card_at_no_pci_address_is_left_out(address: object) -> None:
    assert devices("gpu", nvidia(card("10de") | {"pciAddress": address})) == ()


def test_a_card_without_a_name_is_called_after_its_vendor() -> None:
    assert of(nvidia(card("10de", name="")))["name"] == "NVIDIA GPU"


@pytest.mark.parametrize("driver", ["", "nouveau", "vfio-pci"])
def test_the_wrong_driver_makes_a_card_ineligible(driver: str) -> None:
    device = of(nvidia(card("10de", driver=driver)))
    assert (device["hostDriverReady"], device["eligible"]) == (False, False)


@pytest.mark.parametrize(
    "options",
    [{"ready": False}, {"cordoned": True}, {"allocatable": {}}, {"allocatable": {"nvidia.com/gpu": "0"}}],
)
def test_a_card_is_eligible_on_a_usable_node_alone(options: dict[str, Any]) -> None:
    assert of(nvidia(**options))["eligible"] is False


def test_a_card_of_a_module_that_is_off_is_not_eligible() -> None:
    (device,) = devices("gpu", nvidia(), enabled=False)
    assert device["eligible"] is False


def test_whether_an_amd_card_is_eligible_is_not_said_here() -> None:
    view = node("n1", AMD, evidence=host("n1", card("1002")), allocatable={"amd.com/gpu": "1"})
    (device,) = devices("amd-gpu", view)
    assert "eligible" not in device
    assert device["resourceRegistered"] is True


@pytest.mark.parametrize(("driver", "resource"), [("xe", "gpu.intel.com/xe"), ("i915", "gpu.intel.com/i915")])
def test_intel_offers_a_card_under_the_name_of_its_driver(driver: str, resource: str) -> None:
    for name in ("gpu.intel.com/xe", "gpu.intel.com/i915"):
        view = node("n1", evidence=host("n1", card("8086", driver=driver)), allocatable={name: "1"})
        (device,) = devices("intel-gpu", view)
        assert device["resourceRegistered"] is (name == resource)


def test_nvidias_own_labels_speak_of_a_single_card_only() -> None:
    labels = {
        "nvidia.com/gpu.memory": "81559",
        "nvidia.com/gpu.compute.major": "9",
        "nvidia.com/gpu.compute.minor": "0",
    }
    device = of(nvidia(labelled=labels))
    assert (device["memoryTotalMi"], device["architecture"]) == (81559, "CUDA 9.0")
    two = nvidia(card("10de"), card("10de", "0000:02:00.0"), labelled=labels)
    assert [(each["memoryTotalMi"], each["architecture"]) for each in devices("gpu", two)] == [
        (24564, "arch"),
        (24564, "arch"),
    ]


def test_labels_that_are_no_numbers_are_not_believed() -> None:
    labels = {"nvidia.com/gpu.memory": "much", "nvidia.com/gpu.compute.major": "new"}
    device = of(nvidia(labelled=labels))
    assert (device["memoryTotalMi"], device["architecture"]) == (24564, "arch")


def test_the_minor_version_defaults_to_zero() -> None:
    assert of(nvidia(labelled={"nvidia.com/gpu.compute.major": "8"}))["architecture"] == "CUDA 8.0"


@pytest.mark.parametrize("memory", [None, 0, -1, True, "24564", 2**60])
def test_memory_that_is_no_size_is_left_out(memory: object) -> None:
    assert "memoryTotalMi" not in of(nvidia(card("10de") | {"memoryTotalMi": memory}))


def test_only_the_single_amd_card_of_a_unified_host_is_unified() -> None:
    one, two = card("1002"), card("1002", "0000:02:00.0")
    told = [
        [device["memoryArchitecture"] for device in devices("amd-gpu", view)]
        for view in (
            node("n1", evidence=host("n1", one, memoryArchitecture="unified")),
            node("n1", evidence=host("n1", one, two, memoryArchitecture="unified")),
        )
    ]
    assert told == [["unified"], ["discrete", "discrete"]]


def test_devices_are_listed_by_node_and_address() -> None:
    views = [
        node(name, evidence=host(name, card("10de", "0000:02:00.0"), card("10de"))) for name in ("b", "a")
    ]
    told = [(device["node"], device["pciAddress"]) for device in devices("gpu", *views)]
    assert told == [
        ("a", "0000:01:00.0"),
        ("a", "0000:02:00.0"),
        ("b", "0000:01:00.0"),
        ("b", "0000:02:00.0"),
    ]


def test_many_cards_are_bounded() -> None:
    many = [card("10de", f"0000:{number:02x}:00.0") for number in range(200)]
    assert len(devices("gpu", nvidia(*many))) == CARD_LIMIT
    views = [node(f"n{number}", evidence=host(f"n{number}", *many)) for number in range(4)]
    assert len(devices("gpu", *views)) == DEVICE_LIMIT


def test_long_texts_are_cut() -> None:
    assert len(str(of(nvidia(card("10de", name="x" * 9999)))["name"])) == TEXT_LIMIT


@pytest.mark.req("MS-322")
@pytest.mark.parametrize(
    "change",
    [
        {"nodeUid": "another"},
        {"bootId": "another"},
        {"kernelVersion": "another"},
        {"fingerprint": "AB" * 32},
        {"fingerprint": "ab" * 31},
        {"fingerprint": None},
        {"generatedAt": None},
        {"generatedAt": "yesterday"},
        {"generatedAt": "2025-12-31T11:59:59Z"},
        {"generatedAt": "2026-01-01T12:05:01Z"},
        {"generatedAt": "0001-01-01T00:00:00+23:59"},
    ],
)
def test_evidence_that_is_not_of_this_node_now_lists_no_card(change: dict[str, Any]) -> None:
    assert devices("gpu", node("n1", NVIDIA, evidence=host("n1", card("10de"), **change))) == ()


@pytest.mark.parametrize(
    "moment", ["2025-12-31T12:00:00Z", "2026-01-01T12:05:00Z", "2026-01-01T13:00:00+01:00"]
)
def test_evidence_of_the_last_day_is_believed(moment: str) -> None:
    assert len(devices("gpu", node("n1", evidence=host("n1", card("10de"), generatedAt=moment)))) == 1


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '"x"', "[" * 5000, '{"displayDevices": 7}'])
def test_evidence_of_another_form_is_none(text: str) -> None:
    assert evidence_of(node("n1", evidence=text), NOW) is None


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda each: st.lists(each) | st.dictionaries(st.text(), each),
        max_leaves=20,
    )
)
def test_whatever_a_host_writes_never_raises(value: Any) -> None:
    for cards in (value, [value], [{"pciAddress": "0000:01:00.0", "vendorId": "10de", "name": value}]):
        devices("gpu", node("n1", evidence=host("n1") | {"displayDevices": cards}))
    devices("gpu", node("n1", evidence=host("n1") | {"generatedAt": value, "fingerprint": value}))


def test_a_fresh_report_of_the_same_is_the_same() -> None:
    old, new = (node("n1", evidence=host("n1", generatedAt=text)) for text in ("a", "b"))
    assert inventory_content(old) == inventory_content(new) != {}


def test_only_hosts_are_read_that_may_have_what_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def reading(view: NodeView, now: datetime) -> Evidence | None:
        read.append(view.name)
        return evidence_of(view, now)

    monkeypatch.setattr(module_under_test, "evidence_of", reading)
    names = [f"n{number:03}" for number in range(1000)]
    nodes = [node(name, NVIDIA, evidence=host(name, card("10de"))) for name in names]
    inventory = Inventory(nodes, NOW)
    told = {
        module: devices_of(provider, inventory, enabled=True, generation=1)
        for module, provider in PROVIDERS.items()
    }
    assert [device["node"] for device in told["gpu"]] == names[:DEVICE_LIMIT]
    assert read == names[: DEVICE_LIMIT + 1]
    assert (told["amd-gpu"], told["intel-gpu"]) == ((), ())


@pytest.mark.parametrize("written", ["10DE", "0x10de", "\\u0031\\u0030de"])
def test_an_id_is_found_however_it_is_written(written: str) -> None:
    text = json.dumps(host("n1", card("10de"))).replace('"10de"', f'"{written}"')
    assert [device["pciId"] for device in devices("gpu", node("n1", evidence=text))] == ["10de:2684"]
