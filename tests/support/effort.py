"""How many examples a property is tried with, in an ordinary run and in a thorough one.

`make test ARGS=--hypothesis-profile=thorough` tries each property with twenty times as many examples.
"""

from typing import Final

from hypothesis import HealthCheck, settings

ORDINARY: Final = 50
THOROUGH: Final = 20 * ORDINARY


def register() -> None:
    """Make the profiles known, and the ordinary one the default.

    How long an example takes says nothing of whether the code is right, and much of what else runs beside it.
    """
    patient = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.register_profile("ordinary", patient, max_examples=ORDINARY)
    settings.register_profile("thorough", patient, max_examples=THOROUGH)
    settings.load_profile("ordinary")


def examples(number: int, *, steps: int = 50) -> settings:
    """For a property whose faults are rarer, or whose examples cost more, than those of others.

    Args:
        number: examples of an ordinary run.
        steps: the longest way of a state machine.
    """
    times = settings().max_examples // ORDINARY
    return settings(max_examples=number * times, stateful_step_count=steps)
