"""Measurements of the operator beside their yardsticks, on a real control plane: `make bench`.

Every figure stands next to one measured in the same run by a bare client (`bare.py`), because only
the ratio says something about the operator; the absolute number says something about the machine.
"""
