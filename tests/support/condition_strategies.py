"""Generated conditions and statuses."""

from datetime import UTC, datetime
from typing import Any

from hypothesis import strategies as st

from magicstick.runtime.conditions import Condition, condition

TYPES = ["Ready", "Reconciling", "Stalled", "CatalogsValid", "RuntimeReady"]


def moments() -> st.SearchStrategy[datetime]:
    """Times in UTC."""
    return st.datetimes(datetime(2020, 1, 1), datetime(2030, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001 - hypothesis adds the zone


def conditions() -> st.SearchStrategy[list[Condition]]:
    """Conditions without transition times, each type at most once."""
    one = st.builds(
        condition,
        st.sampled_from(TYPES),
        st.sampled_from(["True", "False", "Unknown"]),
        st.sampled_from(["Ready", "Waiting", "Broken"]),
        st.text(max_size=5),
        st.integers(1, 3),
    )
    return st.lists(one, max_size=4, unique_by=lambda entry: str(entry["type"]))


def statuses() -> st.SearchStrategy[dict[str, Any]]:
    """Statuses as a reconciler computes them."""
    values = st.recursive(
        st.none() | st.booleans() | st.integers(-2, 2) | st.text(max_size=3),
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
        ),
        max_leaves=5,
    )
    return st.fixed_dictionaries(
        {"phase": st.sampled_from(["Ready", "Waiting"]), "conditions": conditions()},
        optional={"observedGeneration": st.integers(1, 3), "modules": values, "message": values},
    )
