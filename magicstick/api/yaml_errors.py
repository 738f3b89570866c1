"""What reading YAML may raise for a text that somebody else wrote."""

from typing import Final

import yaml

YAML_ERRORS: Final = (yaml.YAMLError, RecursionError, ValueError, LookupError, AttributeError)
"""PyYAML lets through what Python says of a value that is not what its tag or its form promises: `!!int x`,
`!!bool x`, `!!timestamp x`, `2024-99-99`, a number of thousands of digits."""
