"""What can go wrong, as a user of the development cluster needs to know it."""


class DevClusterError(Exception):
    """Something about the development cluster failed; the message says what to do."""


class BuildError(DevClusterError):
    """A program could not be built."""


class AuditUnavailableError(DevClusterError):
    """The audit log cannot be read, since the API server is not ours. Tests skip on it."""


class DeadlineError(DevClusterError):
    """Something was waited for in vain."""
